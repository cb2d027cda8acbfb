//! What happened in each second of a run.

use serde::Serialize;
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// One second of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Second {
    /// Sent for the first time.
    pub attempted: u32,
    /// Promised to be counted.
    pub acknowledged: u32,
    /// Times that an answer settled nothing, and it was sent again.
    pub unsettled: u32,
    /// Reads that were answered.
    pub read: u32,
    /// Reads that failed.
    pub unread: u32,
    /// How long before the answer the most stale count was complete, in seconds.
    pub staleness: f64,
}

/// A clock of the run and its seconds. Cheap to clone; clones are one.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    began: Instant,
    seconds: Arc<Mutex<Vec<Second>>>,
}

impl Timeline {
    /// Begins now.
    pub(crate) fn begin() -> Self {
        Self {
            began: Instant::now(),
            seconds: Arc::default(),
        }
    }

    /// How long the run has lasted.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Changes the second that it is now.
    pub(crate) fn note(&self, change: impl FnOnce(&mut Second)) {
        let now = usize::try_from(self.began.elapsed().as_secs()).unwrap_or(usize::MAX);
        let mut seconds = self.locked();
        if seconds.len() <= now {
            seconds.resize(now + 1, Second::default());
        }
        change(&mut seconds[now]);
    }

    /// All seconds so far.
    pub(crate) fn seconds(&self) -> Vec<Second> {
        self.locked().clone()
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Second>> {
        self.seconds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
