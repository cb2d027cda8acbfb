//! The sweep (R18): walks each slice's distinct counters and signals whatever lags, so that a lost
//! signal, or a counter long idle, heals without anyone reading it. A slice goes only after a
//! sweep that began when it was closed found every counter rolled up past its end.

use crate::{machine::closed_times, names};
use metrics::counter;
use quipu_adapters::{
    clock::Clock,
    ports::{
        Body, Durability, EventStore, LogError, NewRecord, Producer, RollupStore, SliceInfo,
        SliceState, StoreError, Topic,
    },
    watermarks::WatermarkBoard,
};
use quipu_core::{
    event::{CounterKey, NamespaceId},
    key::{key_bytes, partition, route},
    policy::PolicyBook,
    slice::SliceId,
    time::Micros,
};
use quipu_schemas::signal::{self, CheckedSignal};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::sync::watch;

/// What a sweep works with.
#[derive(Clone, Debug)]
pub struct Sweep<L, E, R> {
    /// Takes signals.
    pub log: L,
    /// Lists slices and counters, and drops slices.
    pub events: E,
    /// Holds checkpoints. Where the store can lose writes, a connection of its own: a loss that
    /// is told here must still be told to the worker.
    pub rollups: R,
    /// Shows how far all is decided.
    pub watermarks: WatermarkBoard,
    /// Brings the policy.
    pub policies: watch::Receiver<Arc<PolicyBook>>,
    /// Tells the time.
    pub clock: Clock,
    /// How it works.
    pub settings: SweepSettings,
    /// Closed slices in which an earlier walk found every counter past the end: nothing can
    /// change in them. They are walked once more before they are dropped.
    pub clean: BTreeSet<SliceId>,
}

/// How a sweep works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepSettings {
    /// From the end of one walk to the start of the next.
    pub every: Duration,
    /// After each page of counters: a walk must not crowd out the rollups.
    pub page_pause: Duration,
    /// Counters that lag less are on their way.
    pub grace: Duration,
    /// Slices older than this are dropped.
    pub retention: Duration,
}

/// Why a walk stopped early. The next one starts afresh.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// A store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The signals could not be published.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// What a walk found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Counters that lagged, and were signalled.
    pub lagging: u64,
    /// Slices that were dropped.
    pub dropped: u64,
}

const PAGE: usize = 500;

impl<L: Producer, E: EventStore, R: RollupStore> Sweep<L, E, R> {
    /// Walks again and again; never resolves.
    pub async fn run(mut self) {
        loop {
            tokio::time::sleep(self.settings.every).await;
            match self.walk().await {
                Ok(Found {
                    lagging: 0,
                    dropped: 0,
                }) => {}
                Ok(Found { lagging, dropped }) => {
                    tracing::info!(lagging, dropped, "the sweep found work");
                }
                Err(error) => tracing::warn!(%error, "the sweep stopped early"),
            }
        }
    }

    /// Walks every slice once, but for those that are clean.
    pub async fn walk(&mut self) -> Result<Found, SweepError> {
        let mut found = Found::default();
        // The low watermark is read before the policy: a policy at least as new as the watermark
        // never closes too much.
        let low = self.watermarks.low();
        let policy = Arc::clone(&self.policies.borrow());
        let closed = closed_times(&policy, low);
        // What is accepted follows the log's time, also for namespaces that are still to be made:
        // a clock that shows more must not drop a slice that they may write to.
        let oldest_kept = self.clock.now().min(low) - self.settings.retention;
        for slice in self.events.slices().await? {
            if slice.state != SliceState::Ready {
                continue;
            }
            let expired = slice.last < oldest_kept;
            let is_closed =
                !closed.is_empty() && closed.values().all(|closed| *closed >= slice.last);
            if is_closed && !expired && self.clean.contains(&slice.id) {
                continue;
            }
            self.clean.remove(&slice.id);
            let lagging = self.walk_slice(&policy, &closed, slice).await?;
            found.lagging += lagging.signalled;
            if !is_closed || lagging.behind > 0 {
                continue;
            }
            self.clean.insert(slice.id);
            // A checkpoint that was seen may yet be lost, and then only the events could mend it.
            if expired && self.rollups.sync().await? == Durability::Durable {
                self.events.drop_slice(slice.id).await?;
                tracing::info!(
                    slice = slice.id.0,
                    "dropped a time slice past its retention"
                );
                counter!(names::SLICES_DROPPED).increment(1);
                found.dropped += 1;
            }
        }
        Ok(found)
    }

    async fn walk_slice(
        &self,
        policy: &PolicyBook,
        closed: &BTreeMap<NamespaceId, Micros>,
        slice: SliceInfo,
    ) -> Result<Lagging, SweepError> {
        let mut lagging = Lagging::default();
        let mut after = None;
        loop {
            let page = self.events.counters(slice.id, after.as_ref(), PAGE).await?;
            let rows = self.rollups.load(&page).await?;
            let mut signals = Vec::new();
            for (counter, row) in page.iter().zip(rows) {
                let Some(closed) = closed.get(&counter.namespace) else {
                    continue;
                };
                let through = row.checkpoint.map_or(Micros::MIN, |it| it.last_rollup);
                lagging.behind += u64::from(through < slice.last);
                if through < slice.last.min(*closed - self.settings.grace) {
                    signals.extend(self.signal(policy, counter));
                }
            }
            lagging.signalled += signals.len() as u64;
            counter!(names::SWEPT).increment(signals.len() as u64);
            if !signals.is_empty() {
                self.log.append(Topic::Signals, signals).await?;
            }
            if page.len() < PAGE {
                return Ok(lagging);
            }
            after = page.last().cloned();
            tokio::time::sleep(self.settings.page_pause).await;
        }
    }

    fn signal(&self, policy: &PolicyBook, counter: &CounterKey) -> Option<NewRecord> {
        let (namespace, _) = policy.incarnation(counter.namespace)?;
        let route = route(&key_bytes(namespace, &counter.name));
        let partition = partition(route, self.log.partitions(Topic::Signals));
        let signal = CheckedSignal {
            counter: counter.clone(),
            last_write: None,
        };
        Some(NewRecord {
            partition,
            body: Body::value(signal::encode(&signal)),
        })
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Lagging {
    behind: u64,
    signalled: u64,
}
