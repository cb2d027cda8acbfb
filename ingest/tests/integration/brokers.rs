//! An events topic whose brokers' clocks show what a test says, read by a role that can be killed.
//!
//! Fault model. Each partition's leader has a clock of its own, which may step either way between
//! any two records; an append is stamped with what it shows, as Kafka stamps it, whatever came
//! before. The role can be killed at each of its steps: when it is brought something, and before
//! and after each append and commit, so that what it did may be unknown to it. Nothing answers it
//! from then on. The next one reads from what was committed. Appends and commits are durable at
//! once and never fail, offsets have no gaps, and nothing is revoked. Signals go nowhere.

use crate::fixtures::{self, assignment, key};
use futures::{FutureExt, future::BoxFuture};
use quipu_adapters::ports::{
    Appended, Assignment, Body, Committed, Consumer, LogError, NewRecord, Polled, Producer, Record,
    Stamp, Topic,
};
use quipu_core::time::Micros;
use std::{
    collections::BTreeMap,
    future,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::sync::watch;

/// Few, so that there are many steps.
const RECORDS_AT_A_TIME: usize = 2;
/// What a test waits for comes within a second, on a machine that is not busy.
const PATIENCE: Duration = Duration::from_mins(1);

/// The topic. Clones are one.
#[derive(Clone, Debug)]
pub(crate) struct Brokers {
    state: Arc<Mutex<State>>,
    changed: watch::Sender<()>,
}

#[derive(Debug)]
struct State {
    partitions: Vec<Partition>,
    dead_letters: Vec<Body>,
    /// How often the role was killed: the number of the one that lives.
    kills: u64,
    steps: u64,
    kill_at: Option<u64>,
}

#[derive(Debug)]
struct Partition {
    /// Its leader's clock.
    shown: Micros,
    records: Vec<Record>,
    committed: Committed,
    /// How often the role went back to a record that it was brought.
    stops: u64,
}

impl Brokers {
    /// Empty partitions, whose leaders' clocks are right. The role is killed at a step, or never.
    pub(crate) fn new(partitions: u32, now: Micros, kill_at: Option<u64>) -> Self {
        let partition = |id| Partition {
            shown: now,
            records: Vec::new(),
            committed: assignment(id).start,
            stops: 0,
        };
        let state = State {
            partitions: (0..partitions).map(partition).collect(),
            dead_letters: Vec::new(),
            kills: 0,
            steps: 0,
            kill_at,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            changed: watch::Sender::new(()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("unpoisoned")
    }

    /// Sets the clock of a partition's leader.
    pub(crate) fn show(&self, partition: u32, time: Micros) {
        self.state().partition(partition).shown = time;
    }

    /// Appends an event, as a producer does. Returns its offset.
    pub(crate) fn write(&self, partition: u32, token: &str, event_time: Micros) -> u64 {
        let body = fixtures::add("n", key(token, event_time));
        let offset = self.state().partition(partition).append(body);
        self.changed.send_replace(());
        offset
    }

    /// Kills the role, wherever it is.
    pub(crate) fn kill(&self) {
        self.state().kills += 1;
        self.changed.send_replace(());
    }

    /// What the role has of the topic until it is killed.
    pub(crate) fn connect(&self) -> Connection {
        let number = self.state().kills;
        Connection {
            brokers: self.clone(),
            number,
        }
    }

    pub(crate) fn kills(&self) -> u64 {
        self.state().kills
    }

    pub(crate) fn steps(&self) -> u64 {
        self.state().steps
    }

    pub(crate) fn end(&self, partition: u32) -> u64 {
        self.state().partition(partition).end()
    }

    pub(crate) fn committed(&self, partition: u32) -> Committed {
        self.state().partition(partition).committed
    }

    pub(crate) fn stops(&self, partition: u32) -> u64 {
        self.state().partition(partition).stops
    }

    /// Whether all of a partition is committed.
    pub(crate) fn is_done(&self, partition: u32) -> bool {
        self.committed(partition).next_offset == self.end(partition)
    }

    pub(crate) fn dead_letters(&self) -> Vec<Body> {
        self.state().dead_letters.clone()
    }

    /// Waits until the topic is as it is to be.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let mut changed = self.changed.subscribe();
        let waited = tokio::time::timeout(PATIENCE, async {
            while !holds(self) {
                changed.changed().await.expect("the topic is held");
            }
        });
        let in_time = waited.await.is_ok();
        assert!(in_time, "not in {PATIENCE:?}: {what}; {:?}", self.state());
    }
}

impl State {
    fn partition(&mut self, partition: u32) -> &mut Partition {
        &mut self.partitions[partition as usize]
    }
}

impl Partition {
    fn end(&self) -> u64 {
        self.records.len() as u64
    }

    fn append(&mut self, body: Body) -> u64 {
        let offset = self.end();
        let stamp = Stamp::Log(self.shown);
        self.records.push(Record {
            offset,
            stamp,
            body,
        });
        offset
    }

    /// R2, R12: neither the offset nor the effective time beside it ever goes back.
    fn commit(&mut self, frontier: Committed) {
        let Committed {
            next_offset,
            effective_time,
        } = self.committed;
        assert!(
            frontier.next_offset > next_offset && frontier.effective_time >= effective_time,
            "{frontier:?} was committed after {:?}",
            self.committed
        );
        assert!(frontier.next_offset <= self.end());
        self.committed = frontier;
    }
}

/// One life of the role.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    brokers: Brokers,
    number: u64,
}

impl Connection {
    fn is_cut(&self) -> bool {
        self.brokers.kills() > self.number
    }

    /// Resolves when the role is killed.
    pub(crate) async fn cut(&self) {
        let mut changed = self.brokers.changed.subscribe();
        while !self.is_cut() {
            changed.changed().await.expect("the topic is held");
        }
    }

    /// Goes on, unless the role is killed here or was before.
    async fn step(&self) {
        if !self.is_cut() {
            let mut state = self.brokers.state();
            state.steps += 1;
            let here = state.kill_at == Some(state.steps);
            drop(state);
            if here {
                self.brokers.kill();
            }
        }
        if self.is_cut() {
            future::pending::<()>().await;
        }
    }

    pub(crate) fn consumer(&self) -> Reader {
        Reader {
            connection: self.clone(),
            changed: self.brokers.changed.subscribe(),
            positions: BTreeMap::new(),
        }
    }
}

impl Producer for Connection {
    fn partitions(&self, _: Topic) -> u32 {
        1
    }

    /// Tells nobody where its records lie: nobody asks.
    async fn append(
        &self,
        topic: Topic,
        records: Vec<NewRecord>,
    ) -> Result<Vec<Appended>, LogError> {
        self.step().await;
        for NewRecord { partition, body } in records {
            let mut state = self.brokers.state();
            match topic {
                Topic::Events => {
                    state.partition(partition).append(body);
                }
                Topic::DeadLetters => state.dead_letters.push(body),
                Topic::Signals => {}
            }
        }
        self.brokers.changed.send_replace(());
        self.step().await;
        Ok(Vec::new())
    }
}

/// Reads all partitions from what was committed.
#[derive(Debug)]
pub(crate) struct Reader {
    connection: Connection,
    changed: watch::Receiver<()>,
    /// By partition; none before they are assigned.
    positions: BTreeMap<u32, Position>,
}

#[derive(Debug)]
struct Position {
    next_offset: u64,
    paused: bool,
    end_told: bool,
}

impl Reader {
    fn ready(&mut self) -> Option<Polled> {
        let mut state = self.connection.brokers.state();
        if self.positions.is_empty() {
            let assignments = (0..).zip(&state.partitions).map(|(partition, stored)| {
                let start = stored.committed;
                Assignment { partition, start }
            });
            let assignments: Vec<_> = assignments.collect();
            self.positions = assignments.iter().map(Position::of).collect();
            return Some(Polled::Assigned(assignments));
        }
        for (partition, position) in &mut self.positions {
            if position.paused {
                continue;
            }
            let partition = *partition;
            let unread = state.partition(partition).records.iter();
            let unread = unread.skip_while(|record| record.offset < position.next_offset);
            let records: Vec<_> = unread.take(RECORDS_AT_A_TIME).cloned().collect();
            if let Some(last) = records.last() {
                position.next_offset = last.offset + 1;
                position.end_told = false;
                return Some(Polled::Records { partition, records });
            }
            if !std::mem::replace(&mut position.end_told, true) {
                return Some(Polled::End { partition });
            }
        }
        None
    }

    fn position(&mut self, partition: u32) -> &mut Position {
        self.positions.get_mut(&partition).expect("it is assigned")
    }
}

impl Position {
    fn of(assignment: &Assignment) -> (u32, Self) {
        let position = Self {
            next_offset: assignment.start.next_offset,
            paused: false,
            end_told: false,
        };
        (assignment.partition, position)
    }
}

impl Consumer for Reader {
    async fn poll(&mut self) -> Result<Polled, LogError> {
        loop {
            self.changed.mark_unchanged();
            if let Some(polled) = self.ready() {
                self.connection.step().await;
                return Ok(polled);
            }
            self.changed.changed().await.expect("the topic is held");
        }
    }

    fn commit(
        &mut self,
        frontiers: Vec<(u32, Committed)>,
    ) -> BoxFuture<'static, Result<(), LogError>> {
        let connection = self.connection.clone();
        async move {
            connection.step().await;
            for (partition, frontier) in frontiers {
                let mut state = connection.brokers.state();
                state.partition(partition).commit(frontier);
            }
            connection.brokers.changed.send_replace(());
            connection.step().await;
            Ok(())
        }
        .boxed()
    }

    /// Nothing is ever revoked.
    fn release(&mut self, _: Vec<u32>) {}

    fn seek(&mut self, partition: u32, next_offset: u64) {
        self.position(partition).next_offset = next_offset;
        self.connection.brokers.state().partition(partition).stops += 1;
        self.connection.brokers.changed.send_replace(());
    }

    fn pause(&mut self, partition: u32) {
        self.position(partition).paused = true;
    }

    fn resume(&mut self, partition: u32) {
        self.position(partition).paused = false;
    }
}
