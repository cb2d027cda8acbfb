//! The one thread that writes the log. It takes everything that waits, gives it one time, writes
//! it in one atomic step and syncs once: the more callers at the same time, the less each costs.

use super::{
    clock::LogClock,
    format::{Batch, TOPICS, batch_key, encode_batch, topic_number},
    group::Group,
    meta::{SegmentStart, segment_key},
    request::{MakeChange, Request},
    store::{Store, segment_options},
    topic::{Segment, segment_name, trimming_group},
};
use crate::ports::{LogError, Topic};
use fjall::{OwnedWriteBatch, PersistMode};
use quipu_core::time::Micros;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedReceiver;

/// A group takes no more requests once it has this many bytes.
const GROUP_BYTES: usize = 1 << 20;

/// What a batch takes in memory besides its key and value, roughly. An idle log holds nothing but ticks.
const BATCH_OVERHEAD: u64 = 64;

/// The writer's own state.
pub(super) struct Writer {
    store: Arc<Store>,
    clock: LogClock,
    segment_bytes: u64,
    /// How full each topic's newest segment is.
    filled: [u64; 3],
    /// Entries of segments that were dropped.
    unlisted: Vec<[u8; 10]>,
    /// A write that failed. What it left on disk is known only after a restart.
    failed: Option<LogError>,
}

impl Writer {
    pub(super) fn new(store: Arc<Store>, clock: LogClock, segment_bytes: u64) -> Self {
        let filled = TOPICS.map(|topic| {
            let topic = store.topic(topic);
            if topic.newest().starts == topic.ends() {
                0
            } else {
                segment_bytes
            }
        });
        Self {
            store,
            clock,
            segment_bytes,
            filled,
            unlisted: Vec::new(),
            failed: None,
        }
    }

    /// Serves requests until it is told to close, or nobody can ask any more.
    pub(super) fn run(mut self, mut requests: UnboundedReceiver<Request>) {
        while let Some(first) = requests.blocking_recv() {
            let mut group = Group::new(&self.store);
            let mut next = Some(first);
            // What must not share a group with what comes after it.
            let last = loop {
                match next {
                    Some(Request::Append(append)) => group.append(append),
                    Some(Request::Commit(frontiers, answer)) => {
                        group.commit(&self.store, frontiers, answer);
                    }
                    other => break other,
                }
                if group.bytes() >= GROUP_BYTES {
                    break None;
                }
                next = requests.try_recv().ok();
            };
            self.write(group);
            match last {
                Some(Request::Change(make, answer)) => {
                    answer.send(self.change(make)).ok();
                }
                Some(Request::Close) => break,
                _ => {}
            }
        }
        if let Err(error) = self.store.db.persist(PersistMode::SyncAll) {
            tracing::error!(%error, "the log could not be synced at the end");
        }
    }

    fn write(&mut self, mut group: Group) {
        if let Some(failed) = &self.failed {
            return group.fail(failed);
        }
        let mut stamp = None;
        if group.appends() {
            match self.clock.stamp() {
                Ok(now) => stamp = Some(now),
                Err(jumped) => group.refuse_appends(&jumped.into()),
            }
        }
        match self.write_durably(&mut group, stamp) {
            Ok(written) => {
                self.publish(&group, written);
                group.succeed(stamp.unwrap_or(Micros::MIN));
                if stamp.is_some() {
                    self.trim();
                }
            }
            Err(error) => group.fail(&self.fail(&error)),
        }
    }

    fn write_durably(
        &mut self,
        group: &mut Group,
        stamp: Option<Micros>,
    ) -> Result<Vec<(Topic, u32, Batch)>, fjall::Error> {
        // Commits alone wait for the sync of the next group; they survive a crash of the process.
        let mode = if stamp.is_some() {
            PersistMode::SyncData
        } else {
            PersistMode::Buffer
        };
        let mut to = self.store.db.batch().durability(Some(mode));
        for (key, frontier) in group.frontiers() {
            self.store.stage_frontier(&mut to, key, *frontier);
        }
        for key in self.unlisted.drain(..) {
            to.remove(&self.store.meta, key);
        }
        let mut written = Vec::new();
        for topic in stamp.map_or(&[][..], |_| &TOPICS) {
            let append_time = stamp.expect("topics are written only with a time");
            let placed = group.take_bodies(*topic);
            if placed.is_empty() {
                continue;
            }
            // Before any record of the group: a segment starts at the ends that are published.
            self.roll_when_full(&mut to, *topic, append_time)?;
            let segment = self.store.topic(*topic).newest().keyspace;
            for (partition, base, bodies) in placed {
                let value = encode_batch(append_time, &bodies);
                let filled = &mut self.filled[usize::from(topic_number(*topic))];
                *filled += value.len() as u64 + BATCH_OVERHEAD;
                to.insert(&segment, batch_key(partition, base), value);
                let batch = Batch {
                    base,
                    append_time,
                    bodies,
                };
                written.push((*topic, partition, batch));
            }
        }
        to.commit()?;
        Ok(written)
    }

