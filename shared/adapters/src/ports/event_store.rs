//! The event store: accepted events, immutable, in time slices.

use super::StoreError;
use quipu_core::{
    event::{CounterKey, EventKey, EventRow, StoredEvent},
    slice::SliceId,
    time::Micros,
    window::Window,
};
use std::ops::ControlFlow;

/// What became of writes that were acknowledged (R11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Every write that was acknowledged before the call survives a crash.
    Durable,
    /// The store restarted and may have lost some: go back to what is committed, write again.
    Lost,
}

/// What the store knows of one identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Stored; of several copies, the one that wins (R8).
    Stored(StoredEvent),
    /// Not stored, in a slice that is kept.
    Absent,
    /// Its slice was dropped: nobody can tell.
    Dropped,
}

/// The life of a slice (R19).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SliceState {
    /// Being created: not yet written or read.
    Creating,
    /// In use.
    Ready,
    /// Being dropped: no longer written or read.
    Dropping,
    /// Gone.
    Dropped,
}

/// A slice in the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceInfo {
    /// Which slice.
    pub id: SliceId,
    /// Its state.
    pub state: SliceState,
    /// Its last moment.
    pub last: Micros,
}

/// What a scan of a window has to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// The partitions of one counter that the window touches, in slices that are kept.
    pub partitions: u64,
    /// Whether it touches a slice that is being dropped, or was: a scan leaves its events out, so
    /// the window must start at a checkpoint that was read after this was seen (R19).
    pub has_dropped: bool,
}

/// Accepted events, written idempotently.
///
/// Contract (the same suite runs against every implementation):
/// - writing an identity again changes nothing, except that of several copies the one with the
///   smallest [`LogPosition`](quipu_core::event::LogPosition) is the one that is read;
/// - a scan sees every write that was acknowledged before it began, once, in the total order.
pub trait EventStore: Clone + Send + Sync + 'static {
    /// Writes rows and returns once they are acknowledged. Not yet durable: see [`Self::sync`].
    /// A row whose slice was dropped is skipped and counted (R19). Borrowed, so that a caller can
    /// write the same rows again after an error.
    fn write(&self, rows: &[EventRow]) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Resolves once it is known whether every write acknowledged before the call is durable
    /// (R11). Calls may overlap.
    fn sync(&self) -> impl Future<Output = Result<Durability, StoreError>> + Send;

    /// Feeds a counter's distinct events in a window to `sink`, in the total order (R9), until it
    /// breaks. After an error the sink may have seen a part, which the caller throws away.
    fn scan(
        &self,
        counter: &CounterKey,
        window: Window,
        sink: &mut (dyn FnMut(StoredEvent) -> ControlFlow<()> + Send),
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// How much a scan of a window reads, whichever the counter.
    fn extent(&self, window: Window) -> impl Future<Output = Result<Extent, StoreError>> + Send;

    /// Looks one identity up.
    fn lookup(
        &self,
        counter: &CounterKey,
        key: &EventKey,
    ) -> impl Future<Output = Result<Lookup, StoreError>> + Send;

    /// Every slice of the catalogue, oldest first, without those dropped long ago.
    fn slices(&self) -> impl Future<Output = Result<Vec<SliceInfo>, StoreError>> + Send;

    /// Makes every slice that touches the window ready. Idempotent.
    fn prepare(&self, window: Window) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Drops a slice with all its events. Idempotent.
    fn drop_slice(&self, slice: SliceId) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Up to `limit` distinct counters of a slice that come after `after`, in an order of the
    /// store's own that is the same for every call (R18).
    fn counters(
        &self,
        slice: SliceId,
        after: Option<&CounterKey>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<CounterKey>, StoreError>> + Send;
}
