//! The section `[cassandra]`.

use super::{
    ConfigError, duration,
    error::{show_duration, within},
    secret,
};
use crate::embedded::Dataset;
use quipu_core::slice::{SliceLayout, Slicing};
use serde::{Deserialize, Deserializer, Serialize, de::Error};
use std::{collections::BTreeMap, path::PathBuf, time::Duration};

/// How Cassandra is reached, and what `quipu admin setup` makes there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CassandraSection {
    /// `host:port` of a few nodes; the rest are found through them.
    pub contact_points: Vec<String>,
    /// The keyspace that holds everything.
    pub keyspace: String,
    /// Copies of each row in one data centre, when setup makes the keyspace.
    pub replication_factor: u8,
    /// Copies of each row by data centre, instead.
    #[serde(deserialize_with = "copies")]
    pub datacenters: BTreeMap<String, u8>,
    /// How many replicas must answer.
    pub consistency: Consistency,
    /// The data centre whose nodes are used.
    pub local_datacenter: Option<String>,
    /// Who this is, where the cluster asks for it.
    pub username: Option<String>,
    /// A file with the password.
    pub password_file: Option<PathBuf>,
    /// The authorities that the nodes' certificates are checked against, in PEM; encrypts.
    pub tls_ca_file: Option<PathBuf>,
    /// The certificates that this shows to the nodes, in PEM.
    pub tls_certificate_file: Option<PathBuf>,
    /// Their key, in PEM.
    pub tls_key_file: Option<PathBuf>,
    /// How long a connection may take to open.
    #[serde(with = "duration")]
    pub connect_timeout: Duration,
    /// How long a read or write may take.
    #[serde(with = "duration")]
    pub request_timeout: Duration,
    /// How long a change of the schema may take.
    #[serde(with = "duration")]
    pub schema_timeout: Duration,
    /// Connections to each node.
    pub connections: usize,
    /// Statements under way at once.
    pub max_in_flight: usize,
    /// How long what is known of the time slices may be relied on.
    #[serde(with = "duration")]
    pub catalogue_ttl: Duration,
    /// The dataset that holds the events: its name is part of its tables'.
    pub dataset: String,
    /// How long a time slice is; fixed once the first one is made.
    #[serde(with = "duration")]
    pub slice: Duration,
    /// How long a bucket of a slice is, for slices that are made from now on.
    #[serde(with = "duration")]
    pub bucket: Duration,
    /// Partitions of a counter in a bucket, for slices that are made from now on.
    pub event_buckets: u16,
    /// How long events are kept after the end of their slice.
    #[serde(with = "duration")]
    pub retention: Duration,
}

/// How many replicas must answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Consistency {
    /// One: exact only where there is one copy of each row.
    One,
    /// Most of all.
    Quorum,
    /// Most of those in the local data centre.
    LocalQuorum,
}

const DAY: Duration = Duration::from_hours(24);

impl Default for CassandraSection {
    fn default() -> Self {
        Self {
            contact_points: vec!["127.0.0.1:9042".to_owned()],
            keyspace: "quipu".to_owned(),
            replication_factor: 1,
            datacenters: BTreeMap::new(),
            consistency: Consistency::Quorum,
            local_datacenter: None,
            username: None,
            password_file: None,
            tls_ca_file: None,
            tls_certificate_file: None,
            tls_key_file: None,
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(5),
            schema_timeout: Duration::from_mins(1),
            connections: 2,
            max_in_flight: 256,
            catalogue_ttl: Duration::from_secs(10),
            dataset: "default".to_owned(),
            slice: DAY,
            bucket: DAY,
            event_buckets: 1,
            retention: 7 * DAY,
        }
    }
}

/// Numbers, also as the text that an environment variable holds.
fn copies<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, u8>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Copies {
        Number(u8),
        Text(String),
    }
    let given = BTreeMap::<String, Copies>::deserialize(from)?;
    let numbers = given.into_iter().map(|(name, copies)| match copies {
        Copies::Number(number) => Ok((name, number)),
        Copies::Text(text) => match text.parse() {
            Ok(number) => Ok((name, number)),
            Err(error) => Err(D::Error::custom(format!("{name}: {text:?}: {error}"))),
        },
    });
    numbers.collect()
}

