//! The configuration of a declared cluster: its document over the process's own configuration.

use super::{Config, ConfigError, Consistency, Topics};
use quipu_schemas::cluster::{ClusterConsistency, ClusterDocument};
use std::{collections::BTreeSet, fmt::Debug};

/// Sets what a document gives.
fn set<T: Clone>(own: &mut T, given: Option<&T>) {
    if let Some(given) = given {
        own.clone_from(given);
    }
}

/// The same, where the process's own may be none.
fn set_some<T: Clone>(own: &mut Option<T>, given: Option<&T>) {
    if given.is_some() {
        *own = given.cloned();
    }
}

impl Config {
    /// What holds for a declared cluster. The files that it names are not looked at.
    #[must_use]
    pub fn of_cluster(&self, document: &ClusterDocument) -> Self {
        let mut config = self.clone();
        config.set_kafka(document);
        config.set_cassandra(document);
        config.set_redis(document);
        let (own, given) = (&mut config.cassandra, &document.dataset);
        set(&mut own.dataset, given.name.as_ref());
        set(&mut own.slice, given.slice.as_ref());
        set(&mut own.bucket, given.bucket.as_ref());
        set(&mut own.event_buckets, given.event_buckets.as_ref());
        set(&mut own.retention, given.retention.as_ref());
        config.ingest.group = document.prefixed("ingest");
        config.rollup.group = document.prefixed("rollup");
        config
    }

    fn set_kafka(&mut self, document: &ClusterDocument) {
        let (own, given) = (&mut self.kafka, &document.kafka);
        set(&mut own.brokers, given.brokers.as_ref());
        if !given.properties.is_empty() {
            own.properties.clone_from(&given.properties);
        }
        set_some(
            &mut own.sasl_password_file,
            given.sasl_password_file.as_ref(),
        );
        own.topics = Topics {
            events: document.prefixed("events"),
            signals: document.prefixed("signals"),
            watermarks: document.prefixed("watermarks"),
            dead_letters: document.prefixed("events-dlq"),
        };
        set(&mut own.event_partitions, given.event_partitions.as_ref());
        set(&mut own.signal_partitions, given.signal_partitions.as_ref());
        set(
            &mut own.replication_factor,
            given.replication_factor.as_ref(),
        );
        set(
            &mut own.min_insync_replicas,
            given.min_insync_replicas.as_ref(),
        );
        set(&mut own.retention, given.retention.as_ref());
    }

    fn set_cassandra(&mut self, document: &ClusterDocument) {
        let (own, given) = (&mut self.cassandra, &document.cassandra);
        own.keyspace.clone_from(&given.keyspace);
        set(&mut own.contact_points, given.contact_points.as_ref());
        set_some(&mut own.local_datacenter, given.local_datacenter.as_ref());
        let consistency = given.consistency.map(|given| match given {
            ClusterConsistency::One => Consistency::One,
            ClusterConsistency::Quorum => Consistency::Quorum,
            ClusterConsistency::LocalQuorum => Consistency::LocalQuorum,
        });
        set(&mut own.consistency, consistency.as_ref());
        set(
            &mut own.replication_factor,
            given.replication_factor.as_ref(),
        );
        set(&mut own.datacenters, given.datacenters.as_ref());
        set_some(&mut own.username, given.username.as_ref());
        set_some(&mut own.password_file, given.password_file.as_ref());
        set_some(&mut own.tls_ca_file, given.tls_ca_file.as_ref());
        set_some(
            &mut own.tls_certificate_file,
            given.tls_certificate_file.as_ref(),
        );
        set_some(&mut own.tls_key_file, given.tls_key_file.as_ref());
    }

    fn set_redis(&mut self, document: &ClusterDocument) {
        let (own, given) = (&mut self.redis, &document.redis);
        document.key_prefix().clone_into(&mut own.key_prefix);
        set(&mut own.address, given.address.as_ref());
        set(&mut own.database, given.database.as_ref());
        set(&mut own.replicas, given.replicas.as_ref());
        set_some(&mut own.username, given.username.as_ref());
        set_some(&mut own.password_file, given.password_file.as_ref());
        set(&mut own.tls, given.tls.as_ref());
        set_some(&mut own.tls_ca_file, given.tls_ca_file.as_ref());
        set(&mut own.ttl, given.ttl.as_ref());
    }

    /// Checks that a document may be declared beside others, in the place of one before it: no two
    /// clusters share anything, and what was counted is found again. The text says what and what to
    /// do.
    ///
    /// # Errors
    /// Names the field, and the reason.
    pub fn check_declaration<'a>(
        &self,
        others: impl IntoIterator<Item = &'a ClusterDocument>,
        before: Option<&ClusterDocument>,
        asked: &ClusterDocument,
    ) -> Result<(), String> {
        asked.check().map_err(|error| error.to_string())?;
        let config = self.of_cluster(asked);
        config
            .check_servers()
            .map_err(|error| in_document(&error))?;
        check_apart("default", self, &config)?;
        for other in others {
            check_apart(&other.cluster, &self.of_cluster(other), &config)?;
        }
        before.map_or(Ok(()), |before| {
            check_change(&self.of_cluster(before), &config)
        })
    }
}

