//! What the log keeps besides records: its parameters, where segments begin, and committed
//! frontiers. A persistent format, in one keyspace, told apart by the first byte of the key.

use super::format::topic_number;
use crate::ports::{Committed, Topic};
use bytes::{Buf, BufMut};
use quipu_core::time::Micros;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

const VERSION: u8 = 1;

/// The key of [`Parameters`].
pub(super) const PARAMETERS: &[u8] = b"p";
const SEGMENT: u8 = b's';
/// The prefix of all frontiers.
pub(super) const FRONTIERS: &[u8] = b"f";

/// What was settled when the directory was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Parameters {
    /// How many partitions each topic has, by the topic's number.
    pub(super) partitions: [u32; 3],
    /// The initial effective time of all of them, in microseconds since the Unix epoch.
    pub(super) initial_micros: i64,
}

/// Where a segment of a topic begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SegmentStart {
    /// No append time in earlier segments is later than this.
    pub(super) clock: Micros,
    /// The first offset of each partition.
    pub(super) offsets: Vec<u64>,
}

/// Whose frontier of what.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FrontierKey {
    /// The topic, by its number.
    pub(super) topic: u8,
    /// The partition.
    pub(super) partition: u32,
    /// The consumer group.
    pub(super) group: Arc<str>,
}

impl FrontierKey {
    pub(super) fn new(topic: Topic, partition: u32, group: &Arc<str>) -> Self {
        Self {
            topic: topic_number(topic),
            partition,
            group: Arc::clone(group),
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let partition = self.partition.to_be_bytes();
        [FRONTIERS, &[self.topic], &partition, self.group.as_bytes()].concat()
    }

    pub(super) fn decode(key: &[u8]) -> Option<Self> {
        let rest = key.strip_prefix(FRONTIERS)?;
        let (topic, rest) = rest.split_first()?;
        let (partition, group) = rest.split_first_chunk()?;
        let group = std::str::from_utf8(group).ok()?.into();
        Some(Self {
            topic: *topic,
            partition: u32::from_be_bytes(*partition),
            group,
        })
    }
}

/// The prefix of a topic's segments.
pub(super) fn segment_prefix(topic: Topic) -> [u8; 2] {
    [SEGMENT, topic_number(topic)]
}

/// The key of a segment's start.
pub(super) fn segment_key(topic: Topic, number: u64) -> [u8; 10] {
    let mut key = [0; 10];
    key[..2].copy_from_slice(&segment_prefix(topic));
    key[2..].copy_from_slice(&number.to_be_bytes());
    key
}

/// The number in the key of a segment's start.
pub(super) fn segment_number(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.get(2..10)?.try_into().ok()?))
}

impl SegmentStart {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut to = Vec::with_capacity(9 + self.offsets.len() * 8);
        to.put_u8(VERSION);
        to.put_i64_le(self.clock.get());
        self.offsets
            .iter()
            .for_each(|offset| to.put_u64_le(*offset));
        to
    }

    pub(super) fn decode(mut value: &[u8]) -> Option<Self> {
        if value.try_get_u8().ok()? != VERSION {
            return None;
        }
        let clock = Micros::new(value.try_get_i64_le().ok()?);
        let (offsets, []) = value.as_chunks() else {
            return None;
        };
        let offsets = offsets
            .iter()
            .map(|offset| u64::from_le_bytes(*offset))
            .collect();
        Some(Self { clock, offsets })
    }
}

/// The value of a frontier.
pub(super) fn encode_frontier(frontier: Committed) -> Vec<u8> {
    let mut to = Vec::with_capacity(17);
    to.put_u8(VERSION);
    to.put_u64_le(frontier.next_offset);
    to.put_i64_le(frontier.effective_time.get());
    to
}

/// Reads a frontier back.
pub(super) fn decode_frontier(mut value: &[u8]) -> Option<Committed> {
    if value.try_get_u8().ok()? != VERSION {
        return None;
    }
    let next_offset = value.try_get_u64_le().ok()?;
    let effective_time = Micros::new(value.try_get_i64_le().ok()?);
    value.is_empty().then_some(Committed {
        next_offset,
        effective_time,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_back_and_cut_values_are_not() {
        let start = SegmentStart {
            clock: Micros::new(-3),
            offsets: vec![1, u64::MAX],
        };
        assert_eq!(SegmentStart::decode(&start.encode()), Some(start.clone()));
        assert_eq!(SegmentStart::decode(&start.encode()[..20]), None);
        let frontier = Committed {
            next_offset: 7,
            effective_time: Micros::new(9),
        };
        let value = encode_frontier(frontier);
        assert_eq!(value, [1, 7, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(decode_frontier(&value), Some(frontier));
        assert_eq!(decode_frontier(&value[..16]), None);
        let key = FrontierKey::new(Topic::Signals, 258, &"g".into());
        assert_eq!(key.encode(), [b'f', 1, 0, 0, 1, 2, b'g']);
        assert_eq!(FrontierKey::decode(&key.encode()), Some(key));
        assert_eq!(segment_number(&segment_key(Topic::Events, 5)), Some(5));
    }
}