impl CassandraSection {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let refuse = |key: &str, problem: &str| Err(ConfigError::value(key, problem));
        if self.contact_points.is_empty() {
            return refuse(
                "cassandra.contact_points",
                "it must name at least one node, as HOST:PORT",
            );
        }
        if self.username.is_some() != self.password_file.is_some() {
            return refuse(
                "cassandra.password_file",
                "set cassandra.username and cassandra.password_file together, or neither",
            );
        }
        if self.tls_certificate_file.is_some() != self.tls_key_file.is_some() {
            return refuse(
                "cassandra.tls_key_file",
                "set cassandra.tls_certificate_file and cassandra.tls_key_file together, or neither",
            );
        }
        if self.tls_certificate_file.is_some() && self.tls_ca_file.is_none() {
            return refuse(
                "cassandra.tls_ca_file",
                "a certificate of this side needs the authorities of the other",
            );
        }
        if self.consistency == Consistency::LocalQuorum && self.local_datacenter.is_none() {
            return refuse(
                "cassandra.local_datacenter",
                "consistency LOCAL_QUORUM needs it",
            );
        }
        for (key, file) in [
            ("cassandra.tls_ca_file", &self.tls_ca_file),
            ("cassandra.tls_certificate_file", &self.tls_certificate_file),
            ("cassandra.tls_key_file", &self.tls_key_file),
        ] {
            secret::readable(key, file.as_deref())?;
        }
        self.check_ranges()?;
        self.shape()?;
        secret::read("cassandra.password_file", self.password_file.as_deref()).map(drop)
    }

    fn check_ranges(&self) -> Result<(), ConfigError> {
        let timeouts = (Duration::from_millis(100), Duration::from_mins(10));
        for (key, value) in [
            ("cassandra.connect_timeout", self.connect_timeout),
            ("cassandra.request_timeout", self.request_timeout),
            ("cassandra.schema_timeout", self.schema_timeout),
            ("cassandra.catalogue_ttl", self.catalogue_ttl),
        ] {
            within(key, value, timeouts, show_duration)?;
        }
        for (key, value, most) in [
            ("cassandra.connections", self.connections, 64),
            ("cassandra.max_in_flight", self.max_in_flight, 16_384),
        ] {
            within(key, value, (1, most), |n| n.to_string())?;
        }
        let copies = self.datacenters.values().chain([&self.replication_factor]);
        for factor in copies {
            let key = "cassandra.replication_factor";
            within(key, *factor, (1, 100), |n| n.to_string())?;
        }
        Ok(())
    }

    /// How events lie in time.
    fn shape(&self) -> Result<Dataset, ConfigError> {
        let limits = (Duration::from_hours(1), 3_650 * DAY);
        within("cassandra.retention", self.retention, limits, show_duration)?;
        let slicing = Slicing::new(self.slice)
            .map_err(|error| ConfigError::value("cassandra.slice", error.to_string()))?;
        let layout = SliceLayout::new(self.bucket, self.event_buckets)
            .map_err(|error| ConfigError::value("cassandra.bucket", error.to_string()))?;
        Ok(Dataset {
            slicing,
            layout,
            retention: self.retention,
        })
    }

    /// The dataset that holds the events.
    ///
    /// # Errors
    /// When it cannot lie in time as it says.
    #[cfg(feature = "cluster")]
    pub fn dataset(&self) -> Result<crate::cassandra::CassandraDataset, ConfigError> {
        Ok(crate::cassandra::CassandraDataset {
            name: self.dataset.clone(),
            shape: self.shape()?,
        })
    }

    /// The settings of the stores.
    ///
    /// # Errors
    /// When the file of the password cannot be read.
    #[cfg(feature = "cluster")]
    pub fn settings(&self) -> Result<crate::cassandra::CassandraSettings, ConfigError> {
        use crate::cassandra::{
            CassandraSettings, ConsistencyLevel, Credentials, Replication, TlsIdentity, TlsSettings,
        };
        use std::num::NonZeroUsize;
        let password = secret::read("cassandra.password_file", self.password_file.as_deref())?;
        let credentials = self.username.clone().zip(password);
        let files = (self.tls_certificate_file.clone()).zip(self.tls_key_file.clone());
        let identity = files.map(|(certificate_file, key_file)| TlsIdentity {
            certificate_file,
            key_file,
        });
        let at_least_one = |number| NonZeroUsize::new(number).unwrap_or(NonZeroUsize::MIN);
        Ok(CassandraSettings {
            contact_points: self.contact_points.clone(),
            keyspace: self.keyspace.clone(),
            replication: if self.datacenters.is_empty() {
                let factor = self.replication_factor;
                Replication::Simple { factor }
            } else {
                Replication::Datacenters(self.datacenters.clone())
            },
            consistency: match self.consistency {
                Consistency::One => ConsistencyLevel::One,
                Consistency::Quorum => ConsistencyLevel::Quorum,
                Consistency::LocalQuorum => ConsistencyLevel::LocalQuorum,
            },
            local_datacenter: self.local_datacenter.clone(),
            credentials: credentials.map(|(username, password)| Credentials { username, password }),
            tls: self
                .tls_ca_file
                .clone()
                .map(|ca_file| TlsSettings { ca_file, identity }),
            connect_timeout: self.connect_timeout,
            request_timeout: self.request_timeout,
            schema_timeout: self.schema_timeout,
            connections: at_least_one(self.connections),
            max_in_flight: at_least_one(self.max_in_flight),
            catalogue_ttl: self.catalogue_ttl,
        })
    }
}
