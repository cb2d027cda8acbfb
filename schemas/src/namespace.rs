//! The namespace document: what a team declares, and the control plane keeps.

mod author;
mod diff;
mod duration;
pub(crate) mod object;
pub(crate) mod optional_duration;
mod quota;
#[cfg(test)]
mod schema;

pub use author::{Author, AuthorError};
pub use diff::{Difference, differences};
pub use object::Object;
pub use quota::DocumentQuota;
#[cfg(test)]
pub(crate) use schema::DURATION as DURATION_PATTERN;

use crate::cluster::DEFAULT_CLUSTER;
use quipu_core::{
    policy::{self, Cardinality, DEFAULT_COUNTER_TTL, Limits, RollupSettings},
    quota::Quota,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{ops::RangeInclusive, time::Duration};

/// A namespace, declared. Fields that are left out get their defaults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NamespaceDocument {
    /// Its name.
    #[cfg_attr(test, schemars(regex(pattern = "^[a-z][a-z0-9_-]{0,62}$")))]
    pub namespace: String,
    /// Which counter it gives.
    #[serde(rename = "type", default)]
    pub mode: Mode,
    /// Where its data lies; by default wherever the server keeps such data.
    #[serde(
        deserialize_with = "object::each",
        default,
        skip_serializing_if = "Vec::is_empty"
    )]
    pub persistence: Vec<Persistence>,
    /// An event older than this when the log gets it is late.
    #[serde(with = "duration", default = "five_seconds")]
    #[cfg_attr(test, schemars(schema_with = "schema::accept_limit"))]
    pub accept_limit: Duration,
    /// An event further ahead than this when the log gets it is refused.
    #[serde(with = "duration", default = "five_seconds")]
    #[cfg_attr(test, schemars(schema_with = "schema::max_future"))]
    pub max_future: Duration,
    /// How its counters are rolled up.
    #[serde(deserialize_with = "object::one", default)]
    pub rollup: Rollup,
    /// What it may use up; without bounds by default.
    #[serde(
        deserialize_with = "object::one",
        default,
        skip_serializing_if = "DocumentQuota::is_none"
    )]
    pub quota: DocumentQuota,
}

/// The three counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Mode {
    /// An event log, rolled up.
    #[default]
    EventuallyConsistent,
    /// A checkpoint and the live delta since.
    Accurate,
    /// A cache only: approximate and regional.
    BestEffort,
}

/// Where one kind of data lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Persistence {
    /// Which kind of data.
    pub id: PersistenceId,
    /// On what it lies.
    #[serde(deserialize_with = "object::one")]
    pub physical_storage: PhysicalStorage,
    /// How long a cached value is kept: for a `BEST_EFFORT` counter from its last add on.
    #[serde(
        with = "optional_duration",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(test, schemars(schema_with = "schema::ttl"))]
    pub ttl: Option<Duration>,
}

/// The kinds of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PersistenceId {
    /// Cached checkpoints.
    Cache,
    /// Events.
    EventStore,
    /// Checkpoints.
    RollupStore,
}

/// A named cluster of some system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PhysicalStorage {
    /// Which system.
    #[serde(rename = "type")]
    pub kind: StorageKind,
    /// Which cluster, by the name that it was declared with; the same in every entry.
    #[serde(default = "default_name")]
    pub cluster: String,
    /// Which dataset (slice length, buckets, retention) of it, for events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset: Option<String>,
}

/// The systems that data can lie on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum StorageKind {
    /// The one-process server's own store.
    Embedded,
    /// Redis.
    Redis,
    /// Apache Cassandra.
    Cassandra,
}

/// How counters are rolled up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Rollup {
    /// Writes within this window are one aggregation.
    #[serde(with = "duration", default = "default_coalesce")]
    #[cfg_attr(test, schemars(schema_with = "schema::coalesce"))]
    pub coalesce: Duration,
    /// How many counters there are, roughly.
    #[serde(default)]
    pub cardinality: DocumentCardinality,
}

