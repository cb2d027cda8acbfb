//! What can be wrong, each with what names the culprit.

use crate::observed::Place;
use quipu_core::{
    event::{EventKey, Mutation},
    name::CounterName,
    time::Micros,
};
use std::fmt;

/// Who says what a counter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The checkpoint in the rollup store.
    Checkpoint,
    /// The cache.
    Cache,
    /// A read.
    Read,
    /// An accurate read.
    AccurateRead,
    /// A read while the load ran.
    ReadDuringTheRun,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Checkpoint => "the checkpoint",
            Self::Cache => "the cache",
            Self::Read => "a read",
            Self::AccurateRead => "an accurate read",
            Self::ReadDuringTheRun => "a read during the run",
        })
    }
}

/// Something that must never be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A promise was broken.
    #[error("acknowledged, and not stored: {counter} {key:?}")]
    Lost {
        /// Of this counter.
        counter: CounterName,
        /// The event.
        key: EventKey,
    },
    /// A promise was broken.
    #[error("refused as late for good, and stored: {counter} {key:?}")]
    CountedThoughLate {
        /// Of this counter.
        counter: CounterName,
        /// The event.
        key: EventKey,
    },
    /// The log lost a record that it had acknowledged.
    #[error("the log acknowledged {counter} {key:?} at {place:?}, and does not have it there")]
    NotInLog {
        /// Of this counter.
        counter: CounterName,
        /// The event.
        key: EventKey,
        /// Where it was said to be.
        place: Place,
    },
    /// A record has no verdict.
    #[error("neither stored nor a dead letter: the record at {0:?} {1}")]
    Vanished(Place, String),
    /// A record has two verdicts.
    #[error("stored, and a dead letter ({reason}): the record of {counter} {key:?} at {place:?}")]
    TwoVerdicts {
        /// Of this counter.
        counter: CounterName,
        /// The event.
        key: EventKey,
        /// The record that the row names as its source.
        place: Place,
        /// Why it was refused.
        reason: String,
    },
    /// There is a row that nobody attempted.
    #[error("stored, and never attempted: {counter} {key:?}")]
    Invented {
        /// Of this counter.
        counter: CounterName,
        /// The event.
        key: EventKey,
    },
    /// A row says something else than its event.
    #[error("{counter} {key:?} was {attempted:?}, and is stored as {stored:?}")]
    Changed {
        /// Of this counter.
        counter: CounterName,
        /// The event.
        key: EventKey,
        /// What it was.
        attempted: Mutation,
        /// What it became.
        stored: Mutation,
    },
    /// One identity has two rows.
    #[error("stored twice: {counter} {key:?}")]
    Doubled {
        /// Of this counter.
        counter: CounterName,
        /// The event.
        key: EventKey,
    },
    /// The record that a row names as its source is another one, or not there.
    #[error("{counter} {key:?} is stored from {place:?}, where the log has no record of it")]
    WrongSource {
        /// Of this counter.
        counter: CounterName,
        /// The event.
        key: EventKey,
        /// Where it is said to come from.
        place: Place,
    },
    /// A count is not the sum of what is stored.
    #[error(
        "{counter}: {source_} says {said} through {through:?}, and the rows say {expected}; the \
         difference {} is {culprit}", said - expected
    )]
    WrongCount {
        /// The counter.
        counter: CounterName,
        /// Who says it.
        source_: Source,
        /// What it is said to be.
        said: i128,
        /// Through when that is complete.
        through: Micros,
        /// The fold of the rows up to then.
        expected: i128,
        /// Whose delta that is, as far as one event explains it.
        culprit: String,
    },
    /// A count does not cover all rows, although everything is closed.
    #[error("{counter}: {source_} has {through:?}, and there are rows through {last:?}")]
    Incomplete {
        /// The counter.
        counter: CounterName,
        /// Who says it.
        source_: Source,
        /// Through when it is complete, if there is one.
        through: Option<Micros>,
        /// The newest row.
        last: Micros,
    },
}
