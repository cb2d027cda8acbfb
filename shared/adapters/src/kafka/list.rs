//! Lists of partitions of one topic, as librdkafka takes and gives them.

use rdkafka::{Offset, TopicPartitionList, error::KafkaError};

/// A partition's number as librdkafka counts.
pub(super) fn number(partition: u32) -> i32 {
    i32::try_from(partition).expect("Kafka counts partitions in 31 bits")
}

/// An offset as librdkafka counts.
pub(super) fn offset(offset: u64) -> Offset {
    Offset::Offset(i64::try_from(offset).expect("Kafka counts offsets in 63 bits"))
}

/// A list of partitions without offsets.
pub(super) fn of(topic: &str, partitions: impl IntoIterator<Item = u32>) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    for partition in partitions {
        list.add_partition(topic, number(partition));
    }
    list
}

/// A list of partitions, each with an offset.
pub(super) fn at(
    topic: &str,
    offsets: impl IntoIterator<Item = (u32, Offset)>,
) -> Result<TopicPartitionList, KafkaError> {
    let mut list = TopicPartitionList::new();
    for (partition, offset) in offsets {
        list.add_partition_offset(topic, number(partition), offset)?;
    }
    Ok(list)
}

/// The partitions of a list.
pub(super) fn partitions(list: &TopicPartitionList) -> Vec<u32> {
    let elements = list.elements();
    let numbers = elements
        .iter()
        .map(|element| u32::try_from(element.partition()));
    numbers.flatten().collect()
}
