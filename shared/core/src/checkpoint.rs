//! Checkpoints: a count that is true for ever through a time (R15).

use crate::{aggregate::Count, time::Micros};
use std::time::Duration;

/// A namespace-wide recount number; a recount makes a new one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(u16);

impl Generation {
    /// Generations are below this, so that a write timestamp fits 64 bits.
    pub const LIMIT: u16 = 2048;

    /// A generation from its number; `None` at the limit and above.
    pub fn new(number: u16) -> Option<Self> {
        (number < Self::LIMIT).then_some(Self(number))
    }

    /// Its number.
    pub fn get(self) -> u16 {
        self.0
    }
}

/// A count that covers every accepted event up to `last_rollup`, and none after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Which recount it belongs to.
    pub generation: Generation,
    /// The ordered fold of the events.
    pub count: Count,
    /// Every event up to this time is in the count.
    pub last_rollup: Micros,
}

impl Checkpoint {
    /// The checkpoint of a counter that was never rolled up: zero through the time before which
    /// its namespace could not accept anything.
    pub fn origin(through: Micros) -> Self {
        Self {
            generation: Generation::default(),
            count: Count::ZERO,
            last_rollup: through,
        }
    }

    /// Whether this one takes the other's place: it is newer by (generation, time). Of two with
    /// the same place both are equal, by R14.
    pub fn supersedes(&self, other: &Self) -> bool {
        (self.generation, self.last_rollup) > (other.generation, other.last_rollup)
    }

    /// The write timestamp that makes an older checkpoint never win:
    /// `generation · 2^52 + last_rollup` in microseconds. 2^52 µs reach to the year 2112.
    pub fn write_timestamp(&self) -> i64 {
        (i64::from(self.generation.get()) << 52) + self.last_rollup.get().clamp(0, (1 << 52) - 1)
    }

    /// How far behind `closed` it is.
    pub fn lag(&self, closed: Micros) -> Duration {
        closed.since(self.last_rollup)
    }
}

/// Whether a counter has converged: its checkpoint covers its last write.
pub fn converged(last_rollup: Micros, last_write: Micros) -> bool {
    last_rollup >= last_write
}
