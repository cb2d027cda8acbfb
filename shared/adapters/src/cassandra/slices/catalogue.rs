//! What is known here of the catalogue. Every entry moves one way only, from CREATING to DROPPED,
//! so old knowledge is a past truth: of a slice that was not there, that it was not there then; of
//! one that was ready, that its rows stay for at least the time that the knowledge may be used.

use super::super::{
    connection::Cassandra,
    error::{Failure, unreadable},
    events::Statements,
};
use super::CassandraDataset;
use crate::ports::{SliceInfo, SliceState, StoreError};
use quipu_core::{
    slice::{SliceId, SliceLayout, Slicing},
    window::Window,
};
use scylla::{DeserializeRow, response::PagingState, statement::prepared::PreparedStatement};
use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};
use tokio::sync::{Mutex, OnceCell};
use uuid::Uuid;

/// One slice.
pub(in crate::cassandra) struct Slice {
    pub(in crate::cassandra) id: SliceId,
    pub(in crate::cassandra) state: SliceState,
    pub(in crate::cassandra) layout: SliceLayout,
    pub(in crate::cassandra) table_id: Uuid,
    /// Prepared when they are first needed.
    pub(in crate::cassandra) statements: OnceCell<Arc<Statements>>,
}

/// The catalogue as it was read once.
#[derive(Default)]
pub(in crate::cassandra) struct Snapshot {
    pub(in crate::cassandra) slices: BTreeMap<SliceId, Arc<Slice>>,
    /// When the read began, on the steady clock.
    read_at: Duration,
}

/// The catalogue of one dataset.
pub(in crate::cassandra) struct Catalogue {
    pub(super) cassandra: Cassandra,
    pub(super) dataset: CassandraDataset,
    select: PreparedStatement,
    pub(super) insert: PreparedStatement,
    pub(super) update: PreparedStatement,
    newest: RwLock<Arc<Snapshot>>,
    /// Held while the catalogue is read: those who wait for it share what it finds.
    reading: Mutex<()>,
}

#[derive(DeserializeRow)]
struct Entry {
    slice: i64,
    state: String,
    table_id: Uuid,
    slice_micros: i64,
    bucket_micros: i64,
    event_buckets: i16,
}

impl Catalogue {
    /// Reads the catalogue.
    pub(in crate::cassandra) async fn open(
        cassandra: Cassandra,
        dataset: CassandraDataset,
    ) -> Result<Self, StoreError> {
        let select = "SELECT slice, state, table_id, slice_micros, bucket_micros, event_buckets \
                      FROM {ks}.slices WHERE dataset = ?";
        let insert = "INSERT INTO {ks}.slices (dataset, slice, state, table_id, slice_micros, \
                      bucket_micros, event_buckets) VALUES (?, ?, ?, ?, ?, ?, ?) IF NOT EXISTS";
        let update = "UPDATE {ks}.slices SET state = ? WHERE dataset = ? AND slice = ? \
                      IF state = ?";
        let catalogue = Self {
            select: cassandra.prepare_serial(select).await?,
            insert: cassandra.prepare_serial(insert).await?,
            update: cassandra.prepare_serial(update).await?,
            cassandra,
            dataset,
            newest: RwLock::default(),
            reading: Mutex::default(),
        };
        catalogue.read().await?;
        Ok(catalogue)
    }

    pub(in crate::cassandra) fn slicing(&self) -> Slicing {
        self.dataset.shape.slicing
    }

    pub(in crate::cassandra) fn table(&self, slice: SliceId) -> String {
        super::table_name(&self.dataset.name, slice)
    }

