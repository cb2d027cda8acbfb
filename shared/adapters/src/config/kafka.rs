//! The section `[kafka]`.

use super::{
    ConfigError, duration,
    error::{show_duration, within},
    secret,
};
use quipu_schemas::cluster::KAFKA_PROPERTIES;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::PathBuf, time::Duration};

/// How Kafka is reached, and what `quipu admin setup` makes there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KafkaSection {
    /// `host:port` of some brokers.
    pub brokers: Vec<String>,
    /// What brokers call this client in their logs and quotas.
    pub client_id: String,
    /// The largest record of the events topic, in bytes.
    pub max_record_bytes: usize,
    /// Properties of librdkafka, such as those of TLS and SASL.
    pub properties: BTreeMap<String, String>,
    /// A file with the password of SASL.
    pub sasl_password_file: Option<PathBuf>,
    /// The names of the topics.
    pub topics: Topics,
    /// Partitions of the events topic, when setup makes it.
    pub event_partitions: u32,
    /// Partitions of the signals topic, when setup makes it; never changed after that (R17).
    pub signal_partitions: u32,
    /// Copies of each partition, when setup makes a topic.
    pub replication_factor: u16,
    /// Copies that must have a record before it is acknowledged, when setup makes a topic.
    pub min_insync_replicas: u16,
    /// How long records of the events topic are kept, when setup makes it; in whole hours.
    #[serde(with = "duration")]
    pub retention: Duration,
}

/// The names of the topics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Topics {
    /// Mutations and ticks.
    pub events: String,
    /// "Look at this counter".
    pub signals: String,
    /// How far each partition is decided.
    pub watermarks: String,
    /// Refused records.
    pub dead_letters: String,
}

impl Default for Topics {
    fn default() -> Self {
        Self {
            events: "quipu-events".to_owned(),
            signals: "quipu-signals".to_owned(),
            watermarks: "quipu-watermarks".to_owned(),
            dead_letters: "quipu-events-dlq".to_owned(),
        }
    }
}

impl Default for KafkaSection {
    fn default() -> Self {
        Self {
            brokers: vec!["127.0.0.1:9092".to_owned()],
            client_id: "quipu".to_owned(),
            max_record_bytes: 1 << 20,
            properties: BTreeMap::new(),
            sasl_password_file: None,
            topics: Topics::default(),
            event_partitions: 4,
            signal_partitions: 8,
            replication_factor: 1,
            min_insync_replicas: 1,
            retention: Duration::from_hours(72),
        }
    }
}

impl KafkaSection {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if self.brokers.is_empty() {
            let problem = "it must name at least one broker, as HOST:PORT";
            return Err(ConfigError::value("kafka.brokers", problem));
        }
        let bytes = self.max_record_bytes;
        let limits = (1 << 10, 64 << 20);
        within("kafka.max_record_bytes", bytes, limits, |n| n.to_string())?;
        for (key, value) in [
            ("kafka.event_partitions", self.event_partitions),
            ("kafka.signal_partitions", self.signal_partitions),
        ] {
            within(key, value, (1, 10_000), |n| n.to_string())?;
        }
        let copies = self.replication_factor;
        within("kafka.replication_factor", copies, (1, 100), |n| {
            n.to_string()
        })?;
        let (key, least) = ("kafka.min_insync_replicas", self.min_insync_replicas);
        within(key, least, (1, copies), |n| n.to_string())?;
        let limits = (Duration::from_hours(1), Duration::from_hours(24 * 365));
        within("kafka.retention", self.retention, limits, show_duration)?;
        self.properties().map(drop)
    }

    /// How the cluster is reached.
    ///
    /// # Errors
    /// When the file of the password cannot be read.
    #[cfg(feature = "cluster")]
    pub fn settings(&self) -> Result<crate::kafka::KafkaSettings, ConfigError> {
        let Topics {
            events,
            signals,
            watermarks,
            dead_letters,
        } = self.topics.clone();
        Ok(crate::kafka::KafkaSettings {
            brokers: self.brokers.join(","),
            client_id: self.client_id.clone(),
            topics: crate::kafka::TopicNames {
                events,
                signals,
                watermarks,
                dead_letters,
            },
            max_record_bytes: self.max_record_bytes,
            properties: self.properties()?,
        })
    }

    /// How setup makes topics.
    #[cfg(feature = "cluster")]
    pub fn topic_settings(&self) -> crate::kafka::admin::TopicSettings {
        let hours = self.retention.as_secs().div_ceil(60 * 60);
        crate::kafka::admin::TopicSettings {
            event_partitions: self.event_partitions,
            signal_partitions: self.signal_partitions,
            replication_factor: self.replication_factor,
            min_insync_replicas: self.min_insync_replicas,
            retention_hours: u32::try_from(hours).unwrap_or(u32::MAX),
        }
    }

    /// The properties, with the password in its place.
    ///
    /// # Errors
    /// When the file of the password cannot be read.
    pub fn properties(&self) -> Result<BTreeMap<String, String>, ConfigError> {
        let mut properties = self.properties.clone();
        let file = self.sasl_password_file.as_deref();
        if let Some(password) = secret::read("kafka.sasl_password_file", file)? {
            properties.insert("sasl.password".to_owned(), password);
        }
        Ok(properties)
    }

    /// Any property may be a secret, unless it is one of those that everybody sets.
    pub(super) fn redact(&mut self) {
        for (name, value) in &mut self.properties {
            if !KAFKA_PROPERTIES.contains(&name.as_str()) {
                "[redacted]".clone_into(value);
            }
        }
    }
}
