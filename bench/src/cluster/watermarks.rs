//! How far the events topic is decided and durable, as the watermarks topic tells.

use super::{installation::Installation, publish::PARTITIONS};
use crate::http::Failure;
use quipu_schemas::watermark;
use rdkafka::{
    ClientConfig, Message, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
    metadata::MetadataTopic,
};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Without a new watermark for this long, something is broken.
const PATIENCE: Duration = Duration::from_mins(2);

/// Follows the watermarks topic from its beginning.
pub(super) struct Watermarks(BaseConsumer);

impl Watermarks {
    pub(super) fn follow(installation: &Installation<'_>) -> Result<Self, Failure> {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", &installation.stack.kafka)
            .set("group.id", installation.topic("bench"))
            .set("enable.auto.commit", "false")
            .create()?;
        let topic = installation.topic("watermarks");
        let metadata = consumer.fetch_metadata(Some(&topic), PATIENCE)?;
        let partitions = metadata.topics().iter().flat_map(MetadataTopic::partitions);
        let mut list = TopicPartitionList::new();
        for partition in partitions {
            list.add_partition_offset(&topic, partition.id(), Offset::Beginning)?;
        }
        consumer.assign(&list)?;
        Ok(Self(consumer))
    }

    /// Returns once all events that the log has now are decided.
    pub(super) fn wait_for_all(&self, installation: &Installation<'_>) -> Result<(), Failure> {
        let topic = installation.topic("events");
        let mut ends = BTreeMap::new();
        for id in 0..PARTITIONS {
            let (_, end) = self
                .0
                .fetch_watermarks(&topic, i32::try_from(id)?, PATIENCE)?;
            ends.insert(id, u64::try_from(end)?);
        }
        self.wait_until(&ends)
    }

    /// Returns once every partition is decided up to its end.
    pub(super) fn wait_until(&self, ends: &BTreeMap<u32, u64>) -> Result<(), Failure> {
        let mut left = ends.clone();
        let mut moved = Instant::now();
        while !left.is_empty() {
            let Some(polled) = self.0.poll(Duration::from_millis(100)) else {
                if moved.elapsed() > PATIENCE {
                    return Err(format!("no watermark covers {left:?} (partition: end)").into());
                }
                continue;
            };
            moved = Instant::now();
            let message = polled?;
            let Some(value) = message.payload() else {
                continue;
            };
            let watermark = watermark::decode(value)?;
            left.retain(|id, end| *id != watermark.partition || watermark.next_offset < *end);
        }
        Ok(())
    }
}
