//! Event store, rollup store and control plane on Apache Cassandra.

mod check;
mod connection;
mod control;
mod durable;
mod error;
mod events;
mod lease;
mod rollups;
mod schema;
mod settings;
mod setup;
mod slices;
mod tls;

pub use check::{Finding, Severity};
pub use connection::Cassandra;
pub use control::{CassandraControlPlane, ControlSettings, RegisteredPartition, Topics};
pub use error::CassandraError;
pub use events::CassandraEventStore;
pub use lease::Lease;
pub use rollups::CassandraRollupStore;
pub use settings::{
    CassandraSettings, ConsistencyLevel, Credentials, Replication, TlsIdentity, TlsSettings,
};
pub use setup::{KeyspaceSetup, Settled, SetupPlan};
pub use slices::CassandraDataset;
