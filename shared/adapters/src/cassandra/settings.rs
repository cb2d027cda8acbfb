//! How a Cassandra cluster is reached, and how data is replicated in it.

use std::{collections::BTreeMap, fmt, num::NonZeroUsize, path::PathBuf, time::Duration};

/// How a cluster is reached.
#[derive(Clone, Debug)]
pub struct CassandraSettings {
    /// `host:port` of a few nodes; the rest are found through them.
    pub contact_points: Vec<String>,
    /// The keyspace that holds everything: lower-case letters, digits and `_`, starting with a
    /// letter, at most 48 bytes.
    pub keyspace: String,
    /// How setup replicates the keyspace when it makes it.
    pub replication: Replication,
    /// How many replicas must answer.
    pub consistency: ConsistencyLevel,
    /// The data centre whose nodes are used. Needed for [`ConsistencyLevel::LocalQuorum`].
    pub local_datacenter: Option<String>,
    /// Who this is, where the cluster asks for it.
    pub credentials: Option<Credentials>,
    /// Encryption of connections; none by default.
    pub tls: Option<TlsSettings>,
    /// How long a connection may take to open.
    pub connect_timeout: Duration,
    /// How long a read or write may take.
    pub request_timeout: Duration,
    /// How long a change of the schema may take, agreement included.
    pub schema_timeout: Duration,
    /// Connections to each node.
    pub connections: NonZeroUsize,
    /// Statements under way at once, of all users of the connection together.
    pub max_in_flight: NonZeroUsize,
    /// How long what is known of the time slices may be relied on. A slice is dropped this long
    /// after it was marked, so that everybody knows first (R19).
    pub catalogue_ttl: Duration,
}

/// How the keyspace is replicated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replication {
    /// `SimpleStrategy`, for one data centre.
    Simple {
        /// Copies of each row.
        factor: u8,
    },
    /// `NetworkTopologyStrategy`: copies of each row by data centre.
    Datacenters(BTreeMap<String, u8>),
}

/// How many replicas must answer a read or a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsistencyLevel {
    /// One. Exact only where there is one copy of each row.
    One,
    /// Most of all.
    Quorum,
    /// Most of those in the local data centre. Exact for the roles of that data centre.
    LocalQuorum,
}

/// A user and its password.
#[derive(Clone)]
pub struct Credentials {
    /// The user.
    pub username: String,
    /// The password; never shown.
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("username", &self.username)
            .field("password", &"[redacted]")
            .finish()
    }
}

/// Files for encrypted connections, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// The authorities that the nodes' certificates are checked against.
    pub ca_file: PathBuf,
    /// What this shows to the nodes, where they ask for it.
    pub identity: Option<TlsIdentity>,
}

/// A certificate and its key, as files in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsIdentity {
    /// The chain of certificates.
    pub certificate_file: PathBuf,
    /// The private key.
    pub key_file: PathBuf,
}

impl Default for CassandraSettings {
    /// One node on this machine.
    fn default() -> Self {
        Self {
            contact_points: vec!["127.0.0.1:9042".to_owned()],
            keyspace: "quipu".to_owned(),
            replication: Replication::Simple { factor: 1 },
            consistency: ConsistencyLevel::Quorum,
            local_datacenter: None,
            credentials: None,
            tls: None,
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(5),
            schema_timeout: Duration::from_mins(1),
            connections: const { NonZeroUsize::new(2).unwrap() },
            max_in_flight: const { NonZeroUsize::new(256).unwrap() },
            catalogue_ttl: Duration::from_secs(10),
        }
    }
}

impl Replication {
    /// The replication as CQL writes it.
    pub(super) fn to_cql(&self) -> String {
        match self {
            Self::Simple { factor } => {
                format!("{{'class': 'SimpleStrategy', 'replication_factor': {factor}}}")
            }
            Self::Datacenters(factors) => {
                let factors = factors.iter().map(|(name, factor)| {
                    let name = name.replace('\'', "''");
                    format!(", '{name}': {factor}")
                });
                let factors: String = factors.collect();
                format!("{{'class': 'NetworkTopologyStrategy'{factors}}}")
            }
        }
    }
}

/// Checks a name that becomes part of CQL text: what is checked here need not be quoted there.
pub(super) fn check_name(what: &str, name: &str, max_bytes: usize) -> Result<(), String> {
    let mut bytes = name.bytes();
    let starts_well = bytes.next().is_some_and(|b| b.is_ascii_lowercase());
    let goes_on_well = bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if starts_well && goes_on_well && name.len() <= max_bytes {
        return Ok(());
    }
    Err(format!(
        "{what} {name:?} must start with a lower-case letter, go on with lower-case letters, \
         digits or '_', and have at most {max_bytes} bytes"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        let credentials = Credentials {
            username: "quipu".to_owned(),
            password: "hunter2".to_owned(),
        };
        let settings = CassandraSettings {
            credentials: Some(credentials),
            ..CassandraSettings::default()
        };
        let shown = format!("{settings:?}");
        assert!(
            shown.contains("[redacted]") && !shown.contains("hunter2"),
            "{shown}"
        );
    }

    #[test]
    fn replication_is_written_as_cql() {
        assert_eq!(
            Replication::Simple { factor: 3 }.to_cql(),
            "{'class': 'SimpleStrategy', 'replication_factor': 3}"
        );
        let datacenters = [("east".to_owned(), 3), ("it's".to_owned(), 2)];
        assert_eq!(
            Replication::Datacenters(datacenters.into()).to_cql(),
            "{'class': 'NetworkTopologyStrategy', 'east': 3, 'it''s': 2}"
        );
    }

    #[test]
    fn a_name_that_would_need_quotes_is_refused() {
        assert_eq!(check_name("keyspace", "quipu_2", 48), Ok(()));
        for name in ["", "2a", "A", "a-b", "a\"", "a;drop"] {
            assert!(check_name("keyspace", name, 48).is_err(), "{name:?}");
        }
        assert!(check_name("keyspace", "abc", 2).is_err());
    }
}
