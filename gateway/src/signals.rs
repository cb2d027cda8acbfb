//! "Look at this counter": signals from stale reads and clears, sent in the background (R17).
//! They are hints. Ingest sends durable ones for every write, so a dropped one loses nothing.

use crate::names;
use ::metrics::counter;
use quick_cache::sync::Cache;
use quipu_adapters::ports::{Body, NewRecord, Producer, Topic};
use quipu_core::{event::CounterKey, key, name::Namespace, time::Micros};
use quipu_schemas::signal::{self, CheckedSignal};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::sync::mpsc;

const QUEUE: usize = 4_096;
const BATCH: usize = 256;
const REMEMBERED_COUNTERS: usize = 16_384;
const MILLIS_BETWEEN: u64 = 1_000;

/// A signal on its way, with the name that its route is made of.
pub(crate) struct Queued {
    namespace: Namespace,
    signal: CheckedSignal,
}

/// The sending end.
pub(crate) struct Signals {
    queue: mpsc::Sender<Queued>,
    /// The steady millisecond after which each counter was last signalled by a stale read; 0 for
    /// never.
    recent: Cache<CounterKey, Arc<AtomicU64>>,
}

/// The sending end, and what [`publish`] takes.
pub(crate) fn channel() -> (Signals, mpsc::Receiver<Queued>) {
    let (queue, queued) = mpsc::channel(QUEUE);
    (
        Signals {
            queue,
            recent: Cache::new(REMEMBERED_COUNTERS),
        },
        queued,
    )
}

impl Signals {
    /// Signals a write that this process knows of.
    pub(crate) fn written(&self, namespace: Namespace, counter: CounterKey, at: Micros) {
        self.send(namespace, counter, Some(at));
    }

    /// Signals a counter whose checkpoint is stale, at most once a second. Says whether it did.
    pub(crate) fn stale(
        &self,
        namespace: &Namespace,
        counter: &CounterKey,
        steady: Duration,
    ) -> bool {
        let now = u64::try_from(steady.as_millis())
            .unwrap_or(u64::MAX)
            .saturating_add(1);
        let last = match self.recent.get_or_insert_with(counter, || {
            Ok::<_, std::convert::Infallible>(Arc::new(AtomicU64::new(0)))
        }) {
            Ok(last) => last,
            Err(never) => match never {},
        };
        let before = last.load(Relaxed);
        let due = before == 0 || now.saturating_sub(before) >= MILLIS_BETWEEN;
        due && last.compare_exchange(before, now, Relaxed, Relaxed).is_ok()
            && self.send(namespace.clone(), counter.clone(), None)
    }

    fn send(&self, namespace: Namespace, counter: CounterKey, last_write: Option<Micros>) -> bool {
        let signal = CheckedSignal {
            counter,
            last_write,
        };
        let is_queued = self.queue.try_send(Queued { namespace, signal }).is_ok();
        if !is_queued {
            counter!(names::SIGNALS_DROPPED).increment(1);
        }
        is_queued
    }
}

/// Appends queued signals until the sending end is gone.
pub(crate) async fn publish<L: Producer>(log: L, mut queued: mpsc::Receiver<Queued>) {
    let mut batch = Vec::with_capacity(BATCH);
    while queued.recv_many(&mut batch, BATCH).await > 0 {
        let partitions = log.partitions(Topic::Signals);
        let records: Vec<_> = batch
            .drain(..)
            .map(|queued| record(&queued, partitions))
            .collect();
        let count = records.len() as u64;
        match log.append(Topic::Signals, records).await {
            Ok(_) => counter!(names::SIGNALS).increment(count),
            Err(error) => {
                tracing::warn!(%error, count, "signals were dropped");
                counter!(names::SIGNALS_DROPPED).increment(count);
            }
        }
    }
}

fn record(queued: &Queued, partitions: u32) -> NewRecord {
    let key = key::key_bytes(&queued.namespace, &queued.signal.counter.name);
    NewRecord {
        partition: key::partition(key::route(&key), partitions),
        body: Body::value(signal::encode(&queued.signal)),
    }
}
