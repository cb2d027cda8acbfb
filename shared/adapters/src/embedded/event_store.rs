//! The event store in one directory: a keyspace for each time slice.
//!
//! Reads run where they are called. They are answered from memory or the page cache within
//! microseconds, and a hop to another thread would cost more than most of them; long ones give
//! way now and then. Writes may wait for the disk, so they run elsewhere.

mod merge;

use super::{
    database::{StoreDatabase, blocking, store_error, unreadable},
    keys,
    slices::{Catalogue, Dataset, Slice},
};
use crate::ports::{Durability, EventStore, Extent, Lookup, SliceInfo, SliceState, StoreError};
use fjall::{Keyspace, OwnedWriteBatch, PersistMode, UserKey, UserValue};
use merge::{Distinct, Source, bounds, merged_sources};
use quipu_core::{
    event::{CounterKey, EventKey, EventRow, StoredEvent},
    slice::{EventBucket, SliceId, Slicing},
    window::Window,
};
use std::{
    collections::BTreeMap,
    fmt,
    ops::ControlFlow,
    path::Path,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

const CACHE_BYTES: u64 = 8 << 20;

/// Accepted events on the local disk. Cheap to clone.
#[derive(Clone)]
pub struct EmbeddedEventStore {
    database: StoreDatabase,
    slicing: Slicing,
    catalogue: Arc<RwLock<Catalogue>>,
}

impl EmbeddedEventStore {
    /// Opens or creates the store in a directory of its own. Blocks while it reads its journal.
    ///
    /// # Errors
    /// When another process has it open, when it cannot be read, or when `dataset` contradicts
    /// the slices that are stored.
    pub fn open(dir: &Path, dataset: Dataset) -> Result<Self, StoreError> {
        let database = StoreDatabase::open(dir, CACHE_BYTES)?;
        let catalogue = Catalogue::open(database.clone(), dataset)?;
        let catalogue = Arc::new(RwLock::new(catalogue));
        Ok(Self {
            database,
            slicing: dataset.slicing,
            catalogue,
        })
    }

    /// What each slice takes on disk, in bytes; its newest rows are still in the journal.
    pub fn slice_sizes(&self) -> BTreeMap<SliceId, u64> {
        self.catalogue().sizes()
    }

    fn catalogue(&self) -> RwLockReadGuard<'_, Catalogue> {
        self.catalogue
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    async fn change(
        &self,
        change: impl FnOnce(&mut Catalogue) -> Result<(), StoreError> + Send + 'static,
    ) -> Result<(), StoreError> {
        let catalogue = Arc::clone(&self.catalogue);
        let locked = move || change(&mut catalogue.write().unwrap_or_else(PoisonError::into_inner));
        blocking(locked).await
    }

    /// The rows of a slice in the form that they are stored, in their order: neighbours in the
    /// memtable are then written one after the other, and find their places in the CPU's cache.
    fn encode(&self, rows: &[EventRow]) -> Result<Vec<EncodedRow>, StoreError> {
        let mut encoded = Vec::with_capacity(rows.len());
        let (mut key, mut value) = (Vec::with_capacity(256), Vec::with_capacity(16));
        let mut dropped = 0;
        let mut current: Option<(SliceId, Arc<Slice>)> = None;
        for row in rows {
            let id = self.slicing.slice_of(row.event.key.event_time);
            let slice = match current.take() {
                Some((known, slice)) if known == id => slice,
                _ => Arc::clone(
                    self.catalogue()
                        .get(id)
                        .ok_or(StoreError::SliceNotReady(id))?,
                ),
            };
            match (slice.state, &slice.rows) {
                (SliceState::Ready, Some(rows)) => {
                    key.clear();
                    value.clear();
                    keys::event_key(&mut key, row, slice.layout);
                    keys::event_value(&mut value, row.event.mutation);
                    let (key, value) = (UserKey::new(&key), UserValue::new(&value));
                    encoded.push(EncodedRow {
                        key,
                        value,
                        rows: rows.clone(),
                    });
                }
                (SliceState::Dropped, _) => dropped += 1,
                _ => return Err(StoreError::SliceNotReady(id)),
            }
            current = Some((id, slice));
        }
        if dropped > 0 {
            metrics::counter!(crate::metrics::stores::DROPPED_ROWS).increment(dropped);
        }
        encoded.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        Ok(encoded)
    }
}
impl fmt::Debug for EmbeddedEventStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedEventStore").finish_non_exhaustive()
    }
}

struct EncodedRow {
    key: UserKey,
    value: UserValue,
    rows: Keyspace,
}

impl EventStore for EmbeddedEventStore {
    async fn write(&self, rows: &[EventRow]) -> Result<(), StoreError> {
        let encoded = self.encode(rows)?;
        let mut batch = OwnedWriteBatch::with_capacity(self.database.db().clone(), encoded.len())
            .durability(Some(PersistMode::Buffer));
        for row in encoded {
            batch.insert(&row.rows, row.key, row.value);
        }
        blocking(move || batch.commit().map_err(store_error)).await
    }

    async fn sync(&self) -> Result<Durability, StoreError> {
        self.database.sync().await?;
        Ok(Durability::Durable)
    }

