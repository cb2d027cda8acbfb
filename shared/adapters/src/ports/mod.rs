//! The few traits round what is foreign and has several real implementations.

mod cache;
mod control;
mod error;
mod event_store;
mod log;
mod rollup_store;

pub use cache::Cache;
pub use control::{ControlError, ControlPlane, NamespaceRecord};
pub use error::StoreError;
pub use event_store::{Durability, EventStore, Lookup, SliceInfo, SliceState};
pub use log::{
    Appended, Assignment, Body, Committed, Consumer, LogError, NewRecord, Polled, Producer, Record,
    Stamp, Topic,
};
pub use rollup_store::{Parked, RollupRow, RollupStore};
