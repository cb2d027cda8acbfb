//! The rollup store in one directory: checkpoints, last writes, parked signals.
//!
//! A row is read before it is written, under one lock, so an older one never wins (R15). It has a
//! journal of its own: a rollup then never waits for a large batch of events.

use super::{
    database::{StoreDatabase, blocking, store_error, unreadable},
    keys::{self, KeyError},
};
use crate::{
    listing::Listing,
    ports::{CounterPage, Durability, ListPosition, Parked, RollupRow, RollupStore, StoreError},
};
use fjall::{
    CompressionType, Keyspace, KeyspaceCreateOptions,
    config::{
        BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy,
        FilterPolicyEntry,
    },
};
use quipu_core::{
    aggregate::Count,
    checkpoint::{Checkpoint, Generation},
    event::{CounterKey, NamespaceId},
    time::Micros,
};
use std::{
    collections::BTreeMap,
    fmt,
    ops::Bound,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

const CACHE_BYTES: u64 = 12 << 20;
const MEMTABLE_BYTES: u64 = 4 << 20;

/// Checkpoints on the local disk. Cheap to clone.
#[derive(Clone)]
pub struct EmbeddedRollupStore {
    database: StoreDatabase,
    checkpoints: Keyspace,
    last_writes: Keyspace,
    parked: Keyspace,
    /// Held from the read of a row to its write.
    changing: Arc<Mutex<()>>,
}

impl EmbeddedRollupStore {
    /// Opens or creates the store in a directory of its own. Blocks while it reads its journal.
    ///
    /// # Errors
    /// When another process has it open, or when it cannot be read.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        let database = StoreDatabase::open(dir, CACHE_BYTES)?;
        let keyspace = |name| database.db().keyspace(name, options).map_err(store_error);
        Ok(Self {
            checkpoints: keyspace("checkpoints")?,
            last_writes: keyspace("last-writes")?,
            parked: keyspace("parked")?,
            changing: Arc::default(),
            database,
        })
    }

    /// Writes, of each key's values and the stored one, the one that `wins` over the others.
    async fn put_winners<T: Copy + Send + 'static>(
        &self,
        keyspace: &Keyspace,
        values: Vec<(Vec<u8>, T)>,
        format: Format<T>,
        wins: fn(&T, &T) -> bool,
    ) -> Result<(), StoreError> {
        let (store, keyspace) = (self.clone(), keyspace.clone());
        blocking(move || {
            let mut winners = BTreeMap::new();
            for (key, value) in values {
                let best = winners.entry(key).or_insert(value);
                if wins(&value, best) {
                    *best = value;
                }
            }
            let _changing = store
                .changing
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let mut batch = store.database.db().batch();
            for (key, value) in winners {
                if format
                    .get(&keyspace, &key)?
                    .is_none_or(|stored| wins(&value, &stored))
                {
                    batch.insert(&keyspace, key, (format.encode)(value));
                }
            }
            batch.commit().map_err(store_error)
        })
        .await
    }
}

impl fmt::Debug for EmbeddedRollupStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedRollupStore")
            .finish_non_exhaustive()
    }
}

/// How a value is stored.
struct Format<T> {
    what: &'static str,
    encode: fn(T) -> Vec<u8>,
    decode: fn(&[u8]) -> Result<T, KeyError>,
}

impl<T> Format<T> {
    fn get(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<T>, StoreError> {
        let Some(value) = keyspace.get(key).map_err(store_error)? else {
            return Ok(None);
        };
        let value = (self.decode)(&value).map_err(|error| unreadable(self.what, key, &error))?;
        Ok(Some(value))
    }
}

const CHECKPOINT: Format<Checkpoint> = Format {
    what: "a checkpoint",
    encode: encode_checkpoint,
    decode: decode_checkpoint,
};
const LAST_WRITE: Format<Micros> = Format {
    what: "a last write",
    encode: encode_time,
    decode: decode_time,
};

impl RollupStore for EmbeddedRollupStore {
    async fn load(&self, counters: &[CounterKey]) -> Result<Vec<RollupRow>, StoreError> {
        let load = |counter| {
            let key = keys::counter_key(counter);
            Ok(RollupRow {
                checkpoint: CHECKPOINT.get(&self.checkpoints, &key)?,
                last_write: LAST_WRITE.get(&self.last_writes, &key)?,
            })
        };
        counters.iter().map(load).collect()
    }

    async fn counters(
        &self,
        namespace: NamespaceId,
        from: ListPosition,
        limit: usize,
    ) -> Result<CounterPage, StoreError> {
        let checkpoints = self.checkpoints.clone();
        blocking(move || {
            let Ok(first) = u32::try_from(from.at.max(0)) else {
                return Ok(Listing::new(namespace, from, limit).last());
            };
            let mut listing = Listing::new(namespace, from, limit);
            for row in checkpoints.range(first.to_be_bytes()..) {
                if listing.is_full() {
                    return Ok(listing.and_more());
                }
                let key = row.key().map_err(store_error)?;
                let unreadable = |error| unreadable("a checkpoint", &key, &error);
                let at = keys::place_of(&key).map_err(unreadable)?;
                let counter = keys::counter_of(&key).map_err(unreadable)?;
                listing.examine(at.into(), counter, true);
            }
            Ok(listing.last())
        })
        .await
    }

