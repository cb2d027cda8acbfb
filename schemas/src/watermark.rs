//! `quipu.v1.Watermark`: how far a partition is decided, as the watermarks topic carries it.

use crate::v1;
use prost::Message;
use quipu_core::time::Micros;

/// How far a partition of a topic is decided, and what was decided is durable (R12).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionWatermark {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: u32,
    /// The first offset that is not decided.
    pub next_offset: u64,
    /// Every record with an effective time below this is decided.
    pub effective_time: Micros,
}

/// Encodes a watermark for the watermarks topic.
pub fn encode(watermark: &PartitionWatermark) -> Vec<u8> {
    v1::Watermark {
        topic: watermark.topic.clone(),
        partition: watermark.partition,
        next_offset: watermark.next_offset,
        effective_micros: watermark.effective_time.get(),
    }
    .encode_to_vec()
}

/// Decodes a value of the watermarks topic.
pub fn decode(value: &[u8]) -> Result<PartitionWatermark, prost::DecodeError> {
    let watermark = v1::Watermark::decode(value)?;
    Ok(PartitionWatermark {
        topic: watermark.topic,
        partition: watermark.partition,
        next_offset: watermark.next_offset,
        effective_time: Micros::new(watermark.effective_micros),
    })
}
