//! What clients report of themselves, and of changes in their consumer group.

use super::list;
use rdkafka::{
    ClientContext, TopicPartitionList,
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, Consumer, ConsumerContext},
    error::KafkaError,
    types::{RDKafkaErrorCode, RDKafkaRespErr},
};
use std::{
    collections::VecDeque,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// librdkafka's own lines are kept for whoever looks for them; its errors are told.
pub(super) fn log(level: RDKafkaLogLevel, facility: &str, line: &str) {
    match level {
        RDKafkaLogLevel::Debug | RDKafkaLogLevel::Info | RDKafkaLogLevel::Notice => {
            tracing::trace!(target: "librdkafka", facility, "{line}");
        }
        _ => tracing::debug!(target: "librdkafka", facility, "{line}"),
    }
}

/// Errors of a client as a whole, such as brokers that cannot be reached. What they break is told
/// by whoever needs it.
pub(super) fn client_error(error: &KafkaError, reason: &str) {
    // To come to a partition's end is none.
    if error.rdkafka_error_code() == Some(RDKafkaErrorCode::PartitionEOF) {
        return;
    }
    tracing::warn!(target: "librdkafka", %error, "{reason}");
}

/// A client that belongs to no group.
#[derive(Debug)]
pub(super) struct PlainContext;

impl ClientContext for PlainContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        log(level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        client_error(&error, reason);
    }
}

impl ConsumerContext for PlainContext {}

/// What became of a member's partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// These are to be read from now on.
    Assigned(Vec<u32>),
    /// These are to be handed back.
    Revoked(Vec<u32>),
    /// These are gone already.
    Lost(Vec<u32>),
}

/// Notes the changes of a group, and does nothing about them: one task owns the state.
#[derive(Debug, Default)]
pub(super) struct GroupContext {
    changes: Mutex<VecDeque<Change>>,
    closing: AtomicBool,
}

impl GroupContext {
    /// The next change that nobody has seen to.
    pub(super) fn next_change(&self) -> Option<Change> {
        self.queue().pop_front()
    }

    /// Whether a change waits to be seen to.
    pub(super) fn has_changes(&self) -> bool {
        !self.queue().is_empty()
    }

    /// From now on nobody looks: changes take effect at once, or the consumer would never close.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
    }

    fn queue(&self) -> std::sync::MutexGuard<'_, VecDeque<Change>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientContext for GroupContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        log(level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        client_error(&error, reason);
    }
}

impl ConsumerContext for GroupContext {
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        kind: RDKafkaRespErr,
        partitions: &mut TopicPartitionList,
    ) {
        let assigned = kind == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
        if self.closing.load(Ordering::SeqCst) {
            let done = if assigned {
                consumer.incremental_assign(partitions)
            } else {
                consumer.incremental_unassign(partitions)
            };
            if let Err(error) = done {
                tracing::debug!(%error, "a change of the group came too late");
            }
            return;
        }
        let numbers = list::partitions(partitions);
        let change = match (assigned, consumer.assignment_lost()) {
            (true, _) => Change::Assigned(numbers),
            (false, false) => Change::Revoked(numbers),
            (false, true) => Change::Lost(numbers),
        };
        self.queue().push_back(change);
    }
}
