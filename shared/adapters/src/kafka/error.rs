//! Kafka's errors, told apart by what the caller does about them.

use crate::ports::LogError;
use rdkafka::{error::KafkaError, types::RDKafkaErrorCode as Code};

/// What went wrong with a topic, and what to do about it when trying again is not enough.
pub(super) fn of_topic(topic: &str, error: &KafkaError) -> LogError {
    let advice = match error.rdkafka_error_code() {
        Some(Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition) => {
            "; create Quipu's topics with `quipu admin setup`"
        }
        Some(Code::TopicAuthorizationFailed | Code::GroupAuthorizationFailed) => {
            "; the user of this client needs access to it"
        }
        Some(Code::NotEnoughReplicas | Code::NotEnoughReplicasAfterAppend) => {
            "; fewer replicas are in sync than the topic's min.insync.replicas asks for"
        }
        _ => "",
    };
    LogError::Unavailable(format!("topic {topic}: {error}{advice}"))
}

/// A topic that is not there.
pub(super) fn missing(topic: &str) -> LogError {
    of_topic(
        topic,
        &KafkaError::MetadataFetch(Code::UnknownTopicOrPartition),
    )
}
