//! A log in memory: three topics of partitions, appended to by anybody, each read by one consumer.
//!
//! Fault model: a consumer can die (drop it) and another start from what was committed. The clock
//! that it is given can step: append times are its running maximum, as of the embedded log. An
//! append is durable and seen at once; it never fails, never repeats, leaves no gaps. It knows no
//! groups, so it shows no rebalance: the newest consumer of a topic is the owner, and one that was
//! replaced reads on but its commits change nothing.

use super::lock;
use crate::{
    clock::Clock,
    ports::{
        Appended, Assignment, Committed, Consumer, LogError, NewRecord, Polled, Producer, Record,
        Stamp, Topic,
    },
};
use futures::{FutureExt, future::BoxFuture};
use quipu_core::time::Micros;
use std::{
    collections::{BTreeMap, HashMap},
    future,
    sync::{Arc, Mutex},
};
use tokio::sync::watch;

/// A poll brings at most this many records.
const RECORDS_AT_A_TIME: usize = 500;

/// A log for tests. Clones are one log.
#[derive(Clone, Debug)]
pub struct MemoryLog {
    clock: Clock,
    partitions: u32,
    state: Arc<Mutex<State>>,
    /// Ticks at every append.
    appended: watch::Sender<u64>,
}

#[derive(Debug)]
struct State {
    partitions: HashMap<(Topic, u32), Partition>,
    owners: HashMap<Topic, u64>,
}

#[derive(Debug)]
struct Partition {
    records: Vec<Record>,
    newest: Micros,
    committed: Committed,
}

impl MemoryLog {
    /// An empty log, each of whose topics has this many partitions. Their initial effective time
    /// is the clock's time now.
    pub fn new(clock: Clock, partitions: u32) -> Self {
        let now = clock.now();
        let partition = || Partition {
            records: Vec::new(),
            newest: now,
            committed: Committed {
                next_offset: 0,
                effective_time: now,
            },
        };
        let topics = [Topic::Events, Topic::Signals, Topic::DeadLetters];
        let all = topics
            .iter()
            .flat_map(|topic| (0..partitions).map(|p| ((*topic, p), partition())));
        let state = State {
            partitions: all.collect(),
            owners: HashMap::new(),
        };
        let state = Arc::new(Mutex::new(state));
        Self {
            clock,
            partitions,
            state,
            appended: watch::Sender::new(0),
        }
    }

    /// Reads a topic from what was committed, and takes it over from the consumer before.
    pub fn consumer(&self, topic: Topic) -> MemoryConsumer {
        let mut state = lock(&self.state);
        let owner = state.owners.entry(topic).or_insert(0);
        *owner += 1;
        let owner = *owner;
        let reader = |partition| Reader {
            partition,
            next_offset: state.partition(topic, partition).committed.next_offset,
            paused: false,
            end_told: false,
        };
        let readers = (0..self.partitions).map(reader).collect();
        let appended = self.appended.subscribe();
        let log = self.clone();
        MemoryConsumer {
            log,
            topic,
            owner,
            readers,
            assigned: false,
            appended,
        }
    }

    /// A group's frontier in each partition of a topic.
    pub fn committed(&self, topic: Topic) -> Vec<Committed> {
        let state = lock(&self.state);
        (0..self.partitions)
            .map(|partition| state.partition(topic, partition).committed)
            .collect()
    }
}

impl State {
    fn partition(&self, topic: Topic, partition: u32) -> &Partition {
        &self.partitions[&(topic, partition)]
    }
}

impl Producer for MemoryLog {
    fn partitions(&self, _: Topic) -> u32 {
        self.partitions
    }

    async fn append(
        &self,
        topic: Topic,
        records: Vec<NewRecord>,
    ) -> Result<Vec<Appended>, LogError> {
        let mut state = lock(&self.state);
        let mut appended = Vec::with_capacity(records.len());
        for record in records {
            let partition = state.partitions.get_mut(&(topic, record.partition));
            let partition = partition.expect("a record goes to a partition of its topic");
            partition.newest = partition.newest.max(self.clock.now());
            let offset = u64::try_from(partition.records.len()).expect("a length fits 64 bits");
            let stamp = Stamp::Log(partition.newest);
            partition.records.push(Record {
                offset,
                stamp,
                body: record.body,
            });
            appended.push(Appended {
                partition: record.partition,
                offset,
                append_time: partition.newest,
            });
        }
        self.appended.send_modify(|count| *count += 1);
        Ok(appended)
    }
}