    fn newest(&self) -> Arc<Snapshot> {
        let newest = self.newest.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&newest)
    }

    fn steady(&self) -> Duration {
        self.cassandra.clock().read().steady
    }

    /// What may be relied on now: what was read within the last `catalogue_ttl`.
    pub(in crate::cassandra) async fn usable(&self) -> Result<Arc<Snapshot>, StoreError> {
        let ttl = self.cassandra.settings().catalogue_ttl;
        self.since(self.steady().saturating_sub(ttl)).await
    }

    /// What was true at some moment after this call.
    pub(in crate::cassandra) async fn read(&self) -> Result<Arc<Snapshot>, StoreError> {
        self.since(self.steady()).await
    }

    async fn since(&self, moment: Duration) -> Result<Arc<Snapshot>, StoreError> {
        let is_new = |snapshot: &Snapshot| snapshot.read_at >= moment && snapshot.is_read();
        let newest = self.newest();
        if is_new(&newest) {
            return Ok(newest);
        }
        let _reading = self.reading.lock().await;
        let newest = self.newest();
        if is_new(&newest) {
            return Ok(newest);
        }
        let read_at = self.steady();
        let slices = self.select(&newest).await?;
        let snapshot = Arc::new(Snapshot { slices, read_at });
        *self.newest.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&snapshot);
        Ok(snapshot)
    }

    async fn select(&self, known: &Snapshot) -> Result<BTreeMap<SliceId, Arc<Slice>>, Failure> {
        let what = "the catalogue of time slices";
        let mut slices = BTreeMap::new();
        let mut from = Some(PagingState::start());
        while let Some(paging) = from {
            let values = (self.dataset.name.as_str(),);
            let (rows, next) = self.cassandra.page(&self.select, values, paging).await?;
            let entries = rows
                .rows::<Entry>()
                .map_err(|error| unreadable(what, &error))?;
            for entry in entries {
                let entry = entry.map_err(|error| unreadable(what, &error))?;
                let slice = self
                    .take(known, &entry)
                    .map_err(|error| unreadable(what, &error))?;
                slices.insert(slice.id, slice);
            }
            from = next;
        }
        Ok(slices)
    }

    fn take(&self, known: &Snapshot, entry: &Entry) -> Result<Arc<Slice>, String> {
        let id = SliceId(entry.slice);
        let length = self.slicing().start(SliceId(1)).get();
        if entry.slice_micros != length {
            let (name, stored) = (&self.dataset.name, entry.slice_micros);
            return Err(format!(
                "dataset {name} has slices of {stored} µs, and {length} µs are configured; the \
                 slice length of a dataset cannot change: configure the first, or use another \
                 dataset"
            ));
        }
        let state = parse_state(&entry.state)?;
        if let Some(slice) = known.slices.get(&id)
            && slice.state == state
        {
            return Ok(Arc::clone(slice));
        }
        let bucket = Duration::from_micros(entry.bucket_micros.unsigned_abs());
        let event_buckets = u16::try_from(entry.event_buckets).unwrap_or(0);
        let layout = SliceLayout::new(bucket, event_buckets)
            .map_err(|error| format!("slice {}: {error}", id.0))?;
        Ok(Arc::new(Slice {
            id,
            state,
            layout,
            table_id: entry.table_id,
            statements: OnceCell::new(),
        }))
    }

    /// All slices, oldest first.
    pub(in crate::cassandra) async fn infos(&self) -> Result<Vec<SliceInfo>, StoreError> {
        let info = |slice: &Arc<Slice>| SliceInfo {
            id: slice.id,
            state: slice.state,
            last: self.slicing().last(slice.id),
        };
        Ok(self.read().await?.slices.values().map(info).collect())
    }

    /// The slices that touch a window and exist or existed, oldest first. A window that touches
    /// others too is answered by a read of the catalogue, for they may have been made just now.
    pub(in crate::cassandra) async fn touched(
        &self,
        window: Window,
    ) -> Result<Vec<Arc<Slice>>, StoreError> {
        if window.is_empty() {
            return Ok(Vec::new());
        }
        let first = self.slicing().slice_of(window.after.succ());
        let last = self.slicing().slice_of(window.through);
        let mut snapshot = self.usable().await?;
        let asked = usize::try_from(last.0.saturating_sub(first.0)).map_or(usize::MAX, |n| n + 1);
        let is_usable = |slice: &Arc<Slice>| slice.state != SliceState::Creating;
        let known = snapshot.slices.range(first..=last);
        if known.filter(|(_, slice)| is_usable(slice)).count() < asked {
            snapshot = self.read().await?;
        }
        let slices = snapshot.slices.range(first..=last);
        Ok(slices.map(|(_, slice)| Arc::clone(slice)).collect())
    }
}

impl Snapshot {
    /// Whether it was ever read, or is the empty one that a catalogue begins with.
    fn is_read(&self) -> bool {
        self.read_at > Duration::ZERO
    }

    pub(in crate::cassandra) fn state(&self, id: SliceId) -> Option<SliceState> {
        self.slices.get(&id).map(|slice| slice.state)
    }
}

/// The name of a state in the catalogue.
pub(super) fn state_name(state: SliceState) -> &'static str {
    match state {
        SliceState::Creating => "CREATING",
        SliceState::Ready => "READY",
        SliceState::Dropping => "DROPPING",
        SliceState::Dropped => "DROPPED",
    }
}

fn parse_state(name: &str) -> Result<SliceState, String> {
    let states = [
        SliceState::Creating,
        SliceState::Ready,
        SliceState::Dropping,
        SliceState::Dropped,
    ];
    let found = states.into_iter().find(|state| state_name(*state) == name);
    found.ok_or_else(|| format!("a slice has the unknown state {name:?}"))
}
