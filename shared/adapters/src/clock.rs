//! The one place that reads clocks. Everything else gets time as a value.

use quipu_core::time::Micros;
use rustix::time::{ClockId, clock_gettime};
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// One reading of both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The wall clock, which may step.
    pub wall: Micros,
    /// A clock that only runs forward, also while the machine sleeps.
    pub steady: Duration,
}

/// A source of readings. Cheap to clone.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Reading + Send + Sync>);

impl Clock {
    /// The machine's clocks.
    pub fn system() -> Self {
        Self(Arc::new(|| Reading {
            wall: wall(),
            steady: steady(),
        }))
    }

    /// A clock that shows what a test sets.
    pub fn manual(start: Micros) -> (Self, ManualClock) {
        let hands = Arc::new(Mutex::new(Reading {
            wall: start,
            steady: Duration::ZERO,
        }));
        let shown = Arc::clone(&hands);
        let read = move || *shown.lock().unwrap_or_else(PoisonError::into_inner);
        (Self(Arc::new(read)), ManualClock(hands))
    }

    /// Both clocks now.
    pub fn read(&self) -> Reading {
        (self.0)()
    }

    /// The wall clock now.
    pub fn now(&self) -> Micros {
        self.read().wall
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.read()).finish()
    }
}

/// Sets a manual clock.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Mutex<Reading>>);

impl ManualClock {
    /// Lets time pass on both clocks.
    pub fn advance(&self, by: Duration) {
        let mut hands = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *hands = Reading {
            wall: hands.wall + by,
            steady: hands.steady + by,
        };
    }

    /// Steps the wall clock alone.
    pub fn step_to(&self, wall: Micros) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).wall = wall;
    }
}

fn wall() -> Micros {
    let now = clock_gettime(ClockId::Realtime);
    let nanos = i32::try_from(now.tv_nsec).expect("nanoseconds of a second fit 32 bits");
    Micros::from_unix(now.tv_sec, nanos).expect("the present fits 64 bits of microseconds")
}

fn steady() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).expect("time since boot is not negative");
    let nanos = u32::try_from(now.tv_nsec).expect("nanoseconds of a second fit 32 bits");
    Duration::new(seconds, nanos)
}