/// Reads a topic of a [`MemoryLog`].
#[derive(Debug)]
pub struct MemoryConsumer {
    log: MemoryLog,
    topic: Topic,
    owner: u64,
    /// By partition; the first in line is polled first.
    readers: Vec<Reader>,
    assigned: bool,
    appended: watch::Receiver<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Reader {
    partition: u32,
    next_offset: u64,
    paused: bool,
    end_told: bool,
}

impl MemoryConsumer {
    fn assign(&mut self) -> Polled {
        self.assigned = true;
        let state = lock(&self.log.state);
        let assignment = |reader: &Reader| Assignment {
            partition: reader.partition,
            start: state.partition(self.topic, reader.partition).committed,
        };
        Polled::Assigned(self.readers.iter().map(assignment).collect())
    }

    fn ready(&mut self) -> Option<Polled> {
        let state = lock(&self.log.state);
        for at in 0..self.readers.len() {
            let Reader {
                partition,
                next_offset,
                paused,
                end_told,
            } = self.readers[at];
            if paused {
                continue;
            }
            let stored = &state.partition(self.topic, partition).records;
            let from = usize::try_from(next_offset).expect("an offset is an index");
            let records: Vec<_> = stored
                .iter()
                .skip(from)
                .take(RECORDS_AT_A_TIME)
                .cloned()
                .collect();
            if let Some(last) = records.last() {
                let next_offset = last.offset + 1;
                // Everybody else comes first next time.
                self.readers.remove(at);
                self.readers.push(Reader {
                    partition,
                    next_offset,
                    paused,
                    end_told: false,
                });
                return Some(Polled::Records { partition, records });
            }
            if !end_told {
                self.readers[at].end_told = true;
                return Some(Polled::End { partition });
            }
        }
        None
    }

    fn reader(&mut self, partition: u32) -> &mut Reader {
        let reader = self
            .readers
            .iter_mut()
            .find(|reader| reader.partition == partition);
        reader.expect("only partitions of the topic are read")
    }
}

impl Consumer for MemoryConsumer {
    async fn poll(&mut self) -> Result<Polled, LogError> {
        if !self.assigned {
            return Ok(self.assign());
        }
        loop {
            self.appended.mark_unchanged();
            if let Some(polled) = self.ready() {
                return Ok(polled);
            }
            // Cannot fail: this consumer holds the log, and with it the sender.
            self.appended.changed().await.ok();
        }
    }

    fn commit(
        &mut self,
        frontiers: Vec<(u32, Committed)>,
    ) -> BoxFuture<'static, Result<(), LogError>> {
        let (log, topic, owner) = (self.log.clone(), self.topic, self.owner);
        let commit = async move {
            let mut state = lock(&log.state);
            if state.owners.get(&topic) != Some(&owner) {
                return Ok(());
            }
            for (partition, committed) in frontiers {
                let stored = state.partitions.get_mut(&(topic, partition));
                stored
                    .expect("only partitions of the topic are committed")
                    .committed = committed;
            }
            Ok(())
        };
        commit.boxed()
    }

    /// Nothing is ever revoked.
    fn release(&mut self, _: Vec<u32>) {}

    fn seek(&mut self, partition: u32, next_offset: u64) {
        let reader = self.reader(partition);
        reader.next_offset = next_offset;
        reader.end_told = false;
    }

    fn pause(&mut self, partition: u32) {
        self.reader(partition).paused = true;
    }

    fn resume(&mut self, partition: u32) {
        self.reader(partition).paused = false;
    }

    fn ends(&self) -> BoxFuture<'static, BTreeMap<u32, u64>> {
        let state = lock(&self.log.state);
        let end = |reader: &Reader| {
            let records = &state.partition(self.topic, reader.partition).records;
            let end = u64::try_from(records.len()).expect("a length fits 64 bits");
            (reader.partition, end)
        };
        future::ready(self.readers.iter().map(end).collect()).boxed()
    }
}
