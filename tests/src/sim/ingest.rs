//! The ingest process: the production machine, ticks and `make_durable`, driven as `run` drives
//! them, one choice of the schedule at a time. A crash drops the whole.

use super::{
    bug::Bug,
    consumer::{Consumer, Group},
    port::Port,
    verdict::Verdict,
    world::{Sim, control::TOPIC},
};
use futures::{
    FutureExt, StreamExt, future::BoxFuture, future::poll_immediate, stream::FuturesUnordered,
};
use quipu_adapters::ports::{
    Body, Committed, EventStore, NewRecord, Polled, Producer, Record, Topic,
};
use quipu_core::{
    event::{CounterKey, EventRow, LogPosition, StoredEvent},
    policy::{PolicyBook, Refusal},
    time::Micros,
    window::Window,
};
use quipu_ingest::{
    IngestError, Processed,
    batch::{Batch, DeadLetter, DecidedRange},
    machine::{Machine, Present, Stalled},
    make_durable,
    ticks::{TickSettings, Ticks},
};
use quipu_schemas::event;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

const TICKS: TickSettings = TickSettings {
    active: Duration::from_millis(300),
    idle: Duration::from_millis(900),
    idle_after: Duration::from_secs(12),
};
const BATCH_ROWS: usize = 6;
const IN_FLIGHT: usize = 3;

struct Ingest {
    sim: Sim,
    port: Port,
    member: usize,
    clock_skew: i64,
    consumer: Consumer,
    policy: Arc<PolicyBook>,
    machine: Machine,
    ticks: Ticks,
    open: Batch,
    in_flight: FuturesUnordered<BoxFuture<'static, Result<Processed, IngestError>>>,
    stalled: BTreeSet<u32>,
}

/// Runs for ever.
pub(super) async fn run(sim: Sim, member: usize) {
    let mut process = start(sim, member);
    loop {
        process.sim.turn().await;
        process.step().await;
    }
}

fn start(sim: Sim, member: usize) -> Ingest {
    let port = Port::connect(&sim);
    let mut world = sim.lock();
    let now = world.now;
    let clock_skew = world.rng.around(300_000);
    let policy = world.control.lease(now);
    drop(world);
    Ingest {
        consumer: Consumer::new(&port, Group::Ingest, member),
        sim,
        port,
        member,
        clock_skew,
        policy,
        machine: Machine::new(TOPIC, 100, Duration::ZERO),
        ticks: Ticks::new(TICKS, now),
        open: Batch::default(),
        in_flight: FuturesUnordered::new(),
        stalled: BTreeSet::new(),
    }
}

impl Ingest {
    fn now(&self) -> Micros {
        Micros::new(self.sim.lock().now.get() + self.clock_skew)
    }

    async fn step(&mut self) {
        let choice = self.sim.lock().rng.below(12);
        match choice {
            0 => self.renew(),
            1 => self.tick(),
            2 => self.prepare_slices().await,
            3 | 4 if self.in_flight.len() < IN_FLIGHT => self.seal().await,
            5..=8 => {
                if let Some(Some(processed)) = poll_immediate(self.in_flight.next()).await {
                    self.on_processed(processed.expect("nothing is damaged"))
                        .await;
                }
            }
            _ if self.open.rows.len() < BATCH_ROWS => self.poll().await,
            _ => {}
        }
    }

    fn renew(&mut self) {
        let mut world = self.sim.lock();
        let now = world.now;
        self.policy = world.control.lease(now);
    }

    async fn poll(&mut self) {
        match self.consumer.poll() {
            None => {}
            Some(Polled::Assigned(assignments)) => {
                for assignment in assignments {
                    self.machine.assign(assignment);
                }
                self.prepare_slices().await;
            }
            // The simulated log never takes a partition away before it is drained.
            Some(Polled::Lost(partitions)) => unreachable!("{partitions:?} were lost"),
            Some(Polled::Revoked(partitions)) => {
                self.drain().await;
                for partition in partitions {
                    self.machine.revoke(partition);
                    self.ticks.not_at_end(partition);
                    self.stalled.remove(&partition);
                }
            }
            Some(Polled::Records { partition, records }) => self.on_records(partition, &records),
            Some(Polled::End { partition }) => self.ticks.at_end(partition),
        }
    }

    fn on_records(&mut self, partition: u32, records: &[Record]) {
        let now = self.now();
        self.ticks.not_at_end(partition);
        if records
            .iter()
            .any(|record| matches!(record.body, Body::Data { .. }))
        {
            self.ticks.wrote(now);
        }
        let before = (self.open.rows.len(), self.open.dead_letters.len());
        let present = Present {
            now,
            policy: &self.policy,
        };
        let decided = self
            .machine
            .decide(present, partition, records.to_vec(), &mut self.open);
        let end = decided
            .as_ref()
            .map_or_else(|stalled| stalled.offset, |()| u64::MAX);
        self.accept_the_horizon(partition, before.1);
        self.check_verdicts(
            partition,
            records.iter().filter(|record| record.offset < end),
            before,
        );
        match decided {
            Ok(()) => {
                self.stalled.remove(&partition);
            }
            Err(Stalled { offset, reason }) => {
                self.sim.note(|| {
                    format!(
                        "ingest {} stalls {partition}/{offset} {reason}",
                        self.member
                    )
                });
                self.stalled.insert(partition);
                self.consumer.seek(partition, offset);
                self.consumer.pause(partition);
            }
        }
    }

