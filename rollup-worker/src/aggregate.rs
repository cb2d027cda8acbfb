//! Aggregates a batch of counters: base checkpoint, closed window, fold, new checkpoint.

use crate::{machine::Rolled, names};
use futures::{StreamExt, stream};
use metrics::{counter, histogram};
use quipu_adapters::ports::{Cache, EventStore, RollupRow, RollupStore, StoreError};
use quipu_core::{
    aggregate::OrderedFold, checkpoint::Checkpoint, event::CounterKey, time::Micros, window,
};
use std::{ops::ControlFlow, time::Duration};

/// The stores that an aggregation reads and writes.
#[derive(Clone, Debug)]
pub struct Stores<E, R, C> {
    /// Accepted events.
    pub events: E,
    /// Checkpoints.
    pub rollups: R,
    /// Cached checkpoints.
    pub cache: C,
}

/// A counter to aggregate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Which counter.
    pub counter: CounterKey,
    /// It is zero through this time, before which its namespace accepted nothing.
    pub origin: Micros,
    /// How far its namespace is closed.
    pub closed: Micros,
    /// The newest time that this worker knows it to be rolled up through: a base older than this
    /// is a failed read (R15).
    pub seen: Micros,
}

/// Counters read at once.
const PARALLEL_READS: usize = 32;

/// Aggregates counters, writes the rollup store, then the cache. A counter whose result is `None`
/// failed; nothing of it was written, or the same will be written again.
pub async fn aggregate<E: EventStore, R: RollupStore, C: Cache>(
    stores: &Stores<E, R, C>,
    tasks: Vec<Task>,
) -> Vec<(CounterKey, Option<Rolled>)> {
    let counters: Vec<CounterKey> = tasks.iter().map(|task| task.counter.clone()).collect();
    let rows = match stores.rollups.load(&counters).await {
        Ok(rows) => rows,
        Err(error) => return failed(counters, &error),
    };
    let inputs = tasks.into_iter().zip(rows.clone());
    let folds = inputs.map(|(task, row)| fold(stores.events.clone(), task, row));
    let folded: Vec<_> = stream::iter(folds).buffered(PARALLEL_READS).collect().await;
    let mut results = Vec::with_capacity(counters.len());
    let (mut to_store, mut to_cache) = (Vec::new(), Vec::new());
    let (mut events, lags) = (0, histogram!(names::LAG_SECONDS));
    let mut first_error = None;
    for ((counter, folded), row) in counters.into_iter().zip(folded).zip(rows) {
        let rolled = match folded {
            Ok(folded) => {
                // A counter that nobody ever wrote leaves no row behind, however often it is read.
                if row.checkpoint.is_some() || folded.events > 0 {
                    to_store.push((counter.clone(), folded.checkpoint));
                }
                to_cache.push((counter.clone(), folded.checkpoint));
                events += folded.events;
                if let Some(lag) = folded.lag {
                    lags.record(lag);
                }
                let through = folded.checkpoint.last_rollup;
                Some(Rolled {
                    through,
                    noted: row.last_write,
                })
            }
            Err(error) => {
                first_error.get_or_insert(error);
                None
            }
        };
        results.push((counter, rolled));
    }
    if let Some(error) = first_error {
        let failed = results.iter().filter(|(_, rolled)| rolled.is_none());
        let (failed, of) = (failed.count(), results.len());
        tracing::warn!(%error, failed, of, "could not aggregate counters; trying again");
    }
    if let Err(error) = stores.rollups.put(to_store).await {
        return failed(results.into_iter().map(|(counter, _)| counter), &error);
    }
    counter!(names::EVENTS).increment(events);
    // A cache that is away costs reads their speed, not their truth; that it is away is told by its
    // connection, once.
    if let Err(error) = stores.cache.set_if_newer(to_cache).await {
        tracing::debug!(%error, "could not update the cache; reads fall back to the rollup store");
    }
    results
}

struct Folded {
    checkpoint: Checkpoint,
    events: u64,
    /// For how long the oldest event had been closed; none was folded if there is none.
    lag: Option<Duration>,
}

async fn fold<E: EventStore>(events: E, task: Task, row: RollupRow) -> Result<Folded, StoreError> {
    let base = row
        .checkpoint
        .unwrap_or_else(|| Checkpoint::origin(task.origin));
    if base.last_rollup < task.seen && row.checkpoint.is_some() {
        let (found, seen) = (base.last_rollup, task.seen);
        let problem = format!("read a checkpoint through {found} after one through {seen}");
        return Err(StoreError::Unavailable(problem));
    }
    let Some(window) = window::to_aggregate(base.last_rollup, task.closed) else {
        return Ok(Folded {
            checkpoint: base,
            events: 0,
            lag: None,
        });
    };
    let mut fold = OrderedFold::from(base.count);
    let mut oldest = None;
    let mut sink = |event: quipu_core::event::StoredEvent| {
        oldest.get_or_insert(event.key.event_time);
        fold.push(&event.key, event.mutation);
        ControlFlow::Continue(())
    };
    events.scan(&task.counter, window, &mut sink).await?;
    let checkpoint = Checkpoint {
        count: fold.count(),
        last_rollup: window.through,
        ..base
    };
    Ok(Folded {
        checkpoint,
        events: fold.events(),
        lag: oldest.map(|oldest| window.through.since(oldest)),
    })
}

fn failed(
    counters: impl IntoIterator<Item = CounterKey>,
    error: &StoreError,
) -> Vec<(CounterKey, Option<Rolled>)> {
    tracing::warn!(%error, "could not aggregate a batch; trying again");
    counters
        .into_iter()
        .map(|counter| (counter, None))
        .collect()
}
