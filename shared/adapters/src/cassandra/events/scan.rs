//! Reads of a window: all time buckets in their order, and the event buckets of each merged into
//! the total order (R9). Pages of a few buckets are read ahead.

use super::{CassandraEventStore, Statements, namespace_id, payload};
use crate::{
    cassandra::{
        connection::Page,
        error::{Failure, unreadable},
        slices::Slice,
    },
    ports::{SliceState, StoreError},
};
use futures::{StreamExt, TryStreamExt, future, stream};
use quipu_core::{
    event::{CounterKey, EventKey, StoredEvent},
    name::{ItemKey, Token},
    slice::{SliceId, TimeBucket},
    time::Micros,
    window::Window,
};
use scylla::response::{PagingState, query_result::QueryRowsResult};
use std::{collections::VecDeque, ops::ControlFlow};

/// First pages that one scan reads at once: they are what it holds in memory.
const PAGES_AT_ONCE: usize = 8;

/// What is read of one slice.
struct Read<'a> {
    statements: &'a Statements,
    slice: &'a Slice,
    counter: &'a CounterKey,
    window: Window,
}

/// The rows of one event bucket that were read and not passed on yet, and where the next begin.
struct Source {
    event_bucket: u16,
    rows: VecDeque<StoredEvent>,
    next: Option<PagingState>,
}

impl CassandraEventStore {
    pub(super) async fn scan_slice(
        &self,
        slice: &Slice,
        counter: &CounterKey,
        window: Window,
        sink: &mut (dyn FnMut(StoredEvent) -> ControlFlow<()> + Send),
    ) -> Result<ControlFlow<()>, Failure> {
        let statements = self.statements(slice).await?;
        let window = self.catalogue.slicing().clip(window, slice.id);
        let read = Read {
            statements: &statements,
            slice,
            counter,
            window,
        };
        let event_buckets = slice.layout.event_buckets();
        let buckets_at_once = (PAGES_AT_ONCE / usize::from(event_buckets)).max(1);
        let mut buckets = stream::iter(slice.layout.touched(window))
            .map(|bucket| self.open(&read, bucket))
            .buffered(buckets_at_once);
        while let Some((bucket, mut sources)) = buckets.try_next().await? {
            while let Some(event) = self.next(&read, bucket, &mut sources).await? {
                if sink(event).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The first pages of a time bucket.
    async fn open(
        &self,
        read: &Read<'_>,
        bucket: TimeBucket,
    ) -> Result<(TimeBucket, Vec<Source>), Failure> {
        let sources = (0..read.slice.layout.event_buckets()).map(|event_bucket| async move {
            let mut source = Source {
                event_bucket,
                rows: VecDeque::new(),
                next: Some(PagingState::start()),
            };
            self.fill(read, bucket, &mut source).await?;
            Ok::<_, Failure>(source)
        });
        Ok((bucket, future::try_join_all(sources).await?))
    }

    /// Reads pages until there is a row or no more.
    async fn fill(
        &self,
        read: &Read<'_>,
        bucket: TimeBucket,
        source: &mut Source,
    ) -> Result<(), Failure> {
        while source.rows.is_empty()
            && let Some(from) = source.next.take()
        {
            self.check_still_ready(read.slice.id).await?;
            let values = (
                namespace_id(read.counter.namespace),
                read.counter.name.as_str(),
                bucket.0,
                source.event_bucket.cast_signed(),
                read.window.after.get(),
                read.window.through.get(),
            );
            let page = self.cassandra.page(&read.statements.scan, values, from);
            let (rows, next): Page = page.await?;
            source.rows = decode(&rows)?;
            source.next = next;
        }
        Ok(())
    }

    /// A scan may last longer than what is known of the catalogue may be used.
    async fn check_still_ready(&self, id: SliceId) -> Result<(), Failure> {
        let snapshot = self.catalogue.usable().await;
        let snapshot = snapshot.map_err(|error| Failure::Unavailable(error.to_string()))?;
        if snapshot.state(id) == Some(SliceState::Ready) {
            return Ok(());
        }
        let problem = format!("time slice {} began to be dropped during a scan", id.0);
        Err(Failure::Unavailable(problem))
    }

    /// The next event of a time bucket in the total order.
    async fn next(
        &self,
        read: &Read<'_>,
        bucket: TimeBucket,
        sources: &mut [Source],
    ) -> Result<Option<StoredEvent>, Failure> {
        let filled = sources.iter_mut().filter(|source| !source.rows.is_empty());
        let Some(first) = filled.min_by(|a, b| a.rows[0].key.cmp(&b.rows[0].key)) else {
            return Ok(None);
        };
        let event = first.rows.pop_front();
        self.fill(read, bucket, first).await?;
        Ok(event)
    }

    /// R19: a window over a dropped slice may leave it out only if it starts at the newest
    /// checkpoint. If it does, the counter had no rows there, or the slice would not be dropped.
    pub(super) async fn check_base(
        &self,
        id: SliceId,
        counter: &CounterKey,
        window: Window,
    ) -> Result<(), StoreError> {
        let newest = self.checkpoints.read(&self.cassandra, counter).await?;
        match newest {
            Some(newest) if newest.last_rollup > window.after => {
                Err(StoreError::Unavailable(format!(
                    "time slice {} was dropped; read the counter's checkpoint again, it covers \
                     the slice",
                    id.0
                )))
            }
            _ => Ok(()),
        }
    }
}

type Columns<'a> = (i64, &'a [u8], &'a [u8], Option<&'a [u8]>, Option<i64>);

/// Reads a page of events.
pub(super) fn decode(rows: &QueryRowsResult) -> Result<VecDeque<StoredEvent>, Failure> {
    let damaged = |problem: &dyn std::fmt::Display| unreadable("an event", problem);
    let rows = rows
        .rows::<Columns<'_>>()
        .map_err(|error| damaged(&error))?;
    rows.map(|row| {
        let row = row.map_err(|error| damaged(&error))?;
        event(row).map_err(|error| damaged(&error))
    })
    .collect()
}

fn event((time, id, item_key, cell, written): Columns<'_>) -> Result<StoredEvent, String> {
    let event_id = Token::new(text(id)?).map_err(|error| error.to_string())?;
    let item_key = ItemKey::new(text(item_key)?).map_err(|error| error.to_string())?;
    let (Some(cell), Some(written)) = (cell, written) else {
        return Err("it has no payload".to_owned());
    };
    let (mutation, source) = payload::decode(cell, written)?;
    Ok(StoredEvent {
        key: EventKey {
            event_time: Micros::new(time),
            event_id,
            item_key,
        },
        mutation,
        source,
    })
}

fn text(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|error| error.to_string())
}
