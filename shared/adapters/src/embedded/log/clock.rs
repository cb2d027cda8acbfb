//! The log's clock: one effective time for all topics and partitions. It never goes back, not
//! even over a restart, and it stops when the machine's clock jumps ahead (R3).

use crate::clock::Clock;
use quipu_core::{
    clock_guard::{ClockGuard, ClockJumped},
    time::Micros,
};

/// Stamps append times.
#[derive(Debug)]
pub(super) struct LogClock {
    clock: Clock,
    guard: ClockGuard,
    last: Micros,
    stopped: bool,
}

impl LogClock {
    /// Goes on after the last time that anything durable holds. The machine's clock is trusted as
    /// it shows now.
    pub(super) fn resume(clock: Clock, last: Micros) -> Self {
        let reading = clock.read();
        let ahead = last.since(reading.wall);
        if ahead > ClockGuard::TOLERANCE {
            tracing::error!(
                ?ahead,
                "the log's time is ahead of the machine's clock, and events of now may be late \
                 until the clock has caught up; is the clock right?"
            );
        }
        let guard = ClockGuard::new(reading.wall, reading.steady);
        Self {
            clock,
            guard,
            last,
            stopped: false,
        }
    }

    /// The time for an append now: at or after every one that was given.
    pub(super) fn stamp(&mut self) -> Result<Micros, ClockJumped> {
        let reading = self.clock.read();
        let checked = self.guard.check(reading.wall, reading.steady);
        if checked.is_err() != self.stopped {
            self.stopped = checked.is_err();
            if let Err(error) = &checked {
                tracing::error!(%error, "the log stopped");
            } else {
                tracing::warn!("the log goes on: the machine's clock is back");
            }
        }
        self.last = self.last.max(checked?);
        Ok(self.last)
    }

    /// A time after every one that was given; all later ones are at or after it (R5).
    pub(super) fn stamp_change(&mut self) -> Result<Micros, ClockJumped> {
        let earlier = self.last;
        self.last = self.stamp()?.max(earlier.succ());
        Ok(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn times_never_go_back_and_a_change_comes_after_all_of_them() {
        let (clock, hands) = Clock::manual(Micros::new(1_000_000));
        let mut log = LogClock::resume(clock, Micros::new(1_000_500));
        assert_eq!(log.stamp(), Ok(Micros::new(1_000_500)));
        assert_eq!(log.stamp_change(), Ok(Micros::new(1_000_501)));
        hands.advance(Duration::from_secs(1));
        assert_eq!(log.stamp(), Ok(Micros::new(2_000_000)));
        hands.step_to(Micros::new(3));
        assert_eq!(log.stamp(), Ok(Micros::new(2_000_000)));
        assert_eq!(log.stamp_change(), Ok(Micros::new(2_000_001)));
    }

    #[test]
    fn a_jump_stops_the_clock_until_it_is_back() {
        let (clock, hands) = Clock::manual(Micros::new(0));
        let mut log = LogClock::resume(clock, Micros::MIN);
        hands.step_to(Micros::new(3_000_000));
        assert!(log.stamp().is_err());
        assert!(log.stamp_change().is_err());
        hands.step_to(Micros::new(10));
        assert_eq!(log.stamp(), Ok(Micros::new(10)));
    }
}
