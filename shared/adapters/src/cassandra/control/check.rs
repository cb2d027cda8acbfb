//! Which documents a cluster can serve.

use super::ControlSettings;
use quipu_schemas::namespace::{Mode, NamespaceDocument, Persistence, PersistenceId, StorageKind};

/// Refuses what the cluster does not have. The text names the field and says what to change.
pub(super) fn check(
    document: &NamespaceDocument,
    settings: &ControlSettings,
) -> Result<(), String> {
    document.check().map_err(|error| error.to_string())?;
    let retention = settings.dataset.shape.retention;
    if document.accept_limit > retention {
        let limit = document.accept_limit;
        return Err(format!(
            "accept_limit: events are accepted for {limit:?} but kept for {retention:?} only; \
             lower it or let the server keep events longer"
        ));
    }
    let (limit, guard) = (document.accept_limit, settings.append_guard);
    if limit <= guard {
        return Err(format!(
            "accept_limit: an event is acknowledged only when the log has it {guard:?} before it \
             would be late (gateway.append_guard), so with {limit:?} none ever would be; raise it \
             above {guard:?}"
        ));
    }
    let entries = document.persistence.iter().enumerate();
    for (at, entry) in entries.clone() {
        check_persistence(at, entry, document.mode, settings)?;
        let mut earlier = entries.clone().take(at);
        if earlier.any(|(_, earlier)| earlier.id == entry.id) {
            return Err(format!(
                "persistence[{at}].id: there is one of this kind already"
            ));
        }
    }
    Ok(())
}

fn check_persistence(
    at: usize,
    entry: &Persistence,
    mode: Mode,
    settings: &ControlSettings,
) -> Result<(), String> {
    let storage = &entry.physical_storage;
    let field = format!("persistence[{at}].physical_storage");
    let (kind, name) = match entry.id {
        PersistenceId::Cache => (StorageKind::Redis, "REDIS"),
        PersistenceId::EventStore | PersistenceId::RollupStore => {
            (StorageKind::Cassandra, "CASSANDRA")
        }
    };
    if storage.kind != kind {
        return Err(format!(
            "{field}.type: this server keeps this kind of data on {name}; use that"
        ));
    }
    if storage.cluster != settings.cluster {
        return Err(format!(
            "{field}.cluster: there is no cluster {:?} here; declare it with `quipu cluster apply`, \
             or name one that is declared",
            storage.cluster
        ));
    }
    let dataset = &settings.dataset.name;
    match (&storage.dataset, entry.id) {
        (None, _) => {}
        (Some(asked), PersistenceId::EventStore) if asked == dataset => {}
        (Some(_), _) => {
            return Err(format!(
                "{field}.dataset: the cluster {} has one dataset, {dataset:?}, for the EVENT_STORE; \
                 leave it out",
                settings.cluster
            ));
        }
    }
    match (entry.ttl, entry.id) {
        (None, _) => Ok(()),
        (_, PersistenceId::Cache) if mode == Mode::BestEffort => Ok(()),
        (ttl, PersistenceId::Cache) if ttl == settings.cache_ttl => Ok(()),
        (Some(_), _) => Err(format!(
            "persistence[{at}].ttl: how long the cache keeps a value is a setting of the server \
             ({:?}); leave ttl out",
            settings.cache_ttl
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cassandra::{CassandraDataset, Claims},
        embedded::Dataset,
    };
    use std::time::Duration;

    fn checked(fields: &str) -> Result<(), String> {
        let json = format!(r#"{{"namespace": "a", {fields}}}"#);
        let document = NamespaceDocument::from_json(json.as_bytes()).expect("a document");
        let shape = Dataset {
            retention: Duration::from_hours(1),
            ..Dataset::default()
        };
        let dataset = CassandraDataset {
            shape,
            ..CassandraDataset::default()
        };
        let settings = ControlSettings {
            cluster: "default".to_owned(),
            claims: Claims::Here,
            events_topic: "quipu-events".to_owned(),
            dataset,
            cache_ttl: Some(Duration::from_hours(24)),
            append_guard: Duration::from_secs(1),
        };
        check(&document, &settings)
    }

    #[test]
    fn what_the_cluster_has_is_allowed() {
        let fields = r#""persistence": [
            {"id": "CACHE", "physical_storage": {"type": "REDIS"}, "ttl": "1d"},
            {"id": "EVENT_STORE", "physical_storage": {"type": "CASSANDRA", "dataset": "default"}},
            {"id": "ROLLUP_STORE", "physical_storage": {"type": "CASSANDRA"}}]"#;
        assert_eq!(checked(fields), Ok(()));
        assert_eq!(checked(r#""type": "ACCURATE""#), Ok(()));
        assert_eq!(checked(r#""accept_limit": "1001ms""#), Ok(()));
    }

    #[test]
    fn counters_of_best_effort_live_as_long_as_their_namespace_says() {
        let cache = r#""persistence": [
            {"id": "CACHE", "physical_storage": {"type": "REDIS"}, "ttl": "1h"}]"#;
        let best_effort = format!(r#""type": "BEST_EFFORT", {cache}"#);
        assert_eq!(checked(&best_effort), Ok(()));
        let refused = checked(cache).expect_err("refused");
        assert!(refused.starts_with("persistence[0].ttl: "), "{refused}");
    }

    #[test]
    fn what_the_cluster_does_not_have_is_refused_by_the_field_s_name() {
        let storage = |id, fields| {
            format!(r#""persistence": [{{"id": "{id}", "physical_storage": {{{fields}}}}}]"#)
        };
        for (fields, named) in [
            (r#""accept_limit": "2h""#.to_owned(), "accept_limit"),
            (r#""accept_limit": "1s""#.to_owned(), "accept_limit"),
            (
                storage("CACHE", r#""type": "EMBEDDED""#),
                "persistence[0].physical_storage.type",
            ),
            (
                storage("EVENT_STORE", r#""type": "CASSANDRA", "dataset": "other""#),
                "persistence[0].physical_storage.dataset",
            ),
            (
                storage("ROLLUP_STORE", r#""type": "CASSANDRA", "cluster": "x""#),
                "persistence[0].physical_storage.cluster",
            ),
        ] {
            let text = checked(&fields).expect_err("refused");
            assert!(text.starts_with(&format!("{named}: ")), "{text}");
        }
    }
}
