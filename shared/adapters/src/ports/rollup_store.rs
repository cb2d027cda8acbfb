//! The rollup store: checkpoints, last writes, and signals that were parked.

use super::{Durability, StoreError};
use quipu_core::{
    checkpoint::Checkpoint,
    event::{CounterKey, NamespaceId},
    name::CounterName,
    time::Micros,
};

/// What is stored of one counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RollupRow {
    /// Its newest checkpoint, if it was ever rolled up.
    pub checkpoint: Option<Checkpoint>,
    /// The newest write that anybody noted (R17); last write wins by event time.
    pub last_write: Option<Micros>,
}

/// A signal that could not finish in time, stored so that its offset may be committed (R17).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parked {
    /// The counter to roll up.
    pub counter: CounterKey,
    /// Once it is rolled up through this time the row can go.
    pub last_write: Micros,
}

/// A place in the order, a store's own, in which it lists counters. It names no counter, so it can
/// be shown to whoever may not see all of them. Every value is a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListPosition {
    /// Where counters lie; several may lie at one place.
    pub at: i64,
    /// How many at that place are behind the position already.
    pub passed: u32,
}

impl ListPosition {
    /// Before all counters.
    pub const START: Self = Self {
        at: i64::MIN,
        passed: 0,
    };
}

/// A part of a list of counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterPage {
    /// Their names, in an order of the store's own.
    pub counters: Vec<CounterName>,
    /// Where the list goes on; none at its end.
    pub next: Option<ListPosition>,
}

/// Checkpoints, where an older one never wins (R15).
pub trait RollupStore: Clone + Send + Sync + 'static {
    /// What is stored of each counter, in the order asked.
    fn load(
        &self,
        counters: &[CounterKey],
    ) -> impl Future<Output = Result<Vec<RollupRow>, StoreError>> + Send;

    /// Up to `limit` counters of a namespace that have a checkpoint, from a position on. A call
    /// looks at a bounded number of rows, so a page may be short or empty and yet not the last. A
    /// counter that was there before the first page is listed; one may be listed twice.
    fn counters(
        &self,
        namespace: NamespaceId,
        from: ListPosition,
        limit: usize,
    ) -> impl Future<Output = Result<CounterPage, StoreError>> + Send;

    /// Writes checkpoints. One that does not supersede what is stored changes nothing.
    fn put(
        &self,
        checkpoints: Vec<(CounterKey, Checkpoint)>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Notes last writes; an older one than stored changes nothing.
    fn note_writes(
        &self,
        writes: Vec<(CounterKey, Micros)>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Parks signals of a signal partition. Of two for one counter the later write stays.
    fn park(
        &self,
        partition: u32,
        signals: Vec<Parked>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Up to `limit` parked signals of a partition, in an order of counters that is the store's own
    /// but always the same, after `after`, which may be gone.
    fn parked(
        &self,
        partition: u32,
        after: Option<&CounterKey>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Parked>, StoreError>> + Send;

    /// Removes parked signals whose last write is at or before the one given.
    fn unpark(
        &self,
        partition: u32,
        finished: Vec<Parked>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Resolves once it is known whether every write acknowledged before the call is durable
    /// (R11).
    fn sync(&self) -> impl Future<Output = Result<Durability, StoreError>> + Send;
}
