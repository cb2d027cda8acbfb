//! The event store: a table for each time slice, read and written by what is known of the
//! catalogue.

mod counters;
mod payload;
mod scan;
mod statements;
mod write;

pub(super) use statements::Statements;

use super::{
    connection::Cassandra,
    durable::Writes,
    error::{CassandraError, Failure},
    rollups::CheckpointOf,
    slices::{CassandraDataset, Catalogue, Slice},
};
use crate::{
    metrics::stores::DROPPED_ROWS,
    ports::{Durability, EventStore, Extent, Lookup, SliceInfo, SliceState, StoreError},
};
use counters::Walks;
use futures::{FutureExt, StreamExt, TryStreamExt, future::BoxFuture, stream};
use quipu_core::{
    event::{CounterKey, EventKey, EventRow, NamespaceId, StoredEvent},
    slice::SliceId,
    window::Window,
};
use scylla::{
    response::PagingState,
    statement::batch::{Batch, BatchStatement, BatchType},
};
use std::{collections::BTreeMap, fmt, ops::ControlFlow, sync::Arc};
use write::{BOUNDS, Placed, Values};

/// Batches of one call under way at once. The connection bounds those of all calls.
const BATCHES_AT_ONCE: usize = 64;

/// Accepted events in Cassandra. Cheap to clone; clones are one user, who is told once of writes
/// that were lost. Who must be told apart opens a store of its own.
#[derive(Clone)]
pub struct CassandraEventStore {
    cassandra: Cassandra,
    catalogue: Arc<Catalogue>,
    checkpoints: CheckpointOf,
    writes: Writes,
    walks: Walks,
}

impl fmt::Debug for CassandraEventStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CassandraEventStore")
            .finish_non_exhaustive()
    }
}

impl Cassandra {
    /// Opens the event store of a dataset, which setup must have made room for.
    ///
    /// # Errors
    /// When the cluster could lose acknowledged writes unseen (the text names the setting), when
    /// the dataset contradicts the slices that are stored, or when the store fails.
    pub async fn events(
        &self,
        dataset: CassandraDataset,
    ) -> Result<CassandraEventStore, CassandraError> {
        dataset.check().map_err(CassandraError::Refused)?;
        let writes = Writes::new(self.durable().await?);
        Ok(CassandraEventStore {
            catalogue: Arc::new(Catalogue::open(self.clone(), dataset).await?),
            checkpoints: CheckpointOf::prepare(self).await?,
            cassandra: self.clone(),
            writes,
            walks: Walks::default(),
        })
    }
}

/// The number of an incarnation as it is stored.
pub(super) fn namespace_id(id: NamespaceId) -> i32 {
    i32::try_from(id.0).expect("the control plane gives numbers that fit 31 bits")
}

impl CassandraEventStore {
    /// What each slice takes on the disks of all nodes together, in bytes.
    ///
    /// # Errors
    /// When a node does not answer.
    pub async fn slice_sizes(&self) -> Result<BTreeMap<SliceId, u64>, StoreError> {
        self.catalogue.sizes().await
    }

    async fn statements(&self, slice: &Slice) -> Result<Arc<Statements>, Failure> {
        let table = self.catalogue.table(slice.id);
        let prepared = slice
            .statements
            .get_or_try_init(|| async {
                Statements::prepare(&self.cassandra, &table)
                    .await
                    .map(Arc::new)
            })
            .await?;
        Ok(Arc::clone(prepared))
    }

