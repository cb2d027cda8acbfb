//! The loop that drives the rollup machine: polls signals, runs one batch at a time, syncs and
//! commits, parks and loads. It decides nothing.

use crate::{
    aggregate::{Stores, Task, aggregate},
    machine::{Durable, Finished, Limits, Machine, Rolled, closed_times},
    names,
    pending::SignalAt,
    sweep::{Sweep, SweepSettings},
};
use futures::future::BoxFuture;
use metrics::{counter, gauge, histogram};
use quipu_adapters::{
    background,
    clock::Clock,
    commits::Commits,
    ends::Ends,
    ports::{
        Body, Cache, Committed, Consumer, Durability, EventStore, LogError, Polled, Producer,
        Record, RollupStore, StoreError,
    },
    retry::Backoff,
    watermarks::WatermarkBoard,
};
use quipu_core::{
    event::{CounterKey, NamespaceId},
    policy::PolicyBook,
    time::Micros,
};
use quipu_schemas::signal;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::{sync::watch, time::Instant};

/// What the role works with.
#[derive(Clone, Debug)]
pub struct Ports<L, E, R, C> {
    /// Takes the sweep's signals.
    pub log: L,
    /// What is aggregated, and where the results go.
    pub stores: Stores<E, R, C>,
    /// The rollup store for the sweep. Where the store can lose writes it is another user of it
    /// than the worker: both are told of a loss (R17).
    pub sweep_rollups: R,
    /// Shows how far all is decided.
    pub watermarks: WatermarkBoard,
    /// Brings the policy.
    pub policies: watch::Receiver<Arc<PolicyBook>>,
    /// Tells the time.
    pub clock: Clock,
}

/// How the role works.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Bounds of memory and work.
    pub limits: Limits,
    /// How often finished work is made durable and committed.
    pub sync_every: Duration,
    /// How the sweep works.
    pub sweep: SweepSettings,
}

/// Why the role stopped. What it had not committed is rolled up again, alike, after a restart.
#[derive(Debug, thiserror::Error)]
pub enum RollupError {
    /// The log holds what contradicts an invariant.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A store holds what contradicts an invariant.
    #[error(transparent)]
    Store(#[from] StoreError),
}

const HOUSEKEEPING: Duration = Duration::from_secs(1);
const DRAIN: Duration = Duration::from_secs(3);

mod handover;
mod observe;
mod parking;
mod troubles;

use handover::Leaving;
use troubles::Troubles;

type BatchResult = (Vec<(CounterKey, Option<Rolled>)>, Duration);
type SyncResult = (Finished, Result<Durability, StoreError>);

struct Worker<K, L, E, R, C> {
    consumer: K,
    ports: Ports<L, E, R, C>,
    machine: Machine,
    policy: Arc<PolicyBook>,
    closed: BTreeMap<NamespaceId, Micros>,
    batch: Option<BoxFuture<'static, BatchResult>>,
    next_batch_at: Instant,
    /// Something may be ripe: a signal came, a window closed, or a batch ended.
    look_for_ripe: bool,
    /// Counters failed since the last sync began. A store that stopped for good says so at a sync.
    failing: bool,
    sync: Option<BoxFuture<'static, SyncResult>>,
    commits: Commits,
    leaving: Leaving,
    /// Signal partitions are paused, since the store takes no parked rows.
    holds_signals: bool,
    ends: Ends,
    troubles: Troubles,
}

/// Runs the role until `shutdown` resolves, then finishes what is under way within a bound.
///
/// # Errors
/// Only for what no retry can mend.
pub async fn run<K: Consumer, L: Producer, E: EventStore, R: RollupStore, C: Cache>(
    consumer: K,
    ports: Ports<L, E, R, C>,
    settings: Settings,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), RollupError> {
    let policy = Arc::clone(&ports.policies.borrow());
    let sweep = Sweep {
        log: ports.log.clone(),
        events: ports.stores.events.clone(),
        rollups: ports.sweep_rollups.clone(),
        watermarks: ports.watermarks.clone(),
        policies: ports.policies.clone(),
        clock: ports.clock.clone(),
        settings: settings.sweep,
        clean: BTreeSet::new(),
    };
    let mut worker = Worker {
        consumer,
        ports,
        machine: Machine::new(settings.limits),
        policy,
        closed: BTreeMap::new(),
        batch: None,
        next_batch_at: Instant::now(),
        look_for_ripe: true,
        failing: false,
        sync: None,
        commits: Commits::new("commit signals"),
        leaving: Leaving::default(),
        holds_signals: false,
        ends: Ends::default(),
        troubles: Troubles::default(),
    };
    tokio::select! {
        () = sweep.run() => unreachable!("the sweep goes on for ever"),
        result = worker.run_until(settings.sync_every, shutdown) => result?,
    }
    if let Ok(drained) = tokio::time::timeout(DRAIN, worker.drain()).await {
        return drained;
    }
    tracing::warn!("rollup stopped with a batch under way; it is done again at the start");
    Ok(())
}

async fn or_never<T>(work: &mut Option<BoxFuture<'static, T>>) -> T {
    match work {
        Some(work) => work.await,
        None => std::future::pending().await,
    }
}

impl<K: Consumer, L: Producer, E: EventStore, R: RollupStore, C: Cache> Worker<K, L, E, R, C> {
    async fn run_until(
        &mut self,
        sync_every: Duration,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), RollupError> {
        tokio::pin!(shutdown);
        let mut watermarks = self.ports.watermarks.subscribe();
        let mut policies = self.ports.policies.clone();
        let mut syncs = tokio::time::interval(sync_every);
        let mut housekeeping = tokio::time::interval(HOUSEKEEPING);
        self.refresh_closed();
        loop {
            self.commits.start(&mut self.consumer);
            self.hand_back();
            let may_start = self.batch.is_none() && self.look_for_ripe && self.leaving.is_empty();
            tokio::select! {
                () = &mut shutdown => return Ok(()),
                result = or_never(&mut self.batch) => self.on_batch(result),
                result = or_never(&mut self.sync) => self.on_synced(result).await?,
                committed = self.commits.done() => drop(committed?),
                () = tokio::time::sleep_until(self.next_batch_at), if may_start => self.start_batch(),
                _ = syncs.tick(), if self.sync.is_none() => self.start_sync(),
                Ok(()) = watermarks.changed() => self.refresh_closed(),
                Ok(()) = policies.changed() => self.refresh_closed(),
                _ = housekeeping.tick() => self.keep_house().await,
                ends = self.ends.answered() => self.on_ends(&ends),
                polled = self.consumer.poll() => self.on_polled(polled).await?,
            }
        }
    }

