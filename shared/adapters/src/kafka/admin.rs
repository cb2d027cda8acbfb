//! Making the topics, and saying what is wrong with a cluster.

mod findings;
mod operator;
mod replicas;
mod retention;

use super::{
    CALL_TIMEOUT, KafkaSettings, TopicNames, blocking, context::PlainContext, error, list,
    settings::misconfigured,
};
use crate::{
    finding::Finding,
    ports::{LogError, Topic},
};
use findings::unfit;
pub use findings::{AcceptLimit, Facts, Installed, TopicFacts, findings};
pub use operator::{PartitionState, partition_state, set_frontier};
use rdkafka::{
    admin::{
        AdminClient, AdminOptions, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication,
    },
    error::KafkaError,
    types::RDKafkaErrorCode,
};
use serde::Deserialize;
use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    time::Duration,
};

/// How topics are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TopicSettings {
    /// Partitions of the events topic at the beginning.
    pub event_partitions: u32,
    /// Partitions of the signals topic, for ever (R17).
    pub signal_partitions: u32,
    /// Replicas of each partition.
    pub replication_factor: u16,
    /// Replicas that must have a record before it is acknowledged.
    pub min_insync_replicas: u16,
    /// How many hours records of the events topic are kept, at least (R19).
    pub retention_hours: u32,
}

impl Default for TopicSettings {
    fn default() -> Self {
        Self {
            event_partitions: 4,
            signal_partitions: 8,
            replication_factor: 3,
            min_insync_replicas: 2,
            retention_hours: 72,
        }
    }
}

/// Where timestamps come from: what acceptance depends on (R1).
const STAMPED_BY: &str = "message.timestamp.type";
const BY_THE_LOG: &str = "LogAppendTime";
/// Retention works by whole segments: short ones keep what it promises close to what it does.
const SEGMENT: Duration = Duration::from_hours(1);
const SIGNALS_RETENTION: Duration = Duration::from_hours(24 * 7);
const DEAD_LETTERS_RETENTION: Duration = Duration::from_hours(24 * 30);

type Admin = AdminClient<PlainContext>;

/// Makes the topics that are missing, with their settings, and returns their names. Topics that
/// exist are left as they are: [`check`] says what is wrong with them.
///
/// # Errors
/// When the cluster cannot be reached or refuses.
pub async fn setup(
    settings: &KafkaSettings,
    topics: TopicSettings,
) -> Result<Vec<String>, LogError> {
    let admin = connect(settings)?;
    let configs = configs(settings, topics);
    let new: Vec<NewTopic<'_>> = configs
        .iter()
        .map(|(name, partitions, config)| {
            let replication = TopicReplication::Fixed(i32::from(topics.replication_factor));
            let new = NewTopic::new(name, list::number(*partitions), replication);
            config
                .iter()
                .fold(new, |new, (key, value)| new.set(key, value))
        })
        .collect();
    let results = admin.create_topics(&new, &options()).await;
    let results = results.map_err(|error| unreachable_cluster(&error))?;
    let mut made = Vec::new();
    for result in results {
        match result {
            Ok(name) => made.push(name),
            Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((name, code)) => {
                return Err(error::of_topic(&name, &KafkaError::AdminOp(code)));
            }
        }
    }
    Ok(made)
}

/// The names of Quipu's topics.
fn names(settings: &KafkaSettings) -> [&str; 4] {
    let TopicNames {
        events,
        signals,
        watermarks,
        dead_letters,
    } = &settings.topics;
    [events, signals, watermarks, dead_letters]
}

