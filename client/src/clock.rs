//! The one place that reads clocks. Everything else gets time as a value.

use quipu_core::time::Micros;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// A steady clock, from when it was made on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// A time that only runs forward.
    pub(crate) fn steady(&self) -> Duration {
        self.0.elapsed()
    }
}

/// The wall clock, which may step.
pub(crate) fn wall() -> Micros {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .expect("the present is after 1970");
    let micros = i64::try_from(since.as_micros());
    Micros::new(micros.expect("the present fits 64 bits of microseconds"))
}
