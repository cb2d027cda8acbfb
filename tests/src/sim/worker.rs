//! The rollup process: the production machine, `aggregate` and the sweep, driven as `run` drives
//! them, one choice of the schedule at a time. A crash drops the whole.

use super::{
    bug::Bug,
    consumer::{Consumer, Group},
    port::Port,
    world::Sim,
};
use futures::{FutureExt, future::BoxFuture, future::poll_immediate};
use quipu_adapters::{
    clock::Clock,
    ports::{Body, Committed, Durability, Parked, Polled, Record, RollupStore, StoreError},
};
use quipu_core::{
    event::{CounterKey, NamespaceId},
    policy::{Incarnation, PolicyBook},
    time::Micros,
};
use quipu_rollup_worker::{
    aggregate::{Stores, Task, aggregate},
    machine::{Durable, Finished, Limits, Machine, Rolled, closed_times},
    pending::SignalAt,
    sweep::{Sweep, SweepSettings},
};
use quipu_schemas::signal;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::sync::watch;

type BatchWork = BoxFuture<'static, Vec<(CounterKey, Option<Rolled>)>>;
type SyncWork = BoxFuture<'static, (Finished, Result<Durability, StoreError>)>;

const PARKED_PAGE: usize = 2;

struct Worker {
    sim: Sim,
    port: Port,
    member: usize,
    clock_skew: i64,
    consumer: Consumer,
    policies: watch::Sender<Arc<PolicyBook>>,
    policy: Arc<PolicyBook>,
    machine: Machine,
    closed: BTreeMap<NamespaceId, Micros>,
    batch: Option<BatchWork>,
    sync: Option<SyncWork>,
    sweep: Option<BoxFuture<'static, ()>>,
}

/// Runs for ever.
pub(super) async fn run(sim: Sim, member: usize) {
    let mut process = start(sim, member);
    loop {
        process.sim.turn().await;
        process.step().await;
    }
}

fn start(sim: Sim, member: usize) -> Worker {
    let port = Port::connect(&sim);
    let mut world = sim.lock();
    let now = world.now;
    let limits = Limits {
        pending: world.faults.pending,
        circulating: world.faults.pending / 4,
        park_after: world.faults.park_after,
        batch_target: Duration::from_secs(1),
        batch_sizes: (2, 8),
    };
    let clock_skew = world.rng.around(300_000);
    let policy = world.control.lease(now);
    drop(world);
    Worker {
        consumer: Consumer::new(&port, Group::Rollup, member),
        sim,
        port,
        member,
        clock_skew,
        policies: watch::Sender::new(Arc::clone(&policy)),
        policy,
        machine: Machine::new(limits),
        closed: BTreeMap::new(),
        batch: None,
        sync: None,
        sweep: None,
    }
}

async fn finish<T>(work: &mut Option<BoxFuture<'static, T>>) -> Option<T> {
    match work {
        Some(work) => Some(work.await),
        None => None,
    }
}

async fn poll_once<T>(work: &mut Option<BoxFuture<'static, T>>) -> Option<T> {
    match work {
        Some(work) => poll_immediate(work).await,
        None => None,
    }
}

impl Worker {
    fn now(&self) -> Micros {
        Micros::new(self.sim.lock().now.get() + self.clock_skew)
    }

    async fn step(&mut self) {
        let choice = self.sim.lock().rng.below(14);
        match choice {
            0 => self.renew(),
            1 | 2 => self.refresh_closed(),
            3 | 4 if self.batch.is_none() => self.start_batch(),
            3..=5 => {
                if let Some(results) = poll_once(&mut self.batch).await {
                    self.on_batch(results);
                }
            }
            6 if self.sync.is_none() => self.start_sync(),
            6 | 7 => {
                if let Some(synced) = poll_once(&mut self.sync).await {
                    self.on_synced(synced).await;
                }
            }
            8 => self.keep_house().await,
            9 => self.sweep().await,
            _ => self.poll().await,
        }
    }

