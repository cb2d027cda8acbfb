//! A rollup store in memory.
//!
//! Fault model: none. Every write is durable when it returns, nothing fails, nothing is lost.

use super::lock;
use crate::{
    listing::Listing,
    ports::{CounterPage, Durability, ListPosition, Parked, RollupRow, RollupStore, StoreError},
};
use quipu_core::{
    checkpoint::Checkpoint,
    event::{CounterKey, NamespaceId},
    key::route,
    time::Micros,
};
use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{Arc, Mutex},
};

/// A rollup store for tests. Clones are one store.
#[derive(Clone, Debug, Default)]
pub struct MemoryRollupStore {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    rows: BTreeMap<CounterKey, RollupRow>,
    parked: BTreeMap<u32, BTreeMap<CounterKey, Micros>>,
}

impl RollupStore for MemoryRollupStore {
    async fn load(&self, counters: &[CounterKey]) -> Result<Vec<RollupRow>, StoreError> {
        let state = lock(&self.state);
        let row = |counter| state.rows.get(counter).copied().unwrap_or_default();
        Ok(counters.iter().map(row).collect())
    }

    async fn counters(
        &self,
        namespace: NamespaceId,
        from: ListPosition,
        limit: usize,
    ) -> Result<CounterPage, StoreError> {
        let state = lock(&self.state);
        let place = |counter: &CounterKey| route(counter.name.as_str().as_bytes()).cast_signed();
        let rows = state
            .rows
            .iter()
            .map(|(counter, row)| (place(counter), counter, row));
        let mut rows: Vec<_> = rows.filter(|(at, ..)| *at >= from.at).collect();
        rows.sort_by_key(|(at, counter, _)| (*at, *counter));
        let mut listing = Listing::new(namespace, from, limit);
        for (at, counter, row) in rows {
            if listing.is_full() {
                return Ok(listing.and_more());
            }
            listing.examine(at, counter.clone(), row.checkpoint.is_some());
        }
        Ok(listing.last())
    }

    async fn put(&self, checkpoints: Vec<(CounterKey, Checkpoint)>) -> Result<(), StoreError> {
        let mut state = lock(&self.state);
        for (counter, checkpoint) in checkpoints {
            let row = state.rows.entry(counter).or_default();
            if row
                .checkpoint
                .is_none_or(|stored| checkpoint.supersedes(&stored))
            {
                row.checkpoint = Some(checkpoint);
            }
        }
        Ok(())
    }

    async fn note_writes(&self, writes: Vec<(CounterKey, Micros)>) -> Result<(), StoreError> {
        let mut state = lock(&self.state);
        for (counter, write) in writes {
            let row = state.rows.entry(counter).or_default();
            row.last_write = row.last_write.max(Some(write));
        }
        Ok(())
    }

    async fn park(&self, partition: u32, signals: Vec<Parked>) -> Result<(), StoreError> {
        let mut state = lock(&self.state);
        let parked = state.parked.entry(partition).or_default();
        for signal in signals {
            let last_write = parked.entry(signal.counter).or_insert(signal.last_write);
            *last_write = signal.last_write.max(*last_write);
        }
        Ok(())
    }

    async fn parked(
        &self,
        partition: u32,
        after: Option<&CounterKey>,
        limit: usize,
    ) -> Result<Vec<Parked>, StoreError> {
        let state = lock(&self.state);
        let Some(parked) = state.parked.get(&partition) else {
            return Ok(Vec::new());
        };
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let signal = |(counter, last_write): (&CounterKey, &Micros)| Parked {
            counter: counter.clone(),
            last_write: *last_write,
        };
        Ok(parked
            .range((from, Bound::Unbounded))
            .take(limit)
            .map(signal)
            .collect())
    }

    async fn unpark(&self, partition: u32, finished: Vec<Parked>) -> Result<(), StoreError> {
        let mut state = lock(&self.state);
        let parked = state.parked.entry(partition).or_default();
        for signal in finished {
            if parked
                .get(&signal.counter)
                .is_some_and(|last| *last <= signal.last_write)
            {
                parked.remove(&signal.counter);
            }
        }
        Ok(())
    }

    async fn sync(&self) -> Result<Durability, StoreError> {
        Ok(Durability::Durable)
    }
}