    fn check_verdicts<'a>(
        &self,
        partition: u32,
        records: impl Iterator<Item = &'a Record>,
        (rows, letters): (usize, usize),
    ) {
        let mut verdicts: BTreeMap<u64, Verdict> = records
            .map(|record| (record.offset, Verdict::Tick))
            .collect();
        for row in &self.open.rows[rows..] {
            verdicts.insert(row.event.source.offset, Verdict::Accepted(row.clone()));
        }
        for letter in &self.open.dead_letters[letters..] {
            verdicts.insert(letter.offset, Verdict::Refused(letter.refusal.reason()));
        }
        let mut world = self.sim.lock();
        for (offset, verdict) in verdicts {
            world.check_verdict(partition, offset, verdict);
        }
    }

    /// A planted bug: what lies exactly at the horizon is accepted.
    fn accept_the_horizon(&mut self, partition: u32, from: usize) {
        if self.sim.lock().bug != Some(Bug::AcceptsTheHorizon) {
            return;
        }
        for letter in self.open.dead_letters.split_off(from) {
            match self.at_the_horizon(partition, &letter) {
                Some(row) => self.open.accept(row),
                None => self.open.dead_letters.push(letter),
            }
        }
    }

    fn at_the_horizon(&self, partition: u32, letter: &DeadLetter) -> Option<EventRow> {
        let (Refusal::Late { horizon }, Body::Data { value, .. }) = (&letter.refusal, &letter.body)
        else {
            return None;
        };
        let event = event::decode(value)
            .ok()
            .filter(|event| event.key.event_time == *horizon)?;
        let mut world = self.sim.lock();
        let state = world.events_topic.partition(partition);
        let effective_time = state.effective_before(letter.offset + 1);
        let life = self
            .policy
            .history(event.namespace.as_str())?
            .at(effective_time)?;
        let source = LogPosition {
            effective_time,
            partition,
            offset: letter.offset,
        };
        let counter = CounterKey {
            namespace: life.id(),
            name: event.counter,
        };
        Some(EventRow {
            counter,
            event: StoredEvent {
                key: event.key,
                mutation: event.mutation,
                source,
            },
        })
    }

    async fn seal(&mut self) {
        let batch = std::mem::take(&mut self.open);
        if batch.is_empty() {
            return;
        }
        if self.sim.lock().bug == Some(Bug::CommitBeforeWrite) {
            let ranges = batch.ranges.clone();
            self.commit(&ranges).await;
        }
        let (log, events) = (self.port.clone(), self.port.clone());
        let work = make_durable(log, events, Arc::clone(&self.policy), TOPIC, batch);
        self.in_flight.push(work.boxed());
    }

    async fn on_processed(&mut self, processed: Processed) {
        match processed {
            Processed::Done(_) if self.sim.lock().bug == Some(Bug::CommitBeforeWrite) => {}
            Processed::Done(ranges) => self.commit(&ranges).await,
            Processed::Lost => {
                self.sim
                    .note(|| format!("ingest {} goes back", self.member));
                self.in_flight.clear();
                self.open = Batch::default();
                for (partition, next_offset) in self.machine.rewind() {
                    self.consumer.seek(partition, next_offset);
                }
            }
        }
    }

    async fn commit(&mut self, ranges: &[DecidedRange]) {
        let frontiers: Vec<(u32, Committed)> = self.machine.finish(ranges).into_iter().collect();
        self.consumer.commit(&frontiers).await;
        for (partition, frontier) in frontiers {
            let mut world = self.sim.lock();
            world.check_frontier(partition, frontier);
            world.events_topic.partition(partition).watermark = Some(frontier);
            drop(world);
            self.sim.board.publish(partition, frontier);
        }
    }

    fn tick(&mut self) {
        for partition in &self.stalled {
            self.consumer.resume(*partition);
        }
        let due = self.ticks.due(self.now());
        if due.is_empty() {
            return;
        }
        let log = self.port.clone();
        let ticks = due
            .into_iter()
            .map(|partition| NewRecord {
                partition,
                body: Body::Tick,
            })
            .collect();
        let work = async move {
            // Nothing waits for a tick: one that fails is followed by the next.
            log.append(Topic::Events, ticks).await.ok();
            Ok(Processed::Done(Vec::new()))
        };
        self.in_flight.push(work.boxed());
    }

    async fn prepare_slices(&mut self) {
        let Some(oldest) = self.machine.oldest_frontier() else {
            return;
        };
        let lead = Duration::from_secs(30);
        let window = Window {
            after: oldest - lead,
            through: self.now().max(oldest) + lead,
        };
        // A failure is mended by the next round, or when a write misses its slice.
        EventStore::prepare(&self.port, window).await.ok();
    }

    async fn drain(&mut self) {
        self.seal().await;
        while let Some(processed) = self.in_flight.next().await {
            self.on_processed(processed.expect("nothing is damaged"))
                .await;
        }
    }
}
