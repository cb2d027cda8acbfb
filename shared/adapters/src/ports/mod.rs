//! The few traits round what is foreign and has several real implementations.

mod best_effort;
mod cache;
mod clusters;
mod control;
mod error;
mod event_store;
mod log;
mod rollup_store;

pub use best_effort::{BestEffort, BestEffortError, BestEffortResult};
pub use cache::Cache;
pub use clusters::{ClusterError, ClusterRecord, Clusters, OneCluster};
pub(crate) use control::history_page;
pub use control::{
    ChangeRequest, ControlError, ControlPlane, HISTORY_PAGE, NamespaceRecord, NamespaceVersion,
};
pub use error::StoreError;
pub use event_store::{Durability, EventStore, Extent, Lookup, SliceInfo, SliceState};
pub use log::{
    Appended, Assignment, Body, Committed, Consumer, LogError, NewRecord, Polled, Producer, Record,
    Stamp, Topic,
};
pub use rollup_store::{CounterPage, ListPosition, Parked, RollupRow, RollupStore};