    /// The rows by slice. Nothing is written when any of them must wait.
    async fn place<'a>(&self, rows: &'a [EventRow]) -> Result<Groups<'a>, StoreError> {
        let slicing = self.catalogue.slicing();
        let slice_of = |row: &EventRow| slicing.slice_of(row.event.key.event_time);
        let mut snapshot = self.catalogue.usable().await?;
        let mut groups: Groups<'a> = BTreeMap::new();
        let mut dropped = 0;
        for row in rows {
            let id = slice_of(row);
            if let Some((_, placed)) = groups.get_mut(&id) {
                let layout = snapshot.slices[&id].layout;
                placed.push(write::place(row, layout));
                continue;
            }
            let settled = [Some(SliceState::Ready), Some(SliceState::Dropped)];
            if !settled.contains(&snapshot.state(id)) {
                snapshot = self.catalogue.read().await?;
            }
            match snapshot.slices.get(&id) {
                Some(slice) if slice.state == SliceState::Ready => {
                    let placed = vec![write::place(row, slice.layout)];
                    groups.insert(id, (Arc::clone(slice), placed));
                }
                Some(slice) if slice.state == SliceState::Dropped => dropped += 1,
                Some(slice) if slice.state == SliceState::Dropping => {
                    let problem = format!("time slice {} is being dropped", id.0);
                    return Err(StoreError::Unavailable(problem));
                }
                _ => return Err(StoreError::SliceNotReady(id)),
            }
        }
        if dropped > 0 {
            metrics::counter!(DROPPED_ROWS).increment(dropped);
        }
        Ok(groups)
    }

    async fn write_slice(&self, slice: &Slice, rows: Vec<Placed<'_>>) -> Result<(), Failure> {
        let statement = self.statements(slice).await?.write.clone();
        let statement = BatchStatement::PreparedStatement(statement);
        self.write_batches(&statement, write::batches(rows, BOUNDS))
            .await
    }

    fn write_batches<'a>(
        &'a self,
        statement: &'a BatchStatement,
        batches: Vec<Vec<Values<'a>>>,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        let written = batches
            .into_iter()
            .map(|rows| self.write_batch(statement, rows));
        stream::iter(written)
            .buffer_unordered(BATCHES_AT_ONCE)
            .try_collect()
            .boxed()
    }

    async fn write_batch(
        &self,
        statement: &BatchStatement,
        rows: Vec<Values<'_>>,
    ) -> Result<(), Failure> {
        let statements = vec![statement.clone(); rows.len()];
        let mut batch = Batch::new_with_statements(BatchType::Unlogged, statements);
        batch.set_is_idempotent(true);
        self.cassandra.write_batch(&batch, rows).await
    }

    /// A statement on a slice's table failed. A table that is not there is told by what the
    /// catalogue says now: the same error means that it was dropped, or that it is not visible yet
    /// (R19).
    async fn slice_failed(&self, id: SliceId, failure: Failure) -> StoreError {
        let Failure::NoTable(problem) = failure else {
            return failure.into();
        };
        match self.catalogue.read().await {
            Ok(snapshot) if snapshot.state(id) == Some(SliceState::Dropped) => {
                StoreError::Unavailable(format!("time slice {} was just dropped", id.0))
            }
            Ok(_) => StoreError::Unavailable(format!(
                "the table of time slice {} is not visible yet: {problem}",
                id.0
            )),
            Err(error) => error,
        }
    }
}

/// Rows of ready slices.
type Groups<'a> = BTreeMap<SliceId, (Arc<Slice>, Vec<Placed<'a>>)>;

impl EventStore for CassandraEventStore {
    async fn write(&self, rows: &[EventRow]) -> Result<(), StoreError> {
        let write = self.writes.begin();
        for (slice, placed) in self.place(rows).await?.into_values() {
            if let Err(failure) = self.write_slice(&slice, placed).await {
                return Err(self.slice_failed(slice.id, failure).await);
            }
        }
        self.writes.acknowledged(&write);
        Ok(())
    }

    async fn sync(&self) -> Result<Durability, StoreError> {
        self.writes.sync().await
    }