/// How many counters a namespace has, roughly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum DocumentCardinality {
    /// Few: counters stay in circulation.
    #[default]
    Low,
    /// Many: counters leave once they have converged.
    High,
}

impl From<Mode> for policy::Mode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::EventuallyConsistent => Self::EventuallyConsistent,
            Mode::Accurate => Self::Accurate,
            Mode::BestEffort => Self::BestEffort,
        }
    }
}

impl Default for Rollup {
    fn default() -> Self {
        Self {
            coalesce: default_coalesce(),
            cardinality: DocumentCardinality::default(),
        }
    }
}

/// Why a document is refused. The text names the field and says what to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct DocumentError {
    /// The path of the field.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
}

/// Reads a document from JSON. Its error names the field.
pub(crate) fn read_document<T: DeserializeOwned>(json: &[u8]) -> Result<T, DocumentError> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let read = serde_path_to_error::deserialize(&mut reader);
    let Object(document) = read.map_err(|error| DocumentError {
        // A field that is named by the empty text has an empty path.
        field: Some(error.path().to_string())
            .filter(|path| !path.is_empty())
            .unwrap_or_else(|| ".".to_owned()),
        problem: error.inner().to_string(),
    })?;
    reader.end().map_err(|error| DocumentError {
        field: ".".to_owned(),
        problem: error.to_string(),
    })?;
    Ok(document)
}

impl NamespaceDocument {
    /// A document with every default.
    pub fn with_defaults(name: &str) -> Self {
        Self {
            namespace: name.to_owned(),
            mode: Mode::default(),
            persistence: Vec::new(),
            accept_limit: five_seconds(),
            max_future: five_seconds(),
            rollup: Rollup::default(),
            quota: DocumentQuota::default(),
        }
    }

    /// Reads a document from JSON. Unknown fields are an error that names them.
    pub fn from_json(json: &[u8]) -> Result<Self, DocumentError> {
        let document: Self = read_document(json)?;
        document.check()?;
        Ok(document)
    }

    /// Checks what no type can: names and ranges.
    pub fn check(&self) -> Result<(), DocumentError> {
        let refuse = |field: &str, problem: String| {
            Err(DocumentError {
                field: field.to_owned(),
                problem,
            })
        };
        if let Err(error) = quipu_core::name::Namespace::new(&self.namespace) {
            return refuse("namespace", error.to_string());
        }
        for (field, value, range) in [
            ("accept_limit", self.accept_limit, ACCEPT_LIMIT),
            ("max_future", self.max_future, MAX_FUTURE),
            ("rollup.coalesce", self.rollup.coalesce, COALESCE),
        ] {
            if !range.contains(&value) {
                let [value, least, most] =
                    [value, *range.start(), *range.end()].map(humantime::format_duration);
                return refuse(field, format!("{value} is not between {least} and {most}"));
            }
        }
        if let Some((field, problem)) = self.quota.problem() {
            return refuse(field, problem);
        }
        for (at, entry) in self.persistence.iter().enumerate() {
            let field = format!("persistence[{at}]");
            if let Some(ttl) = entry.ttl.filter(|ttl| !TTLS.contains(ttl)) {
                let [ttl, least, most] =
                    [ttl, *TTLS.start(), *TTLS.end()].map(humantime::format_duration);
                let problem = format!("{ttl} is not between {least} and {most}");
                return refuse(&format!("{field}.ttl"), problem);
            }
            if self.mode == Mode::BestEffort && entry.id != PersistenceId::Cache {
                let problem = "a BEST_EFFORT namespace lies in the CACHE alone; leave this out";
                return refuse(&format!("{field}.id"), problem.to_owned());
            }
            if entry.physical_storage.cluster != self.cluster() {
                let problem = format!(
                    "persistence[0] is in the cluster {}, and all of a namespace is in one; name \
                     the same one in every entry",
                    self.cluster()
                );
                let field = format!("{field}.physical_storage.cluster");
                return refuse(&field, problem);
            }
        }
        Ok(())
    }

