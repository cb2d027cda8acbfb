//! Best-effort counters that measure how long their calls take.

use super::Meter;
use crate::{
    metrics::stores as names,
    ports::{BestEffort, BestEffortResult},
};
use futures::{FutureExt, future::BoxFuture};
use quipu_core::event::CounterKey;
use std::time::Duration;

/// Best-effort counters with meters.
#[derive(Debug)]
pub struct MeteredBestEffort<B> {
    counters: B,
    add: Meter,
    get: Meter,
    delete: Meter,
}

impl<B> MeteredBestEffort<B> {
    /// Measures counters. Call it once the process has its recorder.
    pub fn new(counters: B) -> Self {
        let meter = |operation| Meter::new(names::BEST_EFFORT_SECONDS, operation);
        Self {
            counters,
            add: meter("add"),
            get: meter("get"),
            delete: meter("delete"),
        }
    }
}

impl<B: BestEffort> BestEffort for MeteredBestEffort<B> {
    fn add<'a>(
        &'a self,
        counter: &'a CounterKey,
        delta: i64,
        ttl: Duration,
    ) -> BoxFuture<'a, BestEffortResult<i64>> {
        let add = self.counters.add(counter, delta, ttl);
        self.add.time(add).boxed()
    }

    fn get<'a>(&'a self, counter: &'a CounterKey) -> BoxFuture<'a, BestEffortResult<Option<i64>>> {
        self.get.time(self.counters.get(counter)).boxed()
    }

    fn delete<'a>(&'a self, counter: &'a CounterKey) -> BoxFuture<'a, BestEffortResult<()>> {
        self.delete.time(self.counters.delete(counter)).boxed()
    }
}
