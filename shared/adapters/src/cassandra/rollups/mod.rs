//! The rollup store: a row for each counter, and the signals that were parked.

mod cell;
mod list;
mod parked;

use super::{
    connection::Cassandra,
    durable::Writes,
    error::{CassandraError, Failure, unreadable},
    events::namespace_id,
};
use crate::ports::{
    CounterPage, Durability, ListPosition, Parked, RollupRow, RollupStore, StoreError,
};
use futures::{FutureExt, StreamExt, TryStreamExt, future::BoxFuture, stream};
use list::ListStatement;
use parked::ParkedStatements;
use quipu_core::{
    checkpoint::Checkpoint,
    event::{CounterKey, NamespaceId},
    name::CounterName,
    time::Micros,
};
use scylla::{
    response::PagingState,
    serialize::row::SerializeRow,
    statement::{
        batch::{Batch, BatchStatement, BatchType},
        prepared::PreparedStatement,
    },
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    sync::Arc,
};

/// Statements of one call under way at once. The connection bounds those of all calls.
const AT_ONCE: usize = 64;

/// Counters that one statement reads. Each is a partition of its own, so the server reads as much,
/// but both sides are spared most of the work round it.
const LOADED_AT_ONCE: usize = 20;

/// Rows that a batch over several counters may have: with the longest names, 30 KB, and the server
/// refuses batches above 50.
const BATCH_ROWS: usize = 25;

/// Checkpoints in Cassandra. Cheap to clone; clones are one user, who is told once of writes that
/// were lost. Who must be told apart opens a store of its own.
#[derive(Clone)]
pub struct CassandraRollupStore {
    cassandra: Cassandra,
    statements: Arc<Statements>,
    writes: Writes,
}

struct Statements {
    load: PreparedStatement,
    put: BatchStatement,
    note: BatchStatement,
    parked: ParkedStatements,
    list: ListStatement,
}

impl fmt::Debug for CassandraRollupStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CassandraRollupStore")
            .finish_non_exhaustive()
    }
}

impl Cassandra {
    /// Opens the rollup store, which setup must have made.
    ///
    /// # Errors
    /// When the cluster could lose acknowledged writes unseen (the text names the setting), or
    /// when the store fails.
    pub async fn rollups(&self) -> Result<CassandraRollupStore, CassandraError> {
        let load = "SELECT counter_name, checkpoint, last_write FROM {ks}.rollups \
                    WHERE namespace_id = ? AND counter_name IN ?";
        let put = "UPDATE {ks}.rollups USING TIMESTAMP ? SET checkpoint = ? \
                   WHERE namespace_id = ? AND counter_name = ?";
        let note = "UPDATE {ks}.rollups USING TIMESTAMP ? SET last_write = ? \
                    WHERE namespace_id = ? AND counter_name = ?";
        let statements = Statements {
            load: self.prepare(load).await?,
            put: BatchStatement::PreparedStatement(self.prepare(put).await?),
            note: BatchStatement::PreparedStatement(self.prepare(note).await?),
            parked: ParkedStatements::prepare(self).await?,
            list: ListStatement::prepare(self).await?,
        };
        Ok(CassandraRollupStore {
            cassandra: self.clone(),
            statements: Arc::new(statements),
            writes: Writes::new(self.durable().await?),
        })
    }

    /// Runs writes in unlogged batches, many at once.
    fn write_all<'a, V: SerializeRow + Sync>(
        &'a self,
        statement: &'a BatchStatement,
        rows: &'a [V],
    ) -> BoxFuture<'a, Result<(), Failure>> {
        let written = rows.chunks(BATCH_ROWS).map(move |rows| async move {
            let statements = vec![statement.clone(); rows.len()];
            let mut batch = Batch::new_with_statements(BatchType::Unlogged, statements);
            batch.set_is_idempotent(true);
            self.write_batch(&batch, rows).await
        });
        stream::iter(written)
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .boxed()
    }
}

fn decode_checkpoint(cell: &[u8]) -> Result<Checkpoint, Failure> {
    cell::decode(cell).map_err(|error| unreadable("a checkpoint", &error))
}

/// Reads the checkpoint of one counter.
#[derive(Clone)]
pub(super) struct CheckpointOf(PreparedStatement);

impl CheckpointOf {
    pub(super) async fn prepare(cassandra: &Cassandra) -> Result<Self, Failure> {
        let select = "SELECT checkpoint FROM {ks}.rollups \
                      WHERE namespace_id = ? AND counter_name = ?";
        Ok(Self(cassandra.prepare(select).await?))
    }

    pub(super) async fn read(
        &self,
        cassandra: &Cassandra,
        counter: &CounterKey,
    ) -> Result<Option<Checkpoint>, Failure> {
        let values = (namespace_id(counter.namespace), counter.name.as_str());
        let (rows, _) = cassandra
            .page(&self.0, values, PagingState::start())
            .await?;
        let row = rows
            .maybe_first_row::<(Option<&[u8]>,)>()
            .map_err(|error| unreadable("a checkpoint", &error))?;
        let cell = row.and_then(|(cell,)| cell);
        cell.map(decode_checkpoint).transpose()
    }
}