    /// The cluster that all of it lies in.
    pub fn cluster(&self) -> &str {
        let first = self.persistence.first();
        first.map_or(DEFAULT_CLUSTER, |entry| &entry.physical_storage.cluster)
    }

    /// Checks that it may take the place of the document in force: no change may break a promise
    /// about events that are counted already.
    pub fn check_change(&self, before: &Self) -> Result<(), DocumentError> {
        let mode = |document: &Self| policy::Mode::from(document.mode);
        if mode(self).keeps_events() != mode(before).keeps_events() {
            return Err(DocumentError {
                field: "type".to_owned(),
                problem: policy::ChangeError::KeepsEvents.to_string(),
            });
        }
        if self.cluster() != before.cluster() {
            return Err(self.moved_from(before.cluster()));
        }
        if self.dataset() != before.dataset() {
            return Err(DocumentError {
                field: "persistence".to_owned(),
                problem: "its events are in another dataset, and would be lost to its counts; \
                          make a new namespace for the new dataset"
                    .to_owned(),
            });
        }
        Ok(())
    }

    /// Why it cannot take the place of a document in another cluster.
    pub fn moved_from(&self, home: &str) -> DocumentError {
        DocumentError {
            field: if self.persistence.is_empty() {
                "persistence".to_owned()
            } else {
                "persistence[0].physical_storage.cluster".to_owned()
            },
            problem: format!(
                "namespace {} lives in the cluster {home} with what it counted, and a name stays in \
                 its cluster for all its lives; name {home} here, or make a new namespace in {}",
                self.namespace,
                self.cluster()
            ),
        }
    }

    /// The dataset that its events lie in.
    fn dataset(&self) -> &str {
        let events = self
            .persistence
            .iter()
            .find(|entry| entry.id == PersistenceId::EventStore);
        events
            .and_then(|entry| entry.physical_storage.dataset.as_deref())
            .unwrap_or("default")
    }

    /// How long a counter that a cache alone keeps lives after its last add, for the policy.
    pub fn counter_ttl(&self) -> Duration {
        let mut entries = self.persistence.iter();
        let cache = entries.find(|entry| entry.id == PersistenceId::Cache);
        cache
            .and_then(|entry| entry.ttl)
            .unwrap_or(DEFAULT_COUNTER_TTL)
    }

    /// What it may use up, for the policy.
    pub fn quota(&self) -> Quota {
        self.quota.into()
    }

    /// Its limits, for the policy.
    pub fn limits(&self) -> Limits {
        Limits {
            accept_limit: self.accept_limit,
            max_future: self.max_future,
        }
    }

    /// Its rollup settings, for the policy.
    pub fn rollup_settings(&self) -> RollupSettings {
        RollupSettings {
            coalesce: self.rollup.coalesce,
            cardinality: match self.rollup.cardinality {
                DocumentCardinality::Low => Cardinality::Low,
                DocumentCardinality::High => Cardinality::High,
            },
        }
    }
}

/// The JSON Schema of the document (draft 2020-12), for editors and for checks before a server is
/// asked. It says what [`NamespaceDocument::from_json`] checks of each field, but for the ranges of
/// durations, which `x-minimum` and `x-maximum` tell.
pub const SCHEMA: &str = include_str!("../namespace.schema.json");

const ACCEPT_LIMIT: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_hours(24);
const MAX_FUTURE: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_hours(24);
const COALESCE: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_hours(1);
const TTLS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(24 * 365);

fn five_seconds() -> Duration {
    Duration::from_secs(5)
}

fn default_coalesce() -> Duration {
    Duration::from_millis(200)
}

fn default_name() -> String {
    DEFAULT_CLUSTER.to_owned()
}