    /// A window that touches dropped slices is read without them: each counter's checkpoint
    /// covered them before they were dropped (R18). So the window must start at a checkpoint of
    /// the rollup store.
    async fn scan(
        &self,
        counter: &CounterKey,
        window: Window,
        sink: &mut (dyn FnMut(StoredEvent) -> ControlFlow<()> + Send),
    ) -> Result<(), StoreError> {
        let slices = self.catalogue().touched(window);
        let prefix = keys::counter_key(counter);
        let mut distinct = Distinct::new(prefix.len());
        for (id, slice) in slices {
            let rows = match (slice.state, &slice.rows) {
                (SliceState::Ready, Some(rows)) => rows,
                (SliceState::Dropped, _) => continue,
                (SliceState::Dropping, _) => return Err(being_dropped(id)),
                _ => return Err(StoreError::SliceNotReady(id)),
            };
            let clipped = self.slicing.clip(window, id);
            if slice.layout.event_buckets() == 1 {
                // The buckets of the slice lie one behind the other: one range.
                let first = slice.layout.time_bucket(clipped.after.succ());
                let last = slice.layout.time_bucket(clipped.through);
                let bounds = bounds(&prefix, first..=last, EventBucket(0), clipped);
                let sources = vec![Source::new(rows.range(bounds), 0)?];
                if distinct.drain(sources, sink).await?.is_break() {
                    return Ok(());
                }
                continue;
            }
            for bucket in slice.layout.touched(clipped) {
                let sources = merged_sources(rows, &prefix, slice.layout, bucket, clipped)?;
                if distinct.drain(sources, sink).await?.is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    async fn extent(&self, window: Window) -> Result<Extent, StoreError> {
        let mut extent = Extent::default();
        for (id, slice) in self.catalogue().touched(window) {
            match slice.state {
                SliceState::Ready => {
                    let clipped = self.slicing.clip(window, id);
                    extent.partitions += slice.layout.partitions(clipped);
                }
                SliceState::Creating => {}
                SliceState::Dropping | SliceState::Dropped => extent.has_dropped = true,
            }
        }
        Ok(extent)
    }

    async fn lookup(&self, counter: &CounterKey, key: &EventKey) -> Result<Lookup, StoreError> {
        let id = self.slicing.slice_of(key.event_time);
        let Some(slice) = self.catalogue().get(id).map(Arc::clone) else {
            return Ok(Lookup::Absent); // nothing was ever written to it
        };
        let rows = match (slice.state, &slice.rows) {
            (SliceState::Ready, Some(rows)) => rows,
            (SliceState::Dropping | SliceState::Dropped, _) => return Ok(Lookup::Dropped),
            _ => return Err(StoreError::SliceNotReady(id)),
        };
        let mut identity = Vec::with_capacity(256);
        keys::put_identity(&mut identity, counter, key, slice.layout);
        let Some(first) = rows.prefix(&identity).next() else {
            return Ok(Lookup::Absent);
        };
        let (row, value) = first.into_inner().map_err(store_error)?;
        let counter_len = keys::counter_key(counter).len();
        let decoded = keys::decode_event(&row, counter_len, &value)
            .map_err(|error| unreadable("an event", &row, &error))?;
        assert_eq!(
            &decoded.event.key, key,
            "only copies of an event start with its identity"
        );
        Ok(Lookup::Stored(decoded.event))
    }

    async fn slices(&self) -> Result<Vec<SliceInfo>, StoreError> {
        Ok(self.catalogue().infos())
    }

    async fn prepare(&self, window: Window) -> Result<(), StoreError> {
        if self.catalogue().is_prepared(window) {
            return Ok(());
        }
        self.change(move |catalogue| catalogue.prepare(window))
            .await
    }

    async fn drop_slice(&self, slice: SliceId) -> Result<(), StoreError> {
        self.change(move |catalogue| catalogue.drop_slice(slice))
            .await
    }

    async fn counters(
        &self,
        slice: SliceId,
        after: Option<&CounterKey>,
        limit: usize,
    ) -> Result<Vec<CounterKey>, StoreError> {
        let Some(rows) = self
            .catalogue()
            .get(slice)
            .and_then(|slice| slice.rows.clone())
        else {
            return Ok(Vec::new());
        };
        let mut from = after.map(behind).unwrap_or_default();
        blocking(move || {
            let mut counters = Vec::new();
            while counters.len() < limit {
                let Some(next) = rows.range(from..).next() else {
                    break;
                };
                let key = next.key().map_err(store_error)?;
                let counter =
                    keys::counter_of(&key).map_err(|error| unreadable("an event", &key, &error))?;
                from = behind(&counter);
                counters.push(counter);
            }
            Ok(counters)
        })
        .await
    }
}

fn being_dropped(id: SliceId) -> StoreError {
    StoreError::Unavailable(format!(
        "time slice {} is being dropped; read the counter's checkpoint again, it covers the slice",
        id.0
    ))
}

/// The first possible key behind all rows of a counter.
fn behind(counter: &CounterKey) -> Vec<u8> {
    let mut key = keys::counter_key(counter);
    let end = key
        .last_mut()
        .expect("a counter's key ends with a zero byte");
    *end = 1;
    key
}
