//! How to reach a Kafka cluster, and what must hold of every client.

use rdkafka::ClientConfig;
use serde::Deserialize;
use std::{collections::BTreeMap, fmt};

use crate::ports::{LogError, Topic};

/// How to reach a Kafka cluster, and what its topics are called.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KafkaSettings {
    /// Addresses to begin with, `host:port`, separated by commas.
    pub brokers: String,
    /// What brokers call this client in their logs and quotas.
    pub client_id: String,
    /// The names of the topics.
    pub topics: TopicNames,
    /// The largest record of the events topic, value and headers together, in bytes.
    pub max_record_bytes: usize,
    /// Properties of librdkafka, such as those of TLS and SASL. What exactness depends on is set
    /// after these, and cannot be changed by them.
    pub properties: BTreeMap<String, String>,
}

/// The names of Quipu's topics.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TopicNames {
    /// Mutations and ticks.
    pub events: String,
    /// "Look at this counter".
    pub signals: String,
    /// How far each partition is decided; compacted.
    pub watermarks: String,
    /// Refused records.
    pub dead_letters: String,
}

impl Default for TopicNames {
    fn default() -> Self {
        Self {
            events: "quipu-events".to_owned(),
            signals: "quipu-signals".to_owned(),
            watermarks: "quipu-watermarks".to_owned(),
            dead_letters: "quipu-events-dlq".to_owned(),
        }
    }
}

impl TopicNames {
    /// The name of a topic.
    pub fn name(&self, topic: Topic) -> &str {
        match topic {
            Topic::Events => &self.events,
            Topic::Signals => &self.signals,
            Topic::DeadLetters => &self.dead_letters,
        }
    }
}

impl Default for KafkaSettings {
    fn default() -> Self {
        Self {
            brokers: "127.0.0.1:9092".to_owned(),
            client_id: "quipu".to_owned(),
            topics: TopicNames::default(),
            max_record_bytes: 1 << 20,
            properties: BTreeMap::new(),
        }
    }
}

impl fmt::Debug for KafkaSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Any property may be a secret: only their names are shown.
        f.debug_struct("KafkaSettings")
            .field("brokers", &self.brokers)
            .field("client_id", &self.client_id)
            .field("topics", &self.topics)
            .field("max_record_bytes", &self.max_record_bytes)
            .field("properties", &self.properties.keys())
            .finish()
    }
}

/// A dead letter has the original bytes and headers of its own besides.
pub(super) const DEAD_LETTER_HEADROOM: usize = 64 << 10;
/// What a record costs besides its value and headers.
const RECORD_OVERHEAD: usize = 1 << 10;

const BOUNDS: [(&str, &str); 4] = [
    ("socket.timeout.ms", "10000"),
    ("reconnect.backoff.max.ms", "1000"),
    ("topic.metadata.refresh.interval.ms", "30000"),
    ("allow.auto.create.topics", "false"),
];

const PRODUCER_DEFAULTS: [(&str, &str); 4] = [
    // Long enough to fill batches under load, too short to be felt by a caller.
    ("linger.ms", "2"),
    ("compression.type", "lz4"),
    ("queue.buffering.max.kbytes", "32768"),
    ("delivery.timeout.ms", "10000"),
];
const PRODUCER_RULES: [(&str, &str); 3] = [
    ("enable.idempotence", "true"),
    ("acks", "all"),
    // Brokers refuse batches that are larger than their limit for a record.
    ("batch.size", "524288"),
];

const CONSUMER_DEFAULTS: [(&str, &str); 8] = [
    // What may wait in memory. The client needs 300 bytes for a record besides its contents, which
    // these limits do not count, and a compressed fetch of small records has many.
    ("fetch.max.bytes", "8388608"),
    ("fetch.message.max.bytes", "262144"),
    ("queued.max.messages.kbytes", "8192"),
    ("queued.min.messages", "5000"),
    ("fetch.wait.max.ms", "100"),
    ("fetch.queue.backoff.ms", "10"),
    ("session.timeout.ms", "6000"),
    ("heartbeat.interval.ms", "1500"),
];
const CONSUMER_RULES: [(&str, &str); 7] = [
    ("group.protocol", "classic"),
    ("partition.assignment.strategy", "cooperative-sticky"),
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    ("isolation.level", "read_committed"),
    ("enable.partition.eof", "true"),
    // An offset out of range must be an error, never a silent reset (R2).
    ("auto.offset.reset", "error"),
];

impl KafkaSettings {
    /// The largest record of a topic, value and headers together.
    pub(super) fn limit(&self, topic: Topic) -> usize {
        match topic {
            Topic::Events | Topic::Signals => self.max_record_bytes,
            Topic::DeadLetters => self.max_record_bytes + DEAD_LETTER_HEADROOM,
        }
    }

    /// The broker's limit for batches of a topic, in which a single record must fit.
    pub(super) fn batch_limit(&self, topic: Topic) -> usize {
        self.limit(topic) + RECORD_OVERHEAD
    }

    pub(super) fn admin(&self) -> ClientConfig {
        self.client(&[], &[])
    }

    pub(super) fn producer(&self) -> ClientConfig {
        let mut config = self.client(&PRODUCER_DEFAULTS, &PRODUCER_RULES);
        let largest = self.batch_limit(Topic::DeadLetters) + RECORD_OVERHEAD;
        config.set("message.max.bytes", largest.to_string());
        config
    }

    pub(super) fn consumer(&self, group: &str) -> ClientConfig {
        let mut config = self.client(&CONSUMER_DEFAULTS, &CONSUMER_RULES);
        config.set("group.id", group);
        config
    }

    fn client(&self, defaults: &[(&str, &str)], rules: &[(&str, &str)]) -> ClientConfig {
        let mut config = ClientConfig::new();
        for (key, value) in BOUNDS.iter().chain(defaults) {
            config.set(*key, *value);
        }
        for (key, value) in &self.properties {
            config.set(key, value);
        }
        config.set("bootstrap.servers", &self.brokers);
        config.set("client.id", &self.client_id);
        for (key, value) in rules {
            config.set(*key, *value);
        }
        config
    }
}

/// A client that could not be made: its settings are wrong.
pub(super) fn misconfigured(error: &rdkafka::error::KafkaError) -> LogError {
    LogError::Damaged(format!(
        "a Kafka client refuses its settings: {error}; correct the properties of the \
         configuration's section on Kafka"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_pass_through_but_never_change_what_exactness_depends_on() {
        let mut settings = KafkaSettings::default();
        for (key, value) in [
            ("sasl.password", "hunter2"),
            ("isolation.level", "read_uncommitted"),
            ("session.timeout.ms", "9000"),
        ] {
            settings.properties.insert(key.to_owned(), value.to_owned());
        }
        let config = settings.consumer("g");
        assert_eq!(config.get("sasl.password"), Some("hunter2"));
        assert_eq!(config.get("session.timeout.ms"), Some("9000"));
        assert_eq!(config.get("isolation.level"), Some("read_committed"));
        assert_eq!(config.get("auto.offset.reset"), Some("error"));
    }

    #[test]
    fn shown_settings_hold_no_secrets() {
        let mut settings = KafkaSettings::default();
        let secret = ("sasl.password".to_owned(), "hunter2".to_owned());
        settings.properties.extend([secret]);
        let shown = format!("{settings:?}");
        assert!(
            shown.contains("sasl.password") && !shown.contains("hunter2"),
            "{shown}"
        );
    }
}