    fn renew(&mut self) {
        let mut world = self.sim.lock();
        let now = world.now;
        self.policies.send_replace(world.control.lease(now));
    }

    async fn poll(&mut self) {
        match self.consumer.poll() {
            Some(Polled::Assigned(assignments)) => {
                for assignment in assignments {
                    self.machine
                        .assign(assignment.partition, assignment.start.next_offset);
                }
                self.load_parked().await;
            }
            // The simulated log never takes a partition away before it is drained.
            Some(Polled::Lost(partitions)) => unreachable!("{partitions:?} were lost"),
            Some(Polled::Revoked(partitions)) => {
                self.drain().await;
                self.machine.revoke(&partitions);
            }
            Some(Polled::Records { partition, records }) => {
                self.on_signals(partition, &records);
                self.park_overflow().await;
            }
            Some(Polled::End { .. }) | None => {}
        }
    }

    fn on_signals(&mut self, partition: u32, records: &[Record]) {
        let now = self.now();
        for record in records {
            let at = SignalAt {
                partition,
                offset: record.offset,
            };
            let Body::Data { value, .. } = &record.body else {
                self.machine.skip(at);
                continue;
            };
            let signal = signal::decode(value).expect("signals are well made");
            self.machine.on_signal(now, at, signal, &self.policy);
        }
        let bug = self.sim.lock().bug;
        if let (Some(Bug::SignalCommittedAtReceipt), Some(last)) = (bug, records.last()) {
            let next_offset = last.offset + 1;
            let frontier = Committed {
                next_offset,
                effective_time: Micros::MIN,
            };
            self.consumer.commit_blindly(partition, frontier);
        }
    }

    fn refresh_closed(&mut self) {
        let mut world = self.sim.lock();
        let low = match world.bug {
            Some(Bug::NewestWatermark) => {
                let watermarks = self.sim.board.subscribe();
                let newest = watermarks.borrow().iter().map(|(_, at)| at).max();
                newest.unwrap_or(Micros::MIN)
            }
            Some(Bug::WallClockClose) => world.now,
            _ => self.sim.board.low(),
        };
        let policy = Arc::clone(&self.policies.borrow());
        self.closed = closed_times(&policy, low);
        for (namespace, closed) in &self.closed {
            world.publish_closed(*namespace, *closed);
        }
        self.policy = policy;
    }

    fn start_batch(&mut self) {
        let counters = self.machine.next_batch(&self.closed);
        if counters.is_empty() {
            return;
        }
        self.sim
            .note(|| format!("worker {} takes {} counters", self.member, counters.len()));
        let tasks = counters
            .into_iter()
            .map(|counter| self.task(counter))
            .collect();
        let stores = self.stores();
        self.batch = Some(async move { aggregate(&stores, tasks).await }.boxed());
    }

    fn stores(&self) -> Stores<Port, Port, Port> {
        Stores {
            events: self.port.clone(),
            rollups: self.port.clone(),
            cache: self.port.clone(),
        }
    }

    fn task(&self, counter: CounterKey) -> Task {
        let life = self
            .policy
            .incarnation(counter.namespace)
            .map(|(_, life)| life);
        let origin = life
            .map(Incarnation::origin)
            .expect("the namespace of a ripe counter lives");
        let closed = self.closed[&counter.namespace];
        let seen = self.machine.rolled_through(&counter);
        Task {
            counter,
            origin,
            closed,
            seen,
        }
    }

    fn on_batch(&mut self, results: Vec<(CounterKey, Option<Rolled>)>) {
        self.batch = None;
        let took = self.sim.lock().rng.millis_below(1_500);
        self.machine.on_batch(results, took, &self.policy);
    }

    fn start_sync(&mut self) {
        let Some(finished) = self.machine.begin_sync() else {
            return;
        };
        let rollups = self.port.clone();
        self.sync = Some(async move { (finished, RollupStore::sync(&rollups).await) }.boxed());
    }