    async fn on_polled(&mut self, polled: Result<Polled, LogError>) -> Result<(), RollupError> {
        match polled {
            Ok(Polled::Assigned(assignments)) => {
                for assignment in assignments {
                    self.machine
                        .assign(assignment.partition, assignment.start.next_offset);
                }
                self.load_parked().await;
            }
            Ok(Polled::Revoked(partitions)) => self.leaving.add(partitions),
            Ok(Polled::Lost(partitions)) => self.on_lost(&partitions),
            Ok(Polled::Records { partition, records }) => {
                self.on_signals(partition, records);
                self.park_overflow().await;
            }
            Ok(Polled::End { .. }) => {}
            Err(error @ (LogError::Unavailable(_) | LogError::ClockJumped(_))) => {
                Backoff::new("read signals").wait(&error).await;
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn on_signals(&mut self, partition: u32, records: Vec<Record>) {
        let now = self.ports.clock.now();
        counter!(names::SIGNALS).increment(records.len() as u64);
        let mut coalesced = 0;
        for record in records {
            let at = SignalAt {
                partition,
                offset: record.offset,
            };
            let Body::Data { value, .. } = &record.body else {
                self.machine.skip(at);
                continue;
            };
            match signal::decode(value) {
                Ok(signal) => {
                    let joined = self.machine.on_signal(now, at, signal, &self.policy);
                    coalesced += u64::from(joined);
                }
                Err(error) => {
                    // The sweep finds the counter, whichever it was.
                    tracing::warn!(%error, partition, offset = at.offset, "skipped a signal");
                    self.machine.skip(at);
                }
            }
        }
        counter!(names::COALESCED).increment(coalesced);
        self.look_for_ripe = true;
    }

    /// The low watermark is read before the policy: with a policy at least as new as the
    /// watermark, nothing closes that a change has reopened.
    fn refresh_closed(&mut self) {
        let low = self.ports.watermarks.low();
        let policy = Arc::clone(&self.ports.policies.borrow());
        self.closed = closed_times(&policy, low);
        self.policy = policy;
        self.look_for_ripe = true;
    }

    fn start_batch(&mut self) {
        let counters = self.machine.next_batch(&self.closed);
        self.look_for_ripe = !counters.is_empty();
        if counters.is_empty() {
            return;
        }
        let tasks = counters
            .into_iter()
            .map(|counter| self.task(counter))
            .collect();
        let stores = self.ports.stores.clone();
        let work = async move {
            let started = Instant::now();
            let results = aggregate(&stores, tasks).await;
            (results, started.elapsed())
        };
        self.batch = Some(background::start(work));
    }

    fn task(&self, counter: CounterKey) -> Task {
        // Only counters of namespaces in `closed` are ever ripe, and those live in the policy.
        let (_, life) = self
            .policy
            .incarnation(counter.namespace)
            .expect("the namespace of a ripe counter lives");
        let (origin, closed) = (life.origin(), self.closed[&counter.namespace]);
        let seen = self.machine.rolled_through(&counter);
        Task {
            counter,
            origin,
            closed,
            seen,
        }
    }

    fn on_batch(&mut self, (results, took): BatchResult) {
        self.batch = None;
        let failed = results
            .iter()
            .filter(|(_, rolled)| rolled.is_none())
            .count();
        self.failing |= failed > 0;
        counter!(names::FAILED).increment(failed as u64);
        counter!(names::AGGREGATED).increment((results.len() - failed) as u64);
        #[expect(
            clippy::cast_precision_loss,
            reason = "a batch has far fewer than 2^52 counters"
        )]
        histogram!(names::BATCH_SIZE).record(results.len() as f64);
        histogram!(names::BATCH_SECONDS).record(took);
        self.machine.on_batch(results, took, &self.policy);
        gauge!(names::PRESSURE).set(self.machine.pressure());
        self.next_batch_at = Instant::now() + self.machine.pause(took);
        self.look_for_ripe = true;
    }

    fn start_sync(&mut self) {
        let finished = self.machine.begin_sync();
        if finished.is_none() && !std::mem::take(&mut self.failing) {
            return;
        }
        let finished = finished.unwrap_or_default();
        let rollups = self.ports.stores.rollups.clone();
        let work = async move { (finished, rollups.sync().await) };
        self.sync = Some(background::start(work));
    }

    async fn on_synced(&mut self, (finished, result): SyncResult) -> Result<(), RollupError> {
        self.sync = None;
        match result {
            Ok(Durability::Durable) => {
                self.troubles.sync.succeeded();
                let durable = self.machine.on_durable(finished);
                self.commit(durable).await;
                Ok(())
            }
            Ok(Durability::Lost) => {
                counter!(names::REWINDS).increment(1);
                tracing::warn!("the store restarted and may have lost checkpoints; reading again");
                self.batch = None;
                for (partition, next_offset) in self.machine.rewind() {
                    self.consumer.seek(partition, next_offset);
                }
                Ok(())
            }
            Err(error @ StoreError::Damaged(_)) => Err(error.into()),
            Err(error) => {
                self.troubles.sync.failed(&error);
                self.machine.sync_failed(finished);
                Ok(())
            }
        }
    }

    async fn commit(&mut self, durable: Durable) {
        let frontier = |next_offset| Committed {
            next_offset,
            effective_time: Micros::MIN,
        };
        let commits = durable.commits.into_iter();
        self.commits
            .add(commits.map(|(id, next)| (id, frontier(next))));
        for (partition, rows) in durable.unpark {
            if let Err(error) = self.ports.stores.rollups.unpark(partition, rows).await {
                // A row that stays costs one more rollup after the next start.
                tracing::warn!(%error, "could not remove parked signals");
            }
        }
    }

    async fn drain(&mut self) -> Result<(), RollupError> {
        if self.batch.is_some() {
            let result = or_never(&mut self.batch).await;
            self.on_batch(result);
        }
        if self.sync.is_some() {
            let result = or_never(&mut self.sync).await;
            self.on_synced(result).await?;
        }
        self.start_sync();
        if self.sync.is_some() {
            let result = or_never(&mut self.sync).await;
            self.on_synced(result).await?;
        }
        loop {
            self.commits.start(&mut self.consumer);
            if self.commits.is_empty() {
                return Ok(());
            }
            self.commits.done().await?;
        }
    }
}
