//! Best-effort counters in this process's memory, bounded by bytes. They end with the process.

use super::cache::{bytes_of, typical_entries};
use crate::{
    clock::Clock,
    ports::{BestEffort, BestEffortError, BestEffortResult},
};
use futures::{FutureExt, future::BoxFuture};
use quick_cache::{
    Weighter,
    sync::{EntryAction, EntryResult},
};
use quipu_core::event::CounterKey;
use std::{fmt, time::Duration};

/// Best-effort counters. When there is no room for all, those that are seldom used are lost.
pub struct EmbeddedBestEffort {
    entries: quick_cache::sync::Cache<CounterKey, Kept, EntryBytes>,
    clock: Clock,
}

/// A counter.
#[derive(Clone, Copy)]
struct Kept {
    count: i64,
    /// A time of the steady clock: from then on it is as if it were not there.
    ends: Duration,
}

impl EmbeddedBestEffort {
    /// What the counters take unless told otherwise, in bytes: room for more than 150,000.
    pub const DEFAULT_BYTES: u64 = 32 << 20;

    /// Counters that take about this many bytes of memory.
    pub fn new(bytes: u64, clock: Clock) -> Self {
        let entries =
            quick_cache::sync::Cache::with_weighter(typical_entries(bytes), bytes, EntryBytes);
        Self { entries, clock }
    }

    fn add_now(&self, counter: &CounterKey, delta: i64, ttl: Duration) -> BestEffortResult<i64> {
        let now = self.clock.read().steady;
        let ends = now.saturating_add(ttl);
        // The cache holds the key's lock meanwhile.
        let add = |_: &CounterKey, kept: &mut Kept| {
            let before = if kept.ends > now { kept.count } else { 0 };
            let sum = before.checked_add(delta);
            if let Some(count) = sum {
                *kept = Kept { count, ends };
            }
            EntryAction::Retain(sum.ok_or(BestEffortError::OutOfRange))
        };
        match self.entries.entry(counter, None, add) {
            EntryResult::Retained(sum) => sum,
            EntryResult::Vacant(vacant) => {
                // An error says that the counter was deleted meanwhile: after this add, then.
                vacant.insert(Kept { count: delta, ends }).ok();
                Ok(delta)
            }
            EntryResult::Removed(..) | EntryResult::Replaced(..) | EntryResult::Timeout => {
                unreachable!("every entry is retained, and the wait has no end")
            }
        }
    }

    fn count(&self, counter: &CounterKey) -> Option<i64> {
        let now = self.clock.read().steady;
        let kept = self.entries.get(counter)?;
        (kept.ends > now).then_some(kept.count)
    }
}

impl fmt::Debug for EmbeddedBestEffort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedBestEffort").finish_non_exhaustive()
    }
}

/// Weighs a counter by its bytes.
#[derive(Clone)]
struct EntryBytes;

impl Weighter<CounterKey, Kept> for EntryBytes {
    fn weight(&self, counter: &CounterKey, _: &Kept) -> u64 {
        bytes_of(counter)
    }
}

impl BestEffort for EmbeddedBestEffort {
    fn add<'a>(
        &'a self,
        counter: &'a CounterKey,
        delta: i64,
        ttl: Duration,
    ) -> BoxFuture<'a, BestEffortResult<i64>> {
        async move { self.add_now(counter, delta, ttl) }.boxed()
    }

    fn get<'a>(&'a self, counter: &'a CounterKey) -> BoxFuture<'a, BestEffortResult<Option<i64>>> {
        async move { Ok(self.count(counter)) }.boxed()
    }

    fn delete<'a>(&'a self, counter: &'a CounterKey) -> BoxFuture<'a, BestEffortResult<()>> {
        let delete = async move {
            self.entries.remove(counter);
            Ok(())
        };
        delete.boxed()
    }
}