/// Refuses what another cluster has as well: whatever servers they are on, since one server may have
/// several names.
fn check_apart(other: &str, theirs: &Config, asked: &Config) -> Result<(), String> {
    let shared = |field: &str, name: &str| {
        Err(format!(
            "{field}: the cluster {other} has {name} already, and no two share anything; choose \
             another name"
        ))
    };
    let names = |config: &Config| {
        let topics = config.kafka.topics.clone();
        let (ingest, rollup) = (config.ingest.group.clone(), config.rollup.group.clone());
        let Topics {
            events,
            signals,
            watermarks,
            dead_letters,
        } = topics;
        let topics = [events, signals, watermarks, dead_letters].map(|name| ("the topic", name));
        let groups = [ingest, rollup].map(|name| ("the consumer group", name));
        topics.into_iter().chain(groups).collect::<BTreeSet<_>>()
    };
    if let Some((what, name)) = names(theirs).intersection(&names(asked)).next() {
        return shared("kafka.topic_prefix", &format!("{what} {name}"));
    }
    let keyspace = &asked.cassandra.keyspace;
    if theirs.cassandra.keyspace == *keyspace {
        return shared("cassandra.keyspace", &format!("the keyspace {keyspace}"));
    }
    let prefix = &asked.redis.key_prefix;
    if theirs.redis.key_prefix == *prefix {
        return shared("redis.key_prefix", &format!("the keys of {prefix}"));
    }
    Ok(())
}

/// Refuses what would leave behind what was counted.
fn check_change(before: &Config, asked: &Config) -> Result<(), String> {
    let fixed = |field: &str, before: &dyn Debug, asked: &dyn Debug| {
        Err(format!(
            "{field}: it was declared as {before:?}, what was counted lies there, and {asked:?} \
             would not find it; leave it as it was, or declare another cluster"
        ))
    };
    let (was, is) = (&before.kafka, &asked.kafka);
    if was.topics != is.topics {
        let (was, is) = (&was.topics.events, &is.topics.events);
        return fixed("kafka.topic_prefix", was, is);
    }
    if was.signal_partitions != is.signal_partitions {
        let (was, is) = (was.signal_partitions, is.signal_partitions);
        return fixed("kafka.signal_partitions", &was, &is);
    }
    let (was, is) = (&before.redis.key_prefix, &asked.redis.key_prefix);
    if was != is {
        return fixed("redis.key_prefix", was, is);
    }
    let (was, is) = (&before.cassandra, &asked.cassandra);
    if was.keyspace != is.keyspace {
        return fixed("cassandra.keyspace", &was.keyspace, &is.keyspace);
    }
    if was.dataset != is.dataset {
        return fixed("dataset.name", &was.dataset, &is.dataset);
    }
    if was.slice != is.slice {
        return fixed("dataset.slice", &was.slice, &is.slice);
    }
    if is.retention < was.retention {
        let [was, is] = [was, is].map(|of| humantime::format_duration(of.retention));
        return Err(format!(
            "dataset.retention: events are promised to be kept for {was}, and {is} is less; it may \
             only be raised"
        ));
    }
    Ok(())
}