    async fn on_synced(&mut self, (finished, result): (Finished, Result<Durability, StoreError>)) {
        self.sync = None;
        match result {
            Ok(Durability::Durable) => {
                let durable = self.machine.on_durable(finished);
                self.commit(durable).await;
            }
            Ok(Durability::Lost) => {
                self.sim
                    .note(|| format!("worker {} goes back", self.member));
                self.batch = None;
                for (partition, next_offset) in self.machine.rewind() {
                    self.consumer.seek(partition, next_offset);
                }
            }
            Err(_) => self.machine.sync_failed(finished),
        }
    }

    async fn commit(&mut self, durable: Durable) {
        let frontier = |next_offset| Committed {
            next_offset,
            effective_time: Micros::MIN,
        };
        let commits: Vec<_> = durable
            .commits
            .into_iter()
            .map(|(id, next)| (id, frontier(next)))
            .collect();
        self.consumer.commit(&commits).await;
        for (partition, rows) in durable.unpark {
            // A row that stays costs one more rollup after the next start.
            self.port.unpark(partition, rows).await.ok();
        }
    }

    async fn keep_house(&mut self) {
        self.machine.forget_deleted(&self.policy);
        self.park_overdue().await;
        self.park_overflow().await;
        self.machine.make_room(&self.closed);
        self.load_parked().await;
    }

    async fn park_overdue(&mut self) {
        let rows = self.machine.to_park(self.now());
        if rows.is_empty() {
            return;
        }
        let waiting = rows.values().flatten();
        let writes = waiting.map(|row| (row.counter.clone(), row.last_write));
        if self.port.note_writes(writes.collect()).await.is_ok() && self.park(&rows).await {
            self.machine.on_parked(&rows);
        }
    }

    async fn park_overflow(&mut self) {
        let rows = self.machine.overflow();
        if self.park(&rows).await {
            self.machine.on_overflow_parked();
        }
    }

    async fn park(&self, rows: &BTreeMap<u32, Vec<Parked>>) -> bool {
        for (partition, rows) in rows {
            if self.port.park(*partition, rows.clone()).await.is_err() {
                return false;
            }
        }
        true
    }

    async fn load_parked(&mut self) {
        while let Some((partition, after)) = self.machine.parked_to_load() {
            match self
                .port
                .parked(partition, after.as_ref(), PARKED_PAGE)
                .await
            {
                Ok(rows) => self.machine.on_parked_loaded(partition, &rows, PARKED_PAGE),
                Err(_) => return,
            }
        }
    }

    async fn drain(&mut self) {
        if let Some(results) = finish(&mut self.batch).await {
            self.on_batch(results);
        }
        if let Some(synced) = finish(&mut self.sync).await {
            self.on_synced(synced).await;
        }
        self.start_sync();
        if let Some(synced) = finish(&mut self.sync).await {
            self.on_synced(synced).await;
        }
    }

    async fn sweep(&mut self) {
        if self.sweep.is_none() && self.sim.lock().rng.chance(20) {
            let (clock, _) = Clock::manual(self.now());
            let mut sweep = Sweep {
                log: self.port.clone(),
                events: self.port.clone(),
                // Of its own: what it is told of lost writes must not be kept from the worker.
                rollups: Port::connect(&self.sim),
                watermarks: self.sim.board.clone(),
                policies: self.policies.subscribe(),
                clock,
                clean: std::collections::BTreeSet::new(),
                settings: SweepSettings {
                    every: Duration::ZERO,
                    page_pause: Duration::ZERO,
                    grace: Duration::from_secs(1),
                    retention: Duration::from_secs(8),
                },
            };
            // A walk that stopped early is followed by the next.
            self.sweep = Some(async move { sweep.walk().await.map_or((), |_| ()) }.boxed());
        }
        if poll_once(&mut self.sweep).await.is_some() {
            self.sweep = None;
        }
    }
}
