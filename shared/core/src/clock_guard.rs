//! A clock that jumps (R3): wall time is compared with a clock that only ever runs forward.

use crate::time::Micros;
use std::time::Duration;

/// The wall clock ran ahead of the time that has really passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the machine's clock jumped {ahead:?} ahead within a moment; nothing is stamped until it is \
     back, or the process is restarted with a clock that is right"
)]
pub struct ClockJumped {
    /// How far ahead it is.
    pub ahead: Duration,
}

/// Watches a wall clock for jumps ahead.
#[derive(Clone, Copy, Debug)]
pub struct ClockGuard {
    wall: Micros,
    steady: Duration,
}

impl ClockGuard {
    /// A jump of at most this much is drift, and followed.
    pub const TOLERANCE: Duration = Duration::from_secs(2);

    /// Trusts the wall clock as it shows now. `steady` is a clock that never steps and goes on
    /// while the machine sleeps.
    pub fn new(wall: Micros, steady: Duration) -> Self {
        Self { wall, steady }
    }

    /// Checks a reading. A clock that drifts is followed. So is one that steps back, and it may
    /// return at any time to where it would have been: the log's time was there already.
    pub fn check(&mut self, wall: Micros, steady: Duration) -> Result<Micros, ClockJumped> {
        let expected = self.wall + steady.saturating_sub(self.steady);
        let ahead = wall.since(expected);
        if ahead > Self::TOLERANCE {
            return Err(ClockJumped { ahead });
        }
        if expected.since(wall) <= Self::TOLERANCE {
            *self = Self { wall, steady };
        }
        Ok(wall)
    }
}
