//! A cache in memory.
//!
//! Fault model: it can lose everything at once ([`MemoryCache::forget`]). It never fails, never
//! loses a part, and is not bounded.

use super::lock;
use crate::ports::{Cache, StoreError};
use quipu_core::{checkpoint::Checkpoint, event::CounterKey};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

/// A cache for tests. Clones are one cache.
#[derive(Clone, Debug, Default)]
pub struct MemoryCache {
    entries: Arc<Mutex<BTreeMap<CounterKey, Checkpoint>>>,
}

impl MemoryCache {
    /// Loses everything, as a cache may at any time.
    pub fn forget(&self) {
        lock(&self.entries).clear();
    }
}

impl Cache for MemoryCache {
    async fn get(&self, counter: &CounterKey) -> Result<Option<Checkpoint>, StoreError> {
        Ok(lock(&self.entries).get(counter).copied())
    }

    async fn set_if_newer(
        &self,
        checkpoints: Vec<(CounterKey, Checkpoint)>,
    ) -> Result<(), StoreError> {
        let mut entries = lock(&self.entries);
        for (counter, checkpoint) in checkpoints {
            let cached = entries.entry(counter).or_insert(checkpoint);
            if checkpoint.supersedes(cached) {
                *cached = checkpoint;
            }
        }
        Ok(())
    }
}
