//! Event store, rollup store and control plane on Apache Cassandra.

mod connection;
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

pub use connection::Cassandra;
pub use error::CassandraError;
pub use events::CassandraEventStore;
pub use lease::Lease;
pub use rollups::CassandraRollupStore;
pub use settings::{
    CassandraSettings, ConsistencyLevel, Credentials, Replication, TlsIdentity, TlsSettings,
};
pub use setup::KeyspaceSetup;
pub use slices::CassandraDataset;
