//! One topic on disk: its segments, each a keyspace of its own, so that dropping one drops its
//! files at once and leaves no tombstones.

use super::{
    format::{Batch, batch_key, decode_batch, topic_name},
    tail::Tail,
};
use crate::ports::{LogError, Record, Stamp, Topic};
use bytes::Bytes;
use fjall::{Guard, Keyspace};
use std::{
    collections::VecDeque,
    sync::{PoisonError, RwLock},
};
use tokio::sync::watch;

/// The consumer group whose committed frontiers allow to drop a topic's segments; `None` when
/// they are kept.
pub(super) const fn trimming_group(topic: Topic) -> Option<&'static str> {
    match topic {
        Topic::Events => Some("ingest"),
        Topic::Signals => Some("rollup"),
        Topic::DeadLetters => None,
    }
}

/// A part of a topic.
#[derive(Clone)]
pub(super) struct Segment {
    pub(super) number: u64,
    /// The first offset of each partition.
    pub(super) starts: Vec<u64>,
    pub(super) keyspace: Keyspace,
}

/// One topic. Only the writer changes it.
pub(super) struct TopicLog {
    pub(super) topic: Topic,
    pub(super) tails: Vec<Tail>,
    /// Oldest first; never empty.
    segments: RwLock<VecDeque<Segment>>,
    /// Told after each group that appended to the topic.
    pub(super) appended: watch::Sender<()>,
}

/// The name of a segment's keyspace.
pub(super) fn segment_name(topic: Topic, number: u64) -> String {
    format!("{}-{number:016}", topic_name(topic))
}

impl TopicLog {
    pub(super) fn new(topic: Topic, segments: VecDeque<Segment>, tails: Vec<Tail>) -> Self {
        assert!(!segments.is_empty(), "a topic has a segment");
        Self {
            topic,
            tails,
            segments: RwLock::new(segments),
            appended: watch::Sender::new(()),
        }
    }

    /// The end of each partition.
    pub(super) fn ends(&self) -> Vec<u64> {
        self.tails.iter().map(Tail::end).collect()
    }

    /// All segments, oldest first.
    pub(super) fn segments(&self) -> VecDeque<Segment> {
        self.segments
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The segment that is appended to.
    pub(super) fn newest(&self) -> Segment {
        let segments = self.segments.read().unwrap_or_else(PoisonError::into_inner);
        segments.back().expect("a topic has a segment").clone()
    }

    /// The oldest segment and the offsets where it ends, unless it is still appended to.
    pub(super) fn oldest_sealed(&self) -> Option<(Segment, Vec<u64>)> {
        let segments = self.segments.read().unwrap_or_else(PoisonError::into_inner);
        Some((segments.front()?.clone(), segments.get(1)?.starts.clone()))
    }

    /// The segment that holds an offset of a partition, if it was not dropped.
    fn segment_of(&self, partition: usize, offset: u64) -> Result<Keyspace, LogError> {
        let segments = self.segments.read().unwrap_or_else(PoisonError::into_inner);
        let after = segments.partition_point(|segment| segment.starts[partition] <= offset);
        let Some(at) = after.checked_sub(1) else {
            return Err(LogError::Damaged(format!(
                "offset {offset} of {} partition {partition} is asked for, but the log begins at \
                 {}: what lay before was finished and dropped",
                topic_name(self.topic),
                segments[0].starts[partition]
            )));
        };
        Ok(segments[at].keyspace.clone())
    }

    /// Appends to this segment from now on.
    pub(super) fn push_segment(&self, segment: Segment) {
        self.segments
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(segment);
    }

    /// Forgets the oldest segment.
    pub(super) fn pop_segment(&self) {
        self.segments
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front();
    }

    /// Reads records of a partition from `offset` to at most `end`, about `bytes` of memory full
    /// of them, and at least one.
    pub(super) fn read(
        &self,
        partition: u32,
        offset: u64,
        end: u64,
        bytes: usize,
    ) -> Result<Vec<Record>, LogError> {
        let segment = self.segment_of(partition as usize, offset)?;
        let mut records = Vec::new();
        let (mut next, mut read) = (offset, 0);
        for entry in batches_from(&segment, partition, offset)? {
            let (key, value) = entry.into_inner().map_err(damaged)?;
            let batch = decode_batch(&key, Bytes::copy_from_slice(&value))?;
            // Small records take more memory than the bytes that they hold.
            read += value.len() + batch.bodies.len() * size_of::<Record>();
            if batch.base > next || batch.end() <= next {
                break;
            }
            next = batch.end();
            records.extend(records_from(&batch, offset));
            if read >= bytes || next >= end {
                break;
            }
        }
        // A group that is being written may already be readable, but it is not yet durable.
        let visible = records.partition_point(|record| record.offset < end);
        records.truncate(visible);
        if records.is_empty() {
            return Err(LogError::Damaged(format!(
                "offset {offset} of {} partition {partition} is missing",
                topic_name(self.topic)
            )));
        }
        Ok(records)
    }
}

/// A batch's records from an offset on.
pub(super) fn records_from(batch: &Batch, offset: u64) -> impl Iterator<Item = Record> {
    let skip = usize::try_from(offset.saturating_sub(batch.base)).unwrap_or(usize::MAX);
    let first = batch.base.max(offset);
    let bodies = batch.bodies.iter().skip(skip);
    bodies.zip(first..).map(|(body, offset)| Record {
        offset,
        stamp: Stamp::Log(batch.append_time),
        body: body.clone(),
    })
}

/// The newest batch of a partition in a segment.
pub(super) fn newest_batch(segment: &Keyspace, partition: u32) -> Result<Option<Batch>, LogError> {
    let range = batch_key(partition, 0)..=batch_key(partition, u64::MAX);
    let Some(newest) = segment.range(range).next_back() else {
        return Ok(None);
    };
    let (key, value) = newest.into_inner().map_err(damaged)?;
    decode_batch(&key, Bytes::copy_from_slice(&value)).map(Some)
}

/// A partition's batches in a segment, from the one that holds `offset`.
fn batches_from(
    segment: &Keyspace,
    partition: u32,
    offset: u64,
) -> Result<impl Iterator<Item = Guard>, LogError> {
    let until = batch_key(partition, 0)..=batch_key(partition, offset);
    let first = match segment.range(until).next_back() {
        Some(entry) => entry.key().map_err(damaged)?.to_vec(),
        None => batch_key(partition, offset).to_vec(),
    };
    Ok(segment.range(first..=batch_key(partition, u64::MAX).to_vec()))
}

/// What could not be read counts as damaged: the engine found its own checksums broken.
#[expect(clippy::needless_pass_by_value, reason = "it is given to map_err")]
pub(super) fn damaged(error: fjall::Error) -> LogError {
    LogError::Damaged(format!("the log cannot be read: {error}"))
}