    /// Shows consumers what is durable now.
    fn publish(&self, group: &Group, written: Vec<(Topic, u32, Batch)>) {
        let frontiers = group.frontiers().iter().map(|(key, at)| (key.clone(), *at));
        self.store.frontiers().extend(frontiers);
        let mut touched: Vec<Topic> = written.iter().map(|(topic, ..)| *topic).collect();
        touched.dedup();
        for (topic, partition, batch) in written {
            self.store.topic(topic).tails[partition as usize].publish(batch);
        }
        for topic in touched {
            self.store.topic(topic).appended.send_replace(());
        }
    }

    /// Starts a new segment of a topic when the newest one is full.
    fn roll_when_full(
        &mut self,
        to: &mut OwnedWriteBatch,
        topic: Topic,
        now: Micros,
    ) -> Result<(), fjall::Error> {
        let filled = &mut self.filled[usize::from(topic_number(topic))];
        if trimming_group(topic).is_none() || *filled < self.segment_bytes {
            return Ok(());
        }
        *filled = 0;
        let log = self.store.topic(topic);
        let segments = log.segments();
        // The last sealed segment may stay in memory: most likely it is about to be dropped.
        if let Some(lagging) = segments.len().checked_sub(2) {
            segments[lagging].keyspace.rotate_memtable()?;
        }
        // The engine reviews its journals only when it flushes something.
        self.store.meta.rotate_memtable()?;
        let number = segments[segments.len() - 1].number + 1;
        let name = segment_name(topic, number);
        let keyspace = self.store.db.keyspace(&name, || segment_options(topic))?;
        let start = SegmentStart {
            clock: now,
            offsets: log.ends(),
        };
        to.insert(&self.store.meta, segment_key(topic, number), start.encode());
        log.push_segment(Segment {
            number,
            starts: start.offsets,
            keyspace,
        });
        Ok(())
    }

    /// Drops segments that are finished. Every frontier that is known here has been synced.
    fn trim(&mut self) {
        for topic in TOPICS {
            let Some(group) = trimming_group(topic) else {
                continue;
            };
            let log = self.store.topic(topic);
            while let Some((oldest, ends)) = log.oldest_sealed() {
                let committed = self.store.committed(topic, &group.into());
                let mut passed = committed.iter().zip(&ends);
                if !passed.all(|(frontier, end)| frontier.next_offset >= *end) {
                    break;
                }
                if let Err(error) = self.store.db.delete_keyspace(oldest.keyspace) {
                    tracing::warn!(%error, "a finished segment could not be dropped yet");
                    break;
                }
                log.pop_segment();
                self.unlisted.push(segment_key(topic, oldest.number));
            }
        }
    }

    fn change(&mut self, make: MakeChange) -> Result<(), LogError> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        let effective = self.clock.stamp_change()?;
        let Some(change) = make(effective) else {
            return Ok(());
        };
        let mut to = self
            .store
            .db
            .batch()
            .durability(Some(PersistMode::SyncData));
        to.insert(&self.store.control, change.key, change.value);
        to.commit().map_err(|error| self.fail(&error))?;
        (change.install)();
        Ok(())
    }

    /// Remembers a failed write, and says what those are told that waited for it.
    fn fail(&mut self, error: &fjall::Error) -> LogError {
        tracing::error!(%error, "the log stopped: a write failed");
        self.failed = Some(LogError::Damaged(format!(
            "an earlier write failed ({error}); nothing more is written until the server is \
             restarted, with space on its disk"
        )));
        LogError::Unavailable(format!("a write failed: {error}"))
    }
}

/// The writer's thread has ended.
pub(super) fn closed() -> LogError {
    LogError::Unavailable("the log is closing".to_owned())
}
