//! What an operator looks at and decides of one partition of the events topic (R2).

use super::misconfigured;
use crate::{
    kafka::{
        CALL_TIMEOUT, KafkaProducer, KafkaSettings, blocking,
        context::PlainContext,
        error,
        frontier::{committed_in, metadata},
        list, watermarks,
    },
    ports::{Committed, LogError},
};
use quipu_core::time::Micros;
use rdkafka::{
    consumer::{BaseConsumer, CommitMode, Consumer},
    types::RDKafkaErrorCode,
};

/// What is known of a partition and of the group that reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionState {
    /// The offset of the oldest record that is kept.
    pub beginning: u64,
    /// The offset after the newest record.
    pub end: u64,
    /// The group's committed offset, and the effective time beside it.
    pub committed: Option<(u64, Option<Micros>)>,
    /// The newest watermark record.
    pub watermark: Option<Committed>,
    /// How many members the group has.
    pub members: usize,
}

/// Looks at a partition of the events topic.
///
/// # Errors
/// When the cluster cannot be reached, or lacks the topic or the partition.
pub async fn partition_state(
    settings: &KafkaSettings,
    group: &str,
    partition: u32,
) -> Result<PartitionState, LogError> {
    let (settings, group) = (settings.clone(), group.to_owned());
    blocking(move || {
        let consumer = member_of_none(&settings, &group)?;
        let topic = &settings.topics.events;
        let failed = |error| error::of_topic(topic, &error);
        let range = consumer.fetch_watermarks(topic, list::number(partition), CALL_TIMEOUT);
        let (beginning, end) = range.map_err(failed)?;
        let list = list::of(topic, [partition]);
        let committed = consumer.committed_offsets(list, CALL_TIMEOUT);
        let groups = consumer.fetch_group_list(Some(&group), CALL_TIMEOUT);
        let groups = groups.map_err(failed)?;
        let members = groups.groups().iter().map(|group| group.members().len());
        Ok(PartitionState {
            beginning: u64::try_from(beginning).unwrap_or_default(),
            end: u64::try_from(end).unwrap_or_default(),
            committed: committed_in(&committed.map_err(failed)?, partition),
            watermark: watermarks::newest(&settings, topic, partition)?,
            members: members.sum(),
        })
    })
    .await
}

/// An operator's decision where a group goes on with a partition of the events topic, and at which
/// effective time: what lies before is never decided by it. No member of the group may be running.
///
/// # Errors
/// When the cluster cannot be reached, or the group has members.
pub async fn set_frontier(
    log: &KafkaProducer,
    group: &str,
    partition: u32,
    frontier: Committed,
) -> Result<(), LogError> {
    let (settings, group) = (log.settings().clone(), group.to_owned());
    let work = move || {
        let consumer = member_of_none(&settings, &group)?;
        let topic = &settings.topics.events;
        let commit = || {
            let list = list::at(topic, [(partition, list::offset(frontier.next_offset))])?;
            let mut element = list.find_partition(topic, list::number(partition));
            let element = element.as_mut().expect("it was just added");
            element.set_metadata(metadata(frontier.effective_time));
            consumer.commit(&list, CommitMode::Sync)
        };
        commit().map_err(|error| match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::UnknownMemberId | RDKafkaErrorCode::IllegalGeneration) => {
                LogError::Damaged(format!(
                    "group {group} has members: stop every ingest first, then decide again"
                ))
            }
            _ => error::of_topic(topic, &error),
        })
    };
    blocking(work).await?;
    watermarks::append(log, &[(partition, frontier)]).await
}

/// A consumer that names a group and does not join it.
fn member_of_none(
    settings: &KafkaSettings,
    group: &str,
) -> Result<BaseConsumer<PlainContext>, LogError> {
    settings
        .consumer(group)
        .create_with_context(PlainContext)
        .map_err(|error| misconfigured(&error))
}