    /// A window that touches dropped slices is read without them, if it starts at the counter's
    /// newest checkpoint: every counter that had rows in them has a checkpoint past them (R18). If
    /// it starts before, the caller is told to read the checkpoint again (R19).
    async fn scan(
        &self,
        counter: &CounterKey,
        window: Window,
        sink: &mut (dyn FnMut(StoredEvent) -> ControlFlow<()> + Send),
    ) -> Result<(), StoreError> {
        let mut was_checked = false;
        for slice in self.catalogue.touched(window).await? {
            match slice.state {
                SliceState::Ready => match self.scan_slice(&slice, counter, window, sink).await {
                    Ok(ControlFlow::Continue(())) => {}
                    Ok(ControlFlow::Break(())) => return Ok(()),
                    Err(error) => return Err(self.slice_failed(slice.id, error).await),
                },
                // Nothing was acknowledged in it yet.
                SliceState::Creating => {}
                SliceState::Dropping | SliceState::Dropped if was_checked => {}
                SliceState::Dropping | SliceState::Dropped => {
                    self.check_base(slice.id, counter, window).await?;
                    was_checked = true;
                }
            }
        }
        Ok(())
    }

    async fn extent(&self, window: Window) -> Result<Extent, StoreError> {
        let mut extent = Extent::default();
        for slice in self.catalogue.touched(window).await? {
            match slice.state {
                SliceState::Ready => {
                    let clipped = self.catalogue.slicing().clip(window, slice.id);
                    extent.partitions += slice.layout.partitions(clipped);
                }
                SliceState::Creating => {}
                SliceState::Dropping | SliceState::Dropped => extent.has_dropped = true,
            }
        }
        Ok(extent)
    }

    async fn lookup(&self, counter: &CounterKey, key: &EventKey) -> Result<Lookup, StoreError> {
        let at = key.event_time;
        let (after, through) = (at.pred(), at);
        let touched = self.catalogue.touched(Window { after, through }).await?;
        let Some(slice) = touched.first() else {
            return Ok(Lookup::Absent); // nothing was ever written to it
        };
        match slice.state {
            SliceState::Creating => return Ok(Lookup::Absent),
            SliceState::Dropping | SliceState::Dropped => return Ok(Lookup::Dropped),
            SliceState::Ready => {}
        }
        match self.lookup_in(slice, counter, key).await {
            Ok(found) => Ok(found.map_or(Lookup::Absent, Lookup::Stored)),
            Err(failure) => Err(self.slice_failed(slice.id, failure).await),
        }
    }

    async fn slices(&self) -> Result<Vec<SliceInfo>, StoreError> {
        self.catalogue.infos().await
    }

    async fn prepare(&self, window: Window) -> Result<(), StoreError> {
        self.catalogue.prepare(window).await
    }

    async fn drop_slice(&self, slice: SliceId) -> Result<(), StoreError> {
        self.catalogue.drop_slice(slice).await
    }

    async fn counters(
        &self,
        slice: SliceId,
        after: Option<&CounterKey>,
        limit: usize,
    ) -> Result<Vec<CounterKey>, StoreError> {
        let snapshot = self.catalogue.read().await?;
        let Some(slice) = snapshot.slices.get(&slice) else {
            return Ok(Vec::new());
        };
        if slice.state != SliceState::Ready || limit == 0 {
            return Ok(Vec::new());
        }
        match self.counters_of(slice, after, limit).await {
            Ok(counters) => Ok(counters),
            Err(failure) => Err(self.slice_failed(slice.id, failure).await),
        }
    }
}

impl CassandraEventStore {
    async fn lookup_in(
        &self,
        slice: &Slice,
        counter: &CounterKey,
        key: &EventKey,
    ) -> Result<Option<StoredEvent>, Failure> {
        let statements = self.statements(slice).await?;
        let values = (
            namespace_id(counter.namespace),
            counter.name.as_str(),
            slice.layout.time_bucket(key.event_time).0,
            slice.layout.event_bucket(key).0.cast_signed(),
            key.event_time.get(),
            key.event_id.as_str().as_bytes(),
            key.item_key.as_str().as_bytes(),
        );
        let (rows, _) = self
            .cassandra
            .page(&statements.lookup, values, PagingState::start())
            .await?;
        Ok(scan::decode(&rows)?.pop_front())
    }
}