type Config = Vec<(&'static str, String)>;

fn configs(settings: &KafkaSettings, topics: TopicSettings) -> [(&str, u32, Config); 4] {
    let names = &settings.topics;
    let millis = |time: Duration| time.as_millis().to_string();
    let kept = |time: Duration, topic| {
        vec![
            (
                "min.insync.replicas",
                topics.min_insync_replicas.to_string(),
            ),
            ("cleanup.policy", "delete".to_owned()),
            ("retention.ms", millis(time)),
            ("segment.ms", millis(SEGMENT)),
            ("max.message.bytes", settings.batch_limit(topic).to_string()),
        ]
    };
    let retention = Duration::from_hours(u64::from(topics.retention_hours));
    let mut events = kept(retention, Topic::Events);
    events.push((STAMPED_BY, BY_THE_LOG.to_owned()));
    let compacted = vec![
        (
            "min.insync.replicas",
            topics.min_insync_replicas.to_string(),
        ),
        ("cleanup.policy", "compact".to_owned()),
        ("segment.ms", millis(SEGMENT)),
        ("min.cleanable.dirty.ratio", "0.1".to_owned()),
    ];
    [
        (&names.events, topics.event_partitions, events),
        (
            &names.signals,
            topics.signal_partitions,
            kept(SIGNALS_RETENTION, Topic::Signals),
        ),
        (&names.watermarks, 1, compacted),
        (
            &names.dead_letters,
            1,
            kept(DEAD_LETTERS_RETENTION, Topic::DeadLetters),
        ),
    ]
}

/// Says what is wrong with the topics of a cluster, and how each is mended. Before setup was run,
/// nothing is known of an installation.
///
/// # Errors
/// When the cluster cannot be reached.
pub async fn check(
    settings: &KafkaSettings,
    installed: Option<&Installed>,
) -> Result<Vec<Finding>, LogError> {
    Ok(findings(settings, &facts(settings).await?, installed))
}

/// Refuses an events topic that is not stamped by the log (R1).
///
/// # Errors
/// When it is not, or is missing, or the cluster cannot be reached.
pub(super) async fn require_log_append_time(settings: &KafkaSettings) -> Result<(), LogError> {
    let admin = connect(settings)?;
    let events = &settings.topics.events;
    let config = describe(&admin, events).await?;
    match config.get(STAMPED_BY).map(String::as_str) {
        Some(BY_THE_LOG) => Ok(()),
        _ => Err(LogError::Damaged(not_log_stamped(events).to_string())),
    }
}

/// What is wrong with an events topic that producers stamp, and how it is mended.
pub(super) fn not_log_stamped(topic: &str) -> Finding {
    unfit(
        format!(
            "topic {topic} is stamped by producers and not by the log, and acceptance depends on \
             that"
        ),
        alter(topic, STAMPED_BY, BY_THE_LOG),
    )
}

/// The command that changes a setting of a topic.
fn alter(topic: &str, key: &str, value: impl fmt::Display) -> String {
    format!(
        "kafka-configs --alter --entity-type topics --entity-name {topic} --add-config {key}={value}"
    )
}

/// Makes the events topic have this many partitions; it may have them already. Register them
/// first, and wait until their effective moment has come (R12).
///
/// # Errors
/// When the cluster cannot be reached or refuses.
pub async fn add_partitions(settings: &KafkaSettings, total: u32) -> Result<(), LogError> {
    let admin = connect(settings)?;
    let topic = &settings.topics.events;
    let (admin, (facts, _)) = topic_facts(admin).await?;
    let count = facts.get(topic).map(|(partitions, _)| *partitions);
    match count {
        None => Err(error::missing(topic)),
        Some(count) if count >= total => Ok(()),
        Some(_) => {
            let total = usize::try_from(total).expect("a number of partitions fits");
            let wanted = [NewPartitions::new(topic, total)];
            let results = admin.create_partitions(&wanted, &options()).await;
            let results = results.map_err(|error| unreachable_cluster(&error))?;
            for result in results {
                result
                    .map_err(|(name, code)| error::of_topic(&name, &KafkaError::AdminOp(code)))?;
            }
            Ok(())
        }
    }
}

fn connect(settings: &KafkaSettings) -> Result<Admin, LogError> {
    settings
        .admin()
        .create_with_context(PlainContext)
        .map_err(|error| misconfigured(&error))
}

fn options() -> AdminOptions {
    AdminOptions::new()
        .request_timeout(Some(CALL_TIMEOUT))
        .operation_timeout(Some(CALL_TIMEOUT))
}

fn unreachable_cluster(error: &KafkaError) -> LogError {
    LogError::Unavailable(format!("the Kafka cluster does not answer: {error}"))
}

/// Each topic's number of partitions and the least replicas of one; and the number of brokers.
type Counts = (HashMap<String, (u32, usize)>, usize);

async fn topic_facts(admin: Admin) -> Result<(Admin, Counts), LogError> {
    let (admin, metadata) = blocking(move || {
        let metadata = admin.inner().fetch_metadata(None, CALL_TIMEOUT);
        let metadata = metadata.map_err(|error| unreachable_cluster(&error))?;
        Ok((admin, metadata))
    })
    .await?;
    let topics = metadata.topics().iter().map(|topic| {
        let partitions = topic.partitions();
        let replicas = partitions.iter().map(|it| it.replicas().len()).min();
        let count = u32::try_from(partitions.len()).unwrap_or(u32::MAX);
        (topic.name().to_owned(), (count, replicas.unwrap_or(0)))
    });
    Ok((admin, (topics.collect(), metadata.brokers().len())))
}

async fn describe(admin: &Admin, topic: &str) -> Result<BTreeMap<String, String>, LogError> {
    let described = admin
        .describe_configs([&ResourceSpecifier::Topic(topic)], &options())
        .await
        .map_err(|error| unreachable_cluster(&error))?;
    let mut config = BTreeMap::new();
    for resource in described {
        let resource =
            resource.map_err(|code| error::of_topic(topic, &KafkaError::AdminOp(code)))?;
        let entries = resource.entries.into_iter();
        config.extend(entries.filter_map(|entry| Some((entry.name, entry.value?))));
    }
    Ok(config)
}

async fn facts(settings: &KafkaSettings) -> Result<findings::Facts, LogError> {
    let admin = connect(settings)?;
    let (admin, (counts, brokers)) = topic_facts(admin).await?;
    let mut topics = BTreeMap::new();
    for name in names(settings) {
        if let Some((partitions, replicas)) = counts.get(name) {
            let facts = TopicFacts {
                partitions: *partitions,
                replicas: *replicas,
                config: describe(&admin, name).await?,
            };
            topics.insert(name.to_owned(), facts);
        }
    }
    Ok(findings::Facts { brokers, topics })
}
