//! The loop that drives the ingest machine: polls, keeps a bounded number of batches under way,
//! commits contiguous frontiers, ticks idle partitions. It decides nothing.

use crate::{
    batch::Batch,
    machine::{Machine, Present, Stall, Stalled},
    names,
    process::{IngestError, Processed, make_durable},
    ticks::{TickSettings, Ticks},
};
use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use metrics::counter;
use quipu_adapters::{
    background,
    clock::Clock,
    commits::Commits,
    ends::Ends,
    ports::{
        Body, Consumer, EventStore, LogError, NewRecord, Polled, Producer, Record, StoreError,
        Topic,
    },
    retry::Backoff,
    watermarks::WatermarkBoard,
};
use quipu_core::{
    policy::{Incarnation, PolicyBook},
    time::Micros,
    window::Window,
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{sync::watch, time::Instant};

/// What the role works with.
#[derive(Clone, Debug)]
pub struct Ports<L, E> {
    /// Takes signals, dead letters and ticks.
    pub log: L,
    /// Takes accepted events.
    pub events: E,
    /// Takes watermarks.
    pub watermarks: WatermarkBoard,
    /// Brings the policy.
    pub policies: watch::Receiver<Arc<PolicyBook>>,
    /// Tells the time.
    pub clock: Clock,
}

/// How the role works.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The events topic's name, as namespaces know it (R6).
    pub topic: &'static str,
    /// A batch is closed at this many rows and dead letters.
    pub batch_rows: usize,
    /// Or when it is this old.
    pub linger: Duration,
    /// Batches under way at once.
    pub in_flight: usize,
    /// How often partitions at their end get a tick.
    pub ticks: TickSettings,
    /// The role stops when more of a hundred recent records of a partition are refused as no
    /// events of this topic; 100 for never.
    pub most_refused_percent: u32,
    /// The guard that gateways acknowledge by (R7); zero where the log tells effective times.
    pub append_guard: Duration,
}

/// How long before their time slices are made ready.
const SLICE_LEAD: Duration = Duration::from_hours(1);
const HOUSEKEEPING: Duration = Duration::from_secs(10);
const OBSERVE: Duration = Duration::from_secs(1);
const STALL_RETRY: Duration = Duration::from_millis(200);
const DRAIN: Duration = Duration::from_secs(5);

mod handover;
mod observe;

struct Ingest<C, L, E> {
    consumer: C,
    ports: Ports<L, E>,
    settings: Settings,
    machine: Machine,
    ticks: Ticks,
    open: Batch,
    open_since: Option<Instant>,
    in_flight: FuturesUnordered<BoxFuture<'static, Result<Processed, IngestError>>>,
    stalled: BTreeMap<u32, Instant>,
    commits: Commits,
    /// Revoked partitions, each with the time by which it is handed back.
    leaving: BTreeMap<u32, Instant>,
    /// The watermark that was last published of each partition.
    published: BTreeMap<u32, Micros>,
    ends: Ends,
}

/// Runs the role until `shutdown` resolves, then finishes what is under way within a bound.
///
/// # Errors
/// Only for what no retry can mend; whatever was not committed is decided again, alike.
pub async fn run<C: Consumer, L: Producer, E: EventStore>(
    consumer: C,
    ports: Ports<L, E>,
    settings: Settings,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), IngestError> {
    let ticks = Ticks::new(settings.ticks, ports.clock.now());
    let mut ingest = Ingest {
        consumer,
        ports,
        settings,
        machine: Machine::new(
            settings.topic,
            settings.most_refused_percent,
            settings.append_guard,
        ),
        ticks,
        open: Batch::default(),
        open_since: None,
        in_flight: FuturesUnordered::new(),
        stalled: BTreeMap::new(),
        commits: Commits::new("commit offsets"),
        leaving: BTreeMap::new(),
        published: BTreeMap::new(),
        ends: Ends::default(),
    };
    ingest.run_until(shutdown).await?;
    if let Ok(drained) = tokio::time::timeout(DRAIN, ingest.drain()).await {
        return drained;
    }
    tracing::warn!("ingest stopped with batches under way; they are decided again at the start");
    Ok(())
}

