//! The cache in this process's memory, bounded by bytes.

use crate::ports::{Cache, StoreError};
use quick_cache::{
    Weighter,
    sync::{EntryAction, EntryResult},
};
use quipu_core::{checkpoint::Checkpoint, event::CounterKey};
use std::{fmt, sync::Arc};

/// A cache of checkpoints. Cheap to clone; all clones are one cache.
#[derive(Clone)]
pub struct EmbeddedCache {
    entries: Arc<quick_cache::sync::Cache<CounterKey, Checkpoint, EntryBytes>>,
}

impl EmbeddedCache {
    /// What the cache takes unless told otherwise, in bytes.
    pub const DEFAULT_BYTES: u64 = 16 << 20;

    /// A cache that takes about this many bytes of memory.
    pub fn new(bytes: u64) -> Self {
        let entries =
            quick_cache::sync::Cache::with_weighter(typical_entries(bytes), bytes, EntryBytes);
        Self {
            entries: Arc::new(entries),
        }
    }
}

impl Default for EmbeddedCache {
    fn default() -> Self {
        Self::new(Self::DEFAULT_BYTES)
    }
}

impl fmt::Debug for EmbeddedCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedCache").finish_non_exhaustive()
    }
}

/// Key, value and what the table and the name's allocation take besides.
const ENTRY_OVERHEAD: usize = 160;
const TYPICAL_ENTRY_BYTES: u64 = 200;

/// How many counters of a usual name fit into this many bytes.
pub(super) fn typical_entries(bytes: u64) -> usize {
    usize::try_from(bytes / TYPICAL_ENTRY_BYTES).unwrap_or(usize::MAX)
}

/// What a counter takes with its value, in bytes.
pub(super) fn bytes_of(counter: &CounterKey) -> u64 {
    u64::try_from(ENTRY_OVERHEAD + counter.name.as_str().len()).unwrap_or(u64::MAX)
}

/// Weighs an entry by its bytes.
#[derive(Clone)]
struct EntryBytes;

impl Weighter<CounterKey, Checkpoint> for EntryBytes {
    fn weight(&self, counter: &CounterKey, _: &Checkpoint) -> u64 {
        bytes_of(counter)
    }
}

impl Cache for EmbeddedCache {
    async fn get(&self, counter: &CounterKey) -> Result<Option<Checkpoint>, StoreError> {
        Ok(self.entries.get(counter))
    }

    async fn set_if_newer(
        &self,
        checkpoints: Vec<(CounterKey, Checkpoint)>,
    ) -> Result<(), StoreError> {
        for (counter, checkpoint) in checkpoints {
            // The cache holds the key's lock while it compares. On a vacant key, the guard makes
            // everybody else wait for the value; no value is lost or set twice.
            let newer = |_: &CounterKey, cached: &mut Checkpoint| {
                if checkpoint.supersedes(cached) {
                    *cached = checkpoint;
                }
                EntryAction::Retain(())
            };
            if let EntryResult::Vacant(vacant) = self.entries.entry(&counter, None, newer) {
                // An error says that the entry was removed meanwhile: the cache may lose anything.
                vacant.insert(checkpoint).ok();
            }
        }
        Ok(())
    }
}
