//! The consumer's side of the log: one member that owns every partition.

use super::{
    format::{body_bytes, topic_name},
    meta::FrontierKey,
    producer::EmbeddedProducer,
    tail::Found,
    topic::records_from,
};
use crate::ports::{Assignment, Committed, Consumer, LogError, Polled, Record, Topic};
use futures::{FutureExt, future::BoxFuture};
use std::{
    collections::{BTreeMap, VecDeque},
    fmt, future,
    sync::Arc,
};
use tokio::sync::watch;

/// A poll brings no more than this many records, and bytes of contents, roughly.
const POLL_RECORDS: usize = 4_096;
const POLL_BYTES: usize = 1 << 20;

/// Reads a topic of the embedded log.
pub struct EmbeddedConsumer {
    log: EmbeddedProducer,
    topic: Topic,
    group: Arc<str>,
    appended: watch::Receiver<()>,
    /// Empty until the partitions are assigned.
    partitions: Vec<Position>,
    /// The partition that comes first in the next poll.
    turn: usize,
}

#[derive(Debug)]
struct Position {
    next_offset: u64,
    /// Read from disk, and not yet brought.
    fetched: VecDeque<Record>,
    paused: bool,
    end_told: bool,
}

impl fmt::Debug for EmbeddedConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedConsumer")
            .field("topic", &self.topic)
            .field("group", &self.group)
            .field("partitions", &self.partitions)
            .finish_non_exhaustive()
    }
}

impl EmbeddedConsumer {
    pub(super) fn new(log: EmbeddedProducer, topic: Topic, group: &str) -> Self {
        let appended = log.store.topic(topic).appended.subscribe();
        let group = group.into();
        Self {
            log,
            topic,
            group,
            appended,
            partitions: Vec::new(),
            turn: 0,
        }
    }

    fn assign(&mut self) -> Polled {
        let committed = self.log.store.committed(self.topic, &self.group);
        let position = |start: &Committed| Position {
            next_offset: start.next_offset,
            fetched: VecDeque::new(),
            paused: false,
            end_told: false,
        };
        self.partitions = committed.iter().map(position).collect();
        let assigned = (0..).zip(committed);
        Polled::Assigned(
            assigned
                .map(|(partition, start)| Assignment { partition, start })
                .collect(),
        )
    }

    /// The next records of a partition; none at its end.
    async fn next_records(&mut self, at: usize) -> Result<Vec<Record>, LogError> {
        if self.partitions[at].fetched.is_empty() {
            let offset = self.partitions[at].next_offset;
            match self.log.store.topic(self.topic).tails[at].find(offset) {
                Found::AtEnd => return Ok(Vec::new()),
                Found::Here(batch) => {
                    let records = poll_full(&mut records_from(&batch, offset));
                    return Ok(self.advance(at, records));
                }
                Found::OnDisk { end } => {
                    let records = self.read(at, offset, end).await?;
                    self.partitions[at].fetched = records.into();
                }
                Found::Beyond { end } => {
                    return Err(LogError::Damaged(format!(
                        "offset {offset} of {} partition {at} is asked for, but it ends at {end}",
                        topic_name(self.topic)
                    )));
                }
            }
        }
        let fetched = &mut self.partitions[at].fetched;
        let records = poll_full(&mut std::iter::from_fn(|| fetched.pop_front()));
        Ok(self.advance(at, records))
    }

    async fn read(&self, at: usize, offset: u64, end: u64) -> Result<Vec<Record>, LogError> {
        let (store, topic) = (Arc::clone(&self.log.store), self.topic);
        let partition = u32::try_from(at).expect("partitions are counted in 32 bits");
        let read = move || store.topic(topic).read(partition, offset, end, POLL_BYTES);
        let read = tokio::task::spawn_blocking(read).await;
        read.unwrap_or_else(|error| Err(LogError::Unavailable(format!("a read ended: {error}"))))
    }

    fn advance(&mut self, at: usize, records: Vec<Record>) -> Vec<Record> {
        let position = &mut self.partitions[at];
        let last = records.last().expect("what is not at its end has records");
        assert_eq!(
            records[0].offset, position.next_offset,
            "records are read in order"
        );
        position.next_offset = last.offset + 1;
        position.end_told = false;
        records
    }
}

/// As many records as one poll brings.
fn poll_full(from: &mut dyn Iterator<Item = Record>) -> Vec<Record> {
    let mut records = Vec::new();
    let mut bytes = 0;
    while records.len() < POLL_RECORDS && bytes < POLL_BYTES {
        let Some(record) = from.next() else { break };
        bytes += body_bytes(&record.body);
        records.push(record);
    }
    records
}

impl Consumer for EmbeddedConsumer {
    async fn poll(&mut self) -> Result<Polled, LogError> {
        if self.partitions.is_empty() {
            return Ok(self.assign());
        }
        loop {
            self.appended.mark_unchanged();
            let count = self.partitions.len();
            for at in (self.turn..count).chain(0..self.turn) {
                if self.partitions[at].paused {
                    continue;
                }
                let records = self.next_records(at).await?;
                let partition = u32::try_from(at).expect("partitions are counted in 32 bits");
                if !records.is_empty() {
                    self.turn = (at + 1) % count;
                    return Ok(Polled::Records { partition, records });
                }
                if !std::mem::replace(&mut self.partitions[at].end_told, true) {
                    self.turn = (at + 1) % count;
                    return Ok(Polled::End { partition });
                }
            }
            self.appended
                .changed()
                .await
                .map_err(|_| super::writer::closed())?;
        }
    }

    fn commit(
        &mut self,
        frontiers: Vec<(u32, Committed)>,
    ) -> BoxFuture<'static, Result<(), LogError>> {
        let count = self.log.store.topic(self.topic).tails.len();
        let known = frontiers
            .iter()
            .all(|(partition, _)| (*partition as usize) < count);
        assert!(
            known,
            "{frontiers:?} has a partition that {:?} has not",
            self.topic
        );
        let keyed = frontiers.into_iter().map(|(partition, frontier)| {
            (
                FrontierKey::new(self.topic, partition, &self.group),
                frontier,
            )
        });
        let (log, keyed) = (self.log.clone(), keyed.collect());
        async move { log.commit(keyed).await }.boxed()
    }

    /// Nothing is ever revoked.
    fn release(&mut self, _: Vec<u32>) {}

    fn seek(&mut self, partition: u32, next_offset: u64) {
        let position = &mut self.partitions[partition as usize];
        position.next_offset = next_offset;
        position.fetched.clear();
        position.end_told = false;
    }

    fn pause(&mut self, partition: u32) {
        self.partitions[partition as usize].paused = true;
    }

    fn resume(&mut self, partition: u32) {
        self.partitions[partition as usize].paused = false;
    }

    fn ends(&self) -> BoxFuture<'static, BTreeMap<u32, u64>> {
        let ends = self.log.store.topic(self.topic).ends();
        future::ready((0..).zip(ends).collect()).boxed()
    }
}
