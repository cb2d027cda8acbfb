//! Event store, rollup store and control plane on Apache Cassandra.
//!
//! A process opens one [`Cassandra`] connection and from it whatever its role needs. Setup makes the
//! tables that `schemas/cql` defines; the tables of time slices are made while events come. Nothing
//! here retries a statement: errors tell the caller what to do, and every write may be sent again.
//!
//! Each opened store is one user of its own for R11: where a node restarted and may have lost
//! acknowledged writes, every user whose writes those were is told once by its sync.

mod check;
mod clusters;
mod columns;
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

pub use clusters::{CassandraClusters, Homes};
pub use connection::Cassandra;
pub use control::{CassandraControlPlane, Claims, ControlSettings, RegisteredPartition, Topics};
pub use error::CassandraError;
pub use events::CassandraEventStore;
pub use lease::Lease;
pub use rollups::CassandraRollupStore;
pub use settings::{
    CassandraSettings, ConsistencyLevel, Credentials, Replication, TlsIdentity, TlsSettings,
};
pub use setup::{FirstNamespace, KeyspaceSetup, Settled, SetupPlan};
pub use slices::CassandraDataset;
