//! Parked signals (R17): spread over shards of each signal partition, and listed shard by shard.

use super::{
    super::{
        connection::Cassandra,
        error::{Failure, unreadable},
        events::namespace_id,
    },
    cell,
};
use crate::ports::Parked;
use quipu_core::{
    event::{CounterKey, NamespaceId},
    key::{partition, route},
    name::CounterName,
    time::Micros,
};
use scylla::{
    response::PagingState,
    statement::{batch::BatchStatement, prepared::PreparedStatement},
};

/// Shards of a signal partition. Part of the stored format.
const SHARDS: i16 = 16;

pub(super) struct ParkedStatements {
    park: BatchStatement,
    unpark: BatchStatement,
    first: PreparedStatement,
    list_after: PreparedStatement,
}

fn shard(counter: &CounterKey) -> i16 {
    let shards = u32::from(SHARDS.unsigned_abs());
    let shard = partition(route(counter.name.as_str().as_bytes()), shards);
    i16::try_from(shard).expect("a remainder of 16 fits")
}

impl ParkedStatements {
    pub(super) async fn prepare(cassandra: &Cassandra) -> Result<Self, Failure> {
        let row = "signal_partition = ? AND shard = ? AND namespace_id = ? AND counter_name = ?";
        let park = format!(
            "UPDATE {{ks}}.parked_signals USING TIMESTAMP ? SET last_write = ? WHERE {row}"
        );
        let unpark = format!("DELETE FROM {{ks}}.parked_signals USING TIMESTAMP ? WHERE {row}");
        let first = "SELECT namespace_id, counter_name, last_write FROM {ks}.parked_signals \
                     WHERE signal_partition = ? AND shard = ?";
        let list_after = format!("{first} AND (namespace_id, counter_name) > (?, ?)");
        Ok(Self {
            park: BatchStatement::PreparedStatement(cassandra.prepare(&park).await?),
            unpark: BatchStatement::PreparedStatement(cassandra.prepare(&unpark).await?),
            first: cassandra.prepare(first).await?,
            list_after: cassandra.prepare(&list_after).await?,
        })
    }

    pub(super) async fn park(
        &self,
        cassandra: &Cassandra,
        partition: u32,
        signals: &[Parked],
    ) -> Result<(), Failure> {
        let rows = signals.iter().map(|signal| {
            let (shard, id, name) = place(signal);
            let last_write = signal.last_write.get();
            let timestamp = cell::write_timestamp(signal.last_write);
            (timestamp, last_write, stored(partition), shard, id, name)
        });
        let rows: Vec<_> = rows.collect();
        cassandra.write_all(&self.park, &rows).await
    }

    /// The deletion has the time of the write that was rolled up: a later write stays.
    pub(super) async fn unpark(
        &self,
        cassandra: &Cassandra,
        partition: u32,
        finished: &[Parked],
    ) -> Result<(), Failure> {
        let rows = finished.iter().map(|signal| {
            let (shard, id, name) = place(signal);
            let timestamp = cell::write_timestamp(signal.last_write);
            (timestamp, stored(partition), shard, id, name)
        });
        let rows: Vec<_> = rows.collect();
        cassandra.write_all(&self.unpark, &rows).await
    }

    /// The first signals after a counter, one shard after the other: what is read is listed, however
    /// many shards there are.
    pub(super) async fn list(
        &self,
        cassandra: &Cassandra,
        partition: u32,
        after: Option<&CounterKey>,
        limit: usize,
    ) -> Result<Vec<Parked>, Failure> {
        let first = after.map_or(0, shard);
        let mut parked = Vec::new();
        for shard in first..SHARDS {
            let after = after.filter(|_| shard == first);
            let from = (stored(partition), shard);
            let left = limit - parked.len();
            parked.extend(self.list_shard(cassandra, from, after, left).await?);
            if parked.len() == limit {
                break;
            }
        }
        Ok(parked)
    }

    async fn list_shard(
        &self,
        cassandra: &Cassandra,
        (partition, shard): (i32, i16),
        after: Option<&CounterKey>,
        limit: usize,
    ) -> Result<Vec<Parked>, Failure> {
        let mut parked = Vec::new();
        let mut from = Some(PagingState::start());
        while let Some(paging) = from
            && parked.len() < limit
        {
            let (rows, next) = match after {
                None => {
                    cassandra
                        .page(&self.first, (partition, shard), paging)
                        .await?
                }
                Some(after) => {
                    let name = after.name.as_str().as_bytes();
                    let values = (partition, shard, namespace_id(after.namespace), name);
                    cassandra.page(&self.list_after, values, paging).await?
                }
            };
            let damaged = |problem: &dyn std::fmt::Display| unreadable("a parked signal", problem);
            let rows = rows
                .rows::<(i32, &[u8], Option<i64>)>()
                .map_err(|error| damaged(&error))?;
            for row in rows {
                let row = row.map_err(|error| damaged(&error))?;
                parked.push(decode(row).map_err(|error| damaged(&error))?);
            }
            from = next;
        }
        parked.truncate(limit);
        Ok(parked)
    }
}

/// A partition of the signals topic as it is stored.
fn stored(partition: u32) -> i32 {
    i32::try_from(partition).expect("a topic has fewer than 2^31 partitions")
}

fn place(signal: &Parked) -> (i16, i32, &[u8]) {
    let counter = &signal.counter;
    let name = counter.name.as_str().as_bytes();
    (shard(counter), namespace_id(counter.namespace), name)
}

fn decode((id, name, last_write): (i32, &[u8], Option<i64>)) -> Result<Parked, String> {
    let name = std::str::from_utf8(name).map_err(|error| error.to_string())?;
    let counter = CounterKey {
        namespace: NamespaceId(u32::try_from(id).map_err(|error| error.to_string())?),
        name: CounterName::new(name).map_err(|error| error.to_string())?,
    };
    let last_write = last_write.ok_or("it has no time")?;
    Ok(Parked {
        counter,
        last_write: Micros::new(last_write),
    })
}