    async fn put(&self, checkpoints: Vec<(CounterKey, Checkpoint)>) -> Result<(), StoreError> {
        let values = checkpoints
            .iter()
            .map(|(counter, value)| (keys::counter_key(counter), *value));
        let wins = Checkpoint::supersedes;
        self.put_winners(&self.checkpoints, values.collect(), CHECKPOINT, wins)
            .await
    }

    async fn note_writes(&self, writes: Vec<(CounterKey, Micros)>) -> Result<(), StoreError> {
        let values = writes
            .iter()
            .map(|(counter, value)| (keys::counter_key(counter), *value));
        self.put_winners(&self.last_writes, values.collect(), LAST_WRITE, Micros::gt)
            .await
    }

    async fn park(&self, partition: u32, signals: Vec<Parked>) -> Result<(), StoreError> {
        let value = |signal: &Parked| (parked_key(partition, &signal.counter), signal.last_write);
        let values = signals.iter().map(value).collect();
        self.put_winners(&self.parked, values, LAST_WRITE, Micros::gt)
            .await
    }

    async fn parked(
        &self,
        partition: u32,
        after: Option<&CounterKey>,
        limit: usize,
    ) -> Result<Vec<Parked>, StoreError> {
        let from = match after {
            Some(counter) => Bound::Excluded(parked_key(partition, counter)),
            None => Bound::Included(partition.to_be_bytes().to_vec()),
        };
        let prefix = partition.to_be_bytes();
        let rows = self.parked.range((from, Bound::Unbounded));
        let mut parked = Vec::new();
        for row in rows.take(limit) {
            let (key, value) = row.into_inner().map_err(store_error)?;
            let Some(mut rest) = key.strip_prefix(&prefix) else {
                break;
            };
            let unreadable = |error| unreadable("a parked signal", &key, &error);
            parked.push(Parked {
                counter: keys::take_counter(&mut rest).map_err(unreadable)?,
                last_write: decode_time(&value).map_err(unreadable)?,
            });
        }
        Ok(parked)
    }

    async fn unpark(&self, partition: u32, finished: Vec<Parked>) -> Result<(), StoreError> {
        let store = self.clone();
        blocking(move || {
            let _changing = store
                .changing
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let mut batch = store.database.db().batch();
            for signal in finished {
                let key = parked_key(partition, &signal.counter);
                let stored = LAST_WRITE.get(&store.parked, &key)?;
                if stored.is_some_and(|last_write| last_write <= signal.last_write) {
                    batch.remove(&store.parked, key);
                }
            }
            batch.commit().map_err(store_error)
        })
        .await
    }

    async fn sync(&self) -> Result<Durability, StoreError> {
        self.database.sync().await?;
        Ok(Durability::Durable)
    }
}

fn parked_key(partition: u32, counter: &CounterKey) -> Vec<u8> {
    let mut key = partition.to_be_bytes().to_vec();
    keys::put_counter(&mut key, counter);
    key
}

fn encode_checkpoint(checkpoint: Checkpoint) -> Vec<u8> {
    let mut value = Vec::with_capacity(24);
    keys::put_int(&mut value, checkpoint.generation.get().into());
    keys::put_int(&mut value, checkpoint.last_rollup.get().into());
    keys::put_int(&mut value, checkpoint.count.get());
    value
}

fn decode_checkpoint(mut value: &[u8]) -> Result<Checkpoint, KeyError> {
    let generation = keys::take_narrow(&mut value, "the generation")?;
    Ok(Checkpoint {
        generation: Generation::new(generation).ok_or(KeyError::Range("the generation"))?,
        last_rollup: Micros::new(keys::take_narrow(&mut value, "the time")?),
        count: Count::new(keys::take_int(&mut value, "the count")?),
    })
}

fn encode_time(time: Micros) -> Vec<u8> {
    let mut value = Vec::with_capacity(9);
    keys::put_int(&mut value, time.get().into());
    value
}

fn decode_time(mut value: &[u8]) -> Result<Micros, KeyError> {
    Ok(Micros::new(keys::take_narrow(&mut value, "the time")?))
}

/// Rows are read by key, often those that do not exist yet, and written again and again.
fn options() -> KeyspaceCreateOptions {
    let filter = BloomConstructionPolicy::BitsPerKey(10.0);
    KeyspaceCreateOptions::default()
        .max_memtable_size(MEMTABLE_BYTES)
        .data_block_size_policy(BlockSizePolicy::all(4 << 10))
        .data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4))
        .filter_policy(FilterPolicy::all(FilterPolicyEntry::Bloom(filter)))
}
