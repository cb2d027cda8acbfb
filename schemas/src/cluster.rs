//! The cluster document: topics, a keyspace, a cache and a dataset of their own for the namespaces
//! that name it. What it leaves out is as the server's own configuration says.

mod check;
#[cfg(test)]
mod schema;

pub use check::check_cluster_name;

use crate::namespace::{DocumentError, object, optional_duration, read_document};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::PathBuf, time::Duration};

/// The cluster that nobody declares: what the server's own configuration says.
pub const DEFAULT_CLUSTER: &str = "default";

/// The properties of Kafka's client that a document may set: none of them can be a secret.
pub const KAFKA_PROPERTIES: [&str; 6] = [
    "security.protocol",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "ssl.ca.location",
    "ssl.endpoint.identification.algorithm",
];

/// A cluster, declared. Secrets have no place in it: passwords stand in files on the machines of the
/// roles, which it names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ClusterDocument {
    /// Its name.
    #[cfg_attr(test, schemars(regex(pattern = "^[a-z][a-z0-9_-]{0,62}$")))]
    pub cluster: String,
    /// The log.
    #[serde(deserialize_with = "object::one")]
    pub kafka: ClusterKafka,
    /// The stores and the control plane.
    #[serde(deserialize_with = "object::one")]
    pub cassandra: ClusterCassandra,
    /// The cache.
    #[serde(
        deserialize_with = "object::one",
        default,
        skip_serializing_if = "ClusterRedis::is_empty"
    )]
    pub redis: ClusterRedis,
    /// How events lie in time, and how long they are kept.
    #[serde(
        deserialize_with = "object::one",
        default,
        skip_serializing_if = "ClusterDataset::is_empty"
    )]
    pub dataset: ClusterDataset,
}

/// How its Kafka is reached, and what `quipu admin setup --cluster` makes there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ClusterKafka {
    /// What the names of its topics and consumer groups begin with; no other cluster's do. Fixed.
    #[cfg_attr(test, schemars(regex(pattern = "^[a-zA-Z0-9._-]{1,100}$")))]
    pub topic_prefix: String,
    /// `HOST:PORT` of some brokers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brokers: Option<Vec<String>>,
    /// Properties of the client, instead of the server's own; of the harmless ones only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(test, schemars(schema_with = "schema::properties"))]
    pub properties: BTreeMap<String, String>,
    /// A file with the password of SASL, on the machine of each role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sasl_password_file: Option<PathBuf>,
    /// Partitions of the events topic, when setup makes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_partitions: Option<u32>,
    /// Partitions of the signals topic, when setup makes it. Fixed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal_partitions: Option<u32>,
    /// Copies of each partition, when setup makes a topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replication_factor: Option<u16>,
    /// Copies that must have a record before it is acknowledged, when setup makes a topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_insync_replicas: Option<u16>,
    /// How long records of the events topic are kept, when setup makes it.
    #[serde(
        with = "optional_duration",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(test, schemars(schema_with = "schema::duration"))]
    pub retention: Option<Duration>,
}

/// How its Cassandra is reached, and what `quipu admin setup --cluster` makes there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ClusterCassandra {
    /// The keyspace that holds everything; no other cluster's. Fixed.
    #[cfg_attr(test, schemars(regex(pattern = "^[a-z][a-z0-9_]{0,47}$")))]
    pub keyspace: String,
    /// `HOST:PORT` of a few nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contact_points: Option<Vec<String>>,
    /// The data centre whose nodes are used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_datacenter: Option<String>,
    /// How many replicas must answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consistency: Option<ClusterConsistency>,
    /// Copies of each row in one data centre, when setup makes the keyspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replication_factor: Option<u8>,
    /// Copies of each row by data centre, instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datacenters: Option<BTreeMap<String, u8>>,
    /// The user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// A file with its password, on the machine of each role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
    /// The authorities of the nodes' certificates, in PEM; encrypts the connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_ca_file: Option<PathBuf>,
    /// Certificates to show to the nodes, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_certificate_file: Option<PathBuf>,
    /// Their key, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_key_file: Option<PathBuf>,
}

/// How many replicas must answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ClusterConsistency {
    /// One: exact only where there is one copy of each row.
    One,
    /// Most of all.
    Quorum,
    /// Most of those in the local data centre.
    LocalQuorum,
}

/// How its Redis is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ClusterRedis {
    /// `HOST:PORT`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The number of the database there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database: Option<u8>,
    /// What every key begins with; no other cluster's does. By default the name of the keyspace.
    /// Fixed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(regex(pattern = "^[^{}:]{1,100}$")))]
    pub key_prefix: Option<String>,
    /// `HOST:PORT` of others that may hold copies of best-effort counters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Vec<String>>,
    /// The user, where Redis has users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// A file with the password, on the machine of each role.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
    /// Whether the connection is encrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<bool>,
    /// The authorities of the server's certificate, in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_ca_file: Option<PathBuf>,
    /// How long a count is kept after it was last set.
    #[serde(with = "optional_duration", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(schema_with = "schema::duration"))]
    pub ttl: Option<Duration>,
}

/// The one dataset of a cluster: how its events lie in time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ClusterDataset {
    /// Its name, a part of its tables' names. Fixed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(regex(pattern = "^[a-z][a-z0-9_]{0,19}$")))]
    pub name: Option<String>,
    /// How long a time slice is. Fixed.
    #[serde(with = "optional_duration", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(schema_with = "schema::duration"))]
    pub slice: Option<Duration>,
    /// How long a bucket of a slice is, for slices made from now on.
    #[serde(with = "optional_duration", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(schema_with = "schema::duration"))]
    pub bucket: Option<Duration>,
    /// Partitions of a counter in a bucket, for slices made from now on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_buckets: Option<u16>,
    /// How long events are kept after their slice's end. It may be raised.
    #[serde(with = "optional_duration", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(schema_with = "schema::duration"))]
    pub retention: Option<Duration>,
}

impl ClusterRedis {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl ClusterDataset {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl ClusterDocument {
    /// Reads a document from JSON, and checks it. Unknown fields are an error that names them.
    ///
    /// # Errors
    /// Names the field, and what it may be.
    pub fn from_json(json: &[u8]) -> Result<Self, DocumentError> {
        let document: Self = read_document(json)?;
        document.check()?;
        Ok(document)
    }

    /// The name of one of its topics or consumer groups.
    pub fn prefixed(&self, of: &str) -> String {
        format!("{}{of}", self.kafka.topic_prefix)
    }

    /// What every key in Redis begins with.
    pub fn key_prefix(&self) -> &str {
        let given = self.redis.key_prefix.as_deref();
        given.unwrap_or(&self.cassandra.keyspace)
    }
}

/// The JSON Schema of the document (draft 2020-12).
pub const SCHEMA: &str = include_str!("../cluster.schema.json");
