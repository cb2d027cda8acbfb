//! Events: their identity, their total order, and which copy of one wins.

use crate::{
    name::{CounterName, ItemKey, Token},
    time::Micros,
};

/// The number of one incarnation of a namespace: new at each creation (R10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespaceId(pub u32);

/// A counter, in the terms of storage: an incarnation and a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CounterKey {
    /// The incarnation of the namespace.
    pub namespace: NamespaceId,
    /// The counter's name in it.
    pub name: CounterName,
}

/// The place of an event among its counter's events, and with the counter its identity (R8, R9).
/// The derived order is the total order (`event_time`, `event_id`, `item_key`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventKey {
    /// The token's generation time, floored to microseconds.
    pub event_time: Micros,
    /// The token.
    pub event_id: Token,
    /// The item key; empty by default.
    pub item_key: ItemKey,
}

/// What an event does to its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mutation {
    /// Adds a signed delta.
    Add(i64),
    /// Zeroes what stands before it.
    Clear,
}

/// Where a record stood in the log. The derived order decides which of several copies of one
/// identity wins: the smallest (R8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogPosition {
    /// The running maximum of append times in the partition (R1).
    pub effective_time: Micros,
    /// The partition of the events topic.
    pub partition: u32,
    /// The offset in it.
    pub offset: u64,
}

/// One accepted event, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEvent {
    /// Its place among its counter's events.
    pub key: EventKey,
    /// What it does.
    pub mutation: Mutation,
    /// The record that it came from.
    pub source: LogPosition,
}

/// A row to write: an accepted event of a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRow {
    /// The counter that it changes.
    pub counter: CounterKey,
    /// The event.
    pub event: StoredEvent,
}