/// What is wrong, by the name that the field has in a document.
fn in_document(error: &ConfigError) -> String {
    let text = error.to_string();
    for (key, field) in [
        ("cassandra.dataset", "dataset.name"),
        ("cassandra.slice", "dataset.slice"),
        ("cassandra.bucket", "dataset.bucket"),
        ("cassandra.event_buckets", "dataset.event_buckets"),
        ("cassandra.retention", "dataset.retention"),
    ] {
        if let Some(rest) = text.strip_prefix(key) {
            return format!("{field}{rest}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn document(name: &str, kafka: &str, more: &str) -> ClusterDocument {
        let json = format!(
            r#"{{"cluster": "{name}", "kafka": {{"topic_prefix": "{name}-"{kafka}}},
                "cassandra": {{"keyspace": "quipu_{name}"}}{more}}}"#
        );
        ClusterDocument::from_json(json.as_bytes()).expect("a document")
    }

    #[test]
    fn what_a_document_leaves_out_is_as_the_process_has_it() {
        let mut own = Config::default();
        own.cassandra.contact_points = vec!["c:9042".to_owned()];
        own.cassandra.retention = Duration::from_hours(24);
        own.redis.address = "r:6379".to_owned();
        own.kafka.replication_factor = 3;
        let more = r#", "redis": {"database": 1}, "dataset": {"name": "d", "retention": "90d"}"#;
        let config = own.of_cluster(&document("b", r#", "brokers": ["k:9092"]"#, more));
        assert_eq!(config.kafka.brokers, ["k:9092"]);
        assert_eq!(config.kafka.replication_factor, 3);
        assert_eq!(config.kafka.topics.dead_letters, "b-events-dlq");
        assert_eq!(
            (&*config.ingest.group, &*config.rollup.group),
            ("b-ingest", "b-rollup")
        );
        assert_eq!(config.cassandra.contact_points, ["c:9042"]);
        assert_eq!(config.cassandra.keyspace, "quipu_b");
        assert_eq!(config.cassandra.dataset, "d");
        assert_eq!(config.cassandra.retention, Duration::from_hours(90 * 24));
        assert_eq!(config.cassandra.slice, own.cassandra.slice);
        let redis = (&*config.redis.address, config.redis.database);
        assert_eq!(redis, ("r:6379", 1));
        assert_eq!(config.redis.key_prefix, "quipu_b");
        assert_eq!(config.gateway, own.gateway);
    }

    fn refusal(
        others: &[ClusterDocument],
        before: Option<&ClusterDocument>,
        asked: &ClusterDocument,
    ) -> String {
        let checked = Config::default().check_declaration(others, before, asked);
        checked.expect_err("refused")
    }

    #[test]
    fn no_two_clusters_share_topics_keyspace_or_keys() {
        let (a, b) = (document("a", "", ""), document("b", "", ""));
        let own = Config::default();
        assert_eq!(own.check_declaration([&a], None, &b), Ok(()));
        assert_eq!(own.check_declaration([&a], Some(&b), &b), Ok(()));
        for (change, says) in [
            ("kafka", "kafka.topic_prefix: the cluster a has the "),
            (
                "cassandra",
                "cassandra.keyspace: the cluster a has the keyspace quipu_a",
            ),
            (
                "redis",
                "redis.key_prefix: the cluster a has the keys of quipu_a",
            ),
        ] {
            let mut asked = b.clone();
            match change {
                "kafka" => asked.kafka = a.kafka.clone(),
                "cassandra" => asked.cassandra = a.cassandra.clone(),
                _ => asked.redis.key_prefix = Some("quipu_a".to_owned()),
            }
            let told = refusal(std::slice::from_ref(&a), None, &asked);
            assert!(told.starts_with(says), "{told}");
        }
        let mut asked = b.clone();
        "quipu-".clone_into(&mut asked.kafka.topic_prefix);
        let told = refusal(&[], None, &asked);
        assert!(told.contains("the cluster default has"), "{told}");
    }

    #[test]
    fn a_change_that_would_strand_what_was_counted_is_refused_and_another_is_not() {
        let dataset = |fields: &str| format!(r#", "dataset": {{{fields}}}"#);
        let before = document("b", "", &dataset(r#""retention": "30d""#));
        for (asked, field) in [
            (
                document("b", r#", "signal_partitions": 3"#, ""),
                "kafka.signal_partitions",
            ),
            (
                document("b", "", r#", "redis": {"key_prefix": "x"}"#),
                "redis.key_prefix",
            ),
            (
                document("b", "", &dataset(r#""name": "x""#)),
                "dataset.name",
            ),
            (
                document("b", "", &dataset(r#""slice": "1h", "bucket": "1h""#)),
                "dataset.slice",
            ),
            (
                document("b", "", &dataset(r#""retention": "29d""#)),
                "dataset.retention",
            ),
            (
                document("b", "", &dataset(r#""retention": "1s""#)),
                "dataset.retention",
            ),
            (
                document("b", "", &dataset(r#""event_buckets": 0"#)),
                "dataset.",
            ),
        ] {
            let told = refusal(&[], Some(&before), &asked);
            assert!(told.starts_with(field), "{field}: {told}");
        }
        let mut moved = before.clone();
        "b2-".clone_into(&mut moved.kafka.topic_prefix);
        assert!(refusal(&[], Some(&before), &moved).starts_with("kafka.topic_prefix: "));
        let mut moved = before.clone();
        "x".clone_into(&mut moved.cassandra.keyspace);
        moved.redis.key_prefix = Some("quipu_b".to_owned());
        assert!(refusal(&[], Some(&before), &moved).starts_with("cassandra.keyspace: "));
        let asked = document(
            "b",
            r#", "brokers": ["elsewhere:9092"]"#,
            &dataset(r#""retention": "31d", "bucket": "1h""#),
        );
        let own = Config::default();
        assert_eq!(own.check_declaration([], Some(&before), &asked), Ok(()));
    }
}
