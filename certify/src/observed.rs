//! What is found afterwards: in the log, among the dead letters, in the stores and in answers.

use quipu_core::{
    event::{EventKey, StoredEvent},
    name::CounterName,
    time::Micros,
};
use std::collections::BTreeMap;

/// A record's place in the events topic: partition and offset.
pub type Place = (u32, u64);

/// Everything that there is of a run.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The rows of every counter, as the event store gives them.
    pub rows: BTreeMap<CounterName, Vec<StoredEvent>>,
    /// The run's records in the events topic.
    pub log: BTreeMap<Place, Logged>,
    /// Why records were refused, by their places in the events topic.
    pub dead: BTreeMap<Place, String>,
    /// What every counter is said to be.
    pub counts: BTreeMap<CounterName, Counts>,
    /// Counts that readers were shown during the run.
    pub shown: Vec<Shown>,
}

/// A record of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Logged {
    /// An event.
    Event(CounterName, EventKey),
    /// Something that is no event, appended on purpose.
    Poison,
}

/// A count, and through when it is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The sum.
    pub count: i128,
    /// Every event up to this time is in it.
    pub through: Micros,
}

/// What one counter is said to be, when nothing happens any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The checkpoint in the rollup store.
    pub checkpoint: Option<Counted>,
    /// What the cache has.
    pub cached: Option<Counted>,
    /// What a read is answered.
    pub read: Option<Counted>,
    /// What an accurate read is answered: the checkpoint and all that was stored since.
    pub accurate: Option<i128>,
}

/// A count that a reader was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The counter.
    pub counter: CounterName,
    /// The answer.
    pub counted: Counted,
}
