//! Which documents an embedded node can serve.

use quipu_schemas::namespace::{Mode, NamespaceDocument, Persistence, PersistenceId, StorageKind};
use std::time::Duration;

/// Refuses what an embedded node does not have. The text names the field and says what to change.
pub(super) fn check(document: &NamespaceDocument, retention: Duration) -> Result<(), String> {
    document.check().map_err(|error| error.to_string())?;
    if document.accept_limit > retention {
        let [limit, kept] = [document.accept_limit, retention];
        return Err(format!(
            "accept_limit: events are accepted for {limit:?} but kept for {kept:?} only; lower it \
             or let the server keep events longer"
        ));
    }
    let entries = document.persistence.iter().enumerate();
    for (at, entry) in entries.clone() {
        check_persistence(at, entry, document.mode)?;
        if entries
            .clone()
            .take(at)
            .any(|(_, earlier)| earlier.id == entry.id)
        {
            return Err(format!(
                "persistence[{at}].id: there is one of this kind already"
            ));
        }
    }
    Ok(())
}

fn check_persistence(at: usize, entry: &Persistence, mode: Mode) -> Result<(), String> {
    let storage = &entry.physical_storage;
    let field = format!("persistence[{at}].physical_storage");
    if storage.kind != StorageKind::Embedded {
        return Err(format!(
            "{field}.type: this server keeps everything EMBEDDED; use that"
        ));
    }
    if storage.cluster != "default" {
        return Err(format!(
            "{field}.cluster: this server has no {:?}; leave it out, or use \"default\"",
            storage.cluster
        ));
    }
    let dataset = storage.dataset.as_deref().unwrap_or("default");
    if dataset != "default" || (storage.dataset.is_some() && entry.id != PersistenceId::EventStore)
    {
        return Err(format!(
            "{field}.dataset: this server has one dataset, \"default\", for the EVENT_STORE; \
             leave it out"
        ));
    }
    if entry.ttl.is_some() && mode != Mode::BestEffort {
        return Err(format!(
            "persistence[{at}].ttl: the embedded cache is bounded by its size; leave ttl out, \
             unless the namespace is BEST_EFFORT"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(json: &str) -> String {
        let document = NamespaceDocument::from_json(json.as_bytes()).unwrap();
        check(&document, Duration::from_mins(1)).unwrap_err()
    }

    #[test]
    fn counters_of_best_effort_live_as_long_as_their_namespace_says() {
        let json = r#"{"namespace": "a", "type": "BEST_EFFORT", "persistence": [
            {"id": "CACHE", "physical_storage": {"type": "EMBEDDED"}, "ttl": "1h"}]}"#;
        let document = NamespaceDocument::from_json(json.as_bytes()).unwrap();
        assert_eq!(check(&document, Duration::from_mins(1)), Ok(()));
        assert_eq!(document.counter_ttl(), Duration::from_hours(1));
    }

    #[test]
    fn what_the_server_does_not_have_is_refused_by_the_field_s_name() {
        for (fields, named) in [
            (r#""accept_limit": "61s""#, "accept_limit"),
            (
                r#""persistence": [{"id": "CACHE", "physical_storage": {"type": "REDIS"}}]"#,
                "persistence[0].physical_storage.type",
            ),
            (
                r#""persistence": [{"id": "CACHE",
                    "physical_storage": {"type": "EMBEDDED", "cluster": "x"}}]"#,
                "persistence[0].physical_storage.cluster",
            ),
            (
                r#""persistence": [{"id": "CACHE", "ttl": "1d",
                    "physical_storage": {"type": "EMBEDDED"}}]"#,
                "persistence[0].ttl",
            ),
        ] {
            let text = refusal(&format!(r#"{{"namespace": "a", {fields}}}"#));
            assert!(text.starts_with(&format!("{named}: ")), "{text}");
        }
    }
}