impl<C: Consumer, L: Producer, E: EventStore> Ingest<C, L, E> {
    async fn run_until(
        &mut self,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), IngestError> {
        tokio::pin!(shutdown);
        let mut ticker = tokio::time::interval(self.settings.ticks.active / 2);
        let mut housekeeping = tokio::time::interval(HOUSEKEEPING);
        let mut observe = tokio::time::interval(OBSERVE);
        ticker.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            self.seal_when_due();
            self.commits.start(&mut self.consumer);
            self.hand_back();
            let has_room = self.open.kept() < self.settings.batch_rows;
            let linger_ends = self.open_since.map(|since| since + self.settings.linger);
            let may_seal = self.in_flight.len() < self.settings.in_flight;
            tokio::select! {
                () = &mut shutdown => return Ok(()),
                Some(processed) = self.in_flight.next() => self.on_processed(processed?),
                committed = self.commits.done() => self.on_committed(committed?),
                _ = ticker.tick() => self.tick(),
                _ = housekeeping.tick() => self.prepare_slices().await?,
                _ = observe.tick() => self.observe(),
                ends = self.ends.answered() => self.on_ends(&ends),
                () = tokio::time::sleep_until(linger_ends.unwrap_or_else(Instant::now)),
                    if linger_ends.is_some() && may_seal => {}
                polled = self.consumer.poll(), if has_room => self.on_polled(polled).await?,
            }
        }
    }

    async fn on_polled(&mut self, polled: Result<Polled, LogError>) -> Result<(), IngestError> {
        match polled {
            Ok(Polled::Assigned(assignments)) => {
                for assignment in assignments {
                    self.published
                        .insert(assignment.partition, assignment.start.effective_time);
                    self.machine.assign(assignment);
                }
                self.prepare_slices().await?;
            }
            Ok(Polled::Revoked(partitions)) => self.on_revoked(partitions),
            Ok(Polled::Lost(partitions)) => self.on_lost(&partitions),
            Ok(Polled::Records { partition, records }) => self.on_records(partition, records)?,
            Ok(Polled::End { partition }) => self.ticks.at_end(partition),
            Err(error @ (LogError::Unavailable(_) | LogError::ClockJumped(_))) => {
                Backoff::new("read the log").wait(&error).await;
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn on_records(&mut self, partition: u32, records: Vec<Record>) -> Result<(), IngestError> {
        let now = self.ports.clock.now();
        self.ticks.not_at_end(partition);
        if records
            .iter()
            .any(|record| matches!(record.body, Body::Data { .. }))
        {
            self.ticks.wrote(now);
        }
        let policy = Arc::clone(&self.ports.policies.borrow());
        let present = Present {
            now,
            policy: &policy,
        };
        let decided = self
            .machine
            .decide(present, partition, records, &mut self.open);
        if !self.open.is_empty() {
            self.open_since.get_or_insert_with(Instant::now);
        }
        match decided {
            Ok(()) => {
                self.stalled.remove(&partition);
            }
            Err(Stalled {
                reason: Stall::NearlyAllRefused(refused),
                ..
            }) => {
                return Err(IngestError::NearlyAllRefused {
                    topic: self.settings.topic,
                    partition,
                    refused,
                });
            }
            Err(stalled) => self.stall(partition, stalled),
        }
        Ok(())
    }

    /// Reads a partition again from the record that it may not decide yet, a little later.
    fn stall(&mut self, partition: u32, stalled: Stalled) {
        counter!(names::STALLS).increment(1);
        if self
            .stalled
            .insert(partition, Instant::now() + STALL_RETRY)
            .is_none()
        {
            let Stalled { offset, reason } = stalled;
            let remedy = stalled.remedy(partition);
            let remedy = remedy.as_deref();
            tracing::error!(partition, offset, %reason, remedy, "ingest stopped before a record");
        }
        self.consumer.seek(partition, stalled.offset);
        self.consumer.pause(partition);
    }

    fn resume_stalled(&mut self) {
        let now = Instant::now();
        for (partition, retry_at) in &mut self.stalled {
            if *retry_at <= now {
                *retry_at = now + STALL_RETRY;
                self.consumer.resume(*partition);
            }
        }
    }

    fn seal_when_due(&mut self) {
        let Some(since) = self.open_since else { return };
        let full = self.open.kept() >= self.settings.batch_rows;
        let due = full || since.elapsed() >= self.settings.linger;
        if due && self.in_flight.len() < self.settings.in_flight {
            self.seal();
        }
    }

    fn seal(&mut self) {
        self.open_since = None;
        let batch = std::mem::take(&mut self.open);
        if batch.is_empty() {
            return;
        }
        let policy = Arc::clone(&self.ports.policies.borrow());
        let (log, events) = (self.ports.log.clone(), self.ports.events.clone());
        let work = make_durable(log, events, policy, self.settings.topic, batch);
        self.in_flight.push(background::start(work));
    }

    fn on_processed(&mut self, processed: Processed) {
        match processed {
            Processed::Done(ranges) => self.commits.add(self.machine.finish(&ranges)),
            Processed::Lost => {
                counter!(names::REWINDS).increment(1);
                tracing::warn!("the store restarted and may have lost writes; writing them again");
                self.in_flight.clear();
                self.open = Batch::default();
                self.open_since = None;
                for (partition, next_offset) in self.machine.rewind() {
                    self.consumer.seek(partition, next_offset);
                }
            }
        }
    }

    fn tick(&mut self) {
        self.resume_stalled();
        let due = self.ticks.due(self.ports.clock.now());
        if due.is_empty() {
            return;
        }
        let log = self.ports.log.clone();
        let ticks = due.into_iter().map(|partition| NewRecord {
            partition,
            body: Body::Tick,
        });
        let ticks = ticks.collect();
        // Nothing waits for a tick: one that fails is followed by the next. But where nobody
        // writes, ticks alone find that the log has stopped for good.
        self.in_flight.push(
            async move {
                match log.append(Topic::Events, ticks).await {
                    Ok(_) => {}
                    Err(error @ LogError::Damaged(_)) => return Err(error.into()),
                    Err(error) => tracing::debug!(%error, "could not append ticks"),
                }
                Ok(Processed::Done(Vec::new()))
            }
            .boxed(),
        );
    }

    /// R19: slices exist from the oldest horizon to the largest `max_future`.
    async fn prepare_slices(&mut self) -> Result<(), IngestError> {
        let policy = Arc::clone(&self.ports.policies.borrow());
        let Some(oldest) = self.machine.oldest_frontier() else {
            return Ok(());
        };
        for window in slices_needed(&policy, oldest, self.ports.clock.now()) {
            match self.ports.events.prepare(window).await {
                Ok(()) => {}
                Err(error @ StoreError::Damaged(_)) => return Err(error.into()),
                Err(error) => {
                    tracing::warn!(%error, "could not prepare time slices; trying again");
                }
            }
        }
        Ok(())
    }
}

/// The windows that slices must cover: round the oldest time at which a record is undecided, and
/// round now. A server that was down for years must not make a slice for each day between; a
/// record that needs one of those makes it.
fn slices_needed(policy: &PolicyBook, oldest_frontier: Micros, now: Micros) -> [Window; 2] {
    let lives = || policy.iter().flat_map(|(_, history)| history.lives());
    let limits = || {
        lives()
            .flat_map(Incarnation::versions)
            .map(|version| version.limits)
    };
    let longest = limits()
        .map(|limits| limits.accept_limit)
        .max()
        .unwrap_or_default();
    let furthest = limits()
        .map(|limits| limits.max_future)
        .max()
        .unwrap_or_default();
    [oldest_frontier, now.max(oldest_frontier)].map(|at| Window {
        after: at - longest,
        through: at + furthest + SLICE_LEAD,
    })
}