impl CassandraRollupStore {
    /// The rows of distinct counters that have any.
    fn load_all<'a>(
        &'a self,
        counters: &BTreeSet<&'a CounterKey>,
    ) -> BoxFuture<'a, Result<HashMap<CounterKey, RollupRow>, Failure>> {
        let mut groups: BTreeMap<NamespaceId, Vec<&str>> = BTreeMap::new();
        for counter in counters {
            let names = groups.entry(counter.namespace).or_default();
            names.push(counter.name.as_str());
        }
        let chunks = groups.into_iter().flat_map(|(namespace, names)| {
            let chunks: Vec<Vec<&str>> = names.chunks(LOADED_AT_ONCE).map(<[_]>::to_vec).collect();
            chunks.into_iter().map(move |names| (namespace, names))
        });
        let loads = chunks.map(|(namespace, names)| self.load_some(namespace, names));
        stream::iter(loads)
            .buffer_unordered(AT_ONCE)
            .try_concat()
            .boxed()
    }

    async fn load_some(
        &self,
        namespace: NamespaceId,
        names: Vec<&str>,
    ) -> Result<HashMap<CounterKey, RollupRow>, Failure> {
        let damaged = |problem: &dyn fmt::Display| unreadable("a rollup", problem);
        let (statement, values) = (&self.statements.load, (namespace_id(namespace), names));
        let mut found = HashMap::new();
        let mut from = Some(PagingState::start());
        while let Some(paging) = from {
            let (rows, next) = self.cassandra.page(statement, &values, paging).await?;
            let rows = rows
                .rows::<(&str, Option<&[u8]>, Option<i64>)>()
                .map_err(|error| damaged(&error))?;
            for row in rows {
                let (name, cell, last_write) = row.map_err(|error| damaged(&error))?;
                let name = CounterName::new(name).map_err(|error| damaged(&error))?;
                let row = RollupRow {
                    checkpoint: cell.map(decode_checkpoint).transpose()?,
                    last_write: last_write.map(Micros::new),
                };
                found.insert(CounterKey { namespace, name }, row);
            }
            from = next;
        }
        Ok(found)
    }
}

impl RollupStore for CassandraRollupStore {
    /// A checkpoint that is read counts as written at the moment of the read: its write may have
    /// timed out and been applied, so that a sync must cover it (R17).
    async fn load(&self, counters: &[CounterKey]) -> Result<Vec<RollupRow>, StoreError> {
        let read = self.writes.begin();
        let rows = self.load_all(&counters.iter().collect()).await?;
        if !rows.is_empty() {
            self.writes.acknowledged(&read);
        }
        let row = |counter| rows.get(counter).copied().unwrap_or_default();
        Ok(counters.iter().map(row).collect())
    }

    async fn counters(
        &self,
        namespace: NamespaceId,
        from: ListPosition,
        limit: usize,
    ) -> Result<CounterPage, StoreError> {
        let list = &self.statements.list;
        Ok(list.page(&self.cassandra, namespace, from, limit).await?)
    }

    async fn put(&self, checkpoints: Vec<(CounterKey, Checkpoint)>) -> Result<(), StoreError> {
        let write = self.writes.begin();
        let rows: Vec<_> = checkpoints
            .iter()
            .map(|(counter, checkpoint)| {
                let (id, name) = (namespace_id(counter.namespace), counter.name.as_str());
                let cell = cell::encode(checkpoint);
                (checkpoint.write_timestamp(), cell, id, name)
            })
            .collect();
        self.cassandra
            .write_all(&self.statements.put, &rows)
            .await?;
        self.writes.acknowledged(&write);
        Ok(())
    }

    async fn note_writes(&self, writes: Vec<(CounterKey, Micros)>) -> Result<(), StoreError> {
        let write = self.writes.begin();
        let rows: Vec<_> = writes
            .iter()
            .map(|(counter, last_write)| {
                let (id, name) = (namespace_id(counter.namespace), counter.name.as_str());
                (
                    cell::write_timestamp(*last_write),
                    last_write.get(),
                    id,
                    name,
                )
            })
            .collect();
        self.cassandra
            .write_all(&self.statements.note, &rows)
            .await?;
        self.writes.acknowledged(&write);
        Ok(())
    }

    async fn park(&self, partition: u32, signals: Vec<Parked>) -> Result<(), StoreError> {
        let write = self.writes.begin();
        let parked = &self.statements.parked;
        parked.park(&self.cassandra, partition, &signals).await?;
        self.writes.acknowledged(&write);
        Ok(())
    }

    async fn parked(
        &self,
        partition: u32,
        after: Option<&CounterKey>,
        limit: usize,
    ) -> Result<Vec<Parked>, StoreError> {
        let parked = &self.statements.parked;
        Ok(parked
            .list(&self.cassandra, partition, after, limit)
            .await?)
    }

    async fn unpark(&self, partition: u32, finished: Vec<Parked>) -> Result<(), StoreError> {
        // A deletion that is lost costs one rollup more, so no sync has to cover it.
        let parked = &self.statements.parked;
        Ok(parked.unpark(&self.cassandra, partition, &finished).await?)
    }

    async fn sync(&self) -> Result<Durability, StoreError> {
        self.writes.sync().await
    }
}
