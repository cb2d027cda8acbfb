//! What is wrong with a cluster's topics: pure in what was found.

use super::{BY_THE_LOG, STAMPED_BY, alter, names, not_log_stamped, replicas, retention};
use crate::{
    finding::{Finding, Severity},
    kafka::KafkaSettings,
    ports::Topic,
};
use quipu_core::time::Micros;
use std::{collections::BTreeMap, time::Duration};

/// What was found of a topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicFacts {
    /// Its partitions.
    pub partitions: u32,
    /// The least number of replicas of a partition.
    pub replicas: usize,
    /// Its settings, as the brokers give them.
    pub config: BTreeMap<String, String>,
}

/// What was found of a cluster: how many brokers, and the topics that exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// How many brokers there are.
    pub brokers: usize,
    /// The topics, by name.
    pub topics: BTreeMap<String, TopicFacts>,
}

/// What is known of an installation that was set up: what its topics are compared with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Installed {
    /// The registered partitions of the events topic, each with the moment that it begins at.
    pub registered: BTreeMap<u32, Micros>,
    /// Partitions of the signals topic, as setup fixed them.
    pub signal_partitions: u32,
    /// How long events are stored after the end of their slice.
    pub events_stored: Duration,
    /// The living namespace with the longest accept limit.
    pub longest_limit: Option<AcceptLimit>,
}

/// How late events of a namespace are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptLimit {
    /// The namespace.
    pub namespace: String,
    /// Its accept limit.
    pub limit: Duration,
}

/// What is wrong, and what is worth knowing. Before setup was run nothing is known of an
/// installation.
pub fn findings(
    settings: &KafkaSettings,
    facts: &Facts,
    installed: Option<&Installed>,
) -> Vec<Finding> {
    let names = &settings.topics;
    let topic = |name: &str| facts.topics.get(name);
    let mut found = Vec::from_iter(missing(settings, facts));
    for (name, topic) in &facts.topics {
        found.extend(replicas::shortage(name, topic, facts.brokers));
    }
    found.extend(replicas::one_broker(facts));
    if let Some(events) = topic(&names.events) {
        found.extend(stamps(&names.events, events));
        found.extend(policy(&names.events, events, "delete"));
        found.extend(event_size(settings, events));
    }
    if let Some(watermarks) = topic(&names.watermarks) {
        found.extend(policy(&names.watermarks, watermarks, "compact"));
    }
    if let Some(letters) = topic(&names.dead_letters) {
        found.extend(letter_size(settings, letters));
    }
    if let (Some(events), Some(installed)) = (topic(&names.events), installed) {
        let (name, registered) = (&names.events, &installed.registered);
        found.extend(partitions(name, events.partitions, registered));
        found.extend(retention::too_short(name, events, installed));
    }
    if let (Some(signals), Some(installed)) = (topic(&names.signals), installed) {
        let (name, fixed) = (&names.signals, installed.signal_partitions);
        found.extend(signal_count(name, signals.partitions, fixed));
    }
    found
}

fn missing(settings: &KafkaSettings, facts: &Facts) -> Option<Finding> {
    let all = names(settings);
    let missing = all.iter().filter(|name| !facts.topics.contains_key(**name));
    let missing: Vec<&str> = missing.copied().collect();
    let names = missing.join(", ");
    let what = match missing.len() {
        0 => return None,
        1 => format!("topic {names} does not exist"),
        len if len == all.len() => {
            format!("setup was not run: Kafka has none of the topics {names}")
        }
        _ => format!("topics {names} do not exist"),
    };
    Some(unfit(what, "run `quipu admin setup`"))
}

pub(super) fn unfit(what: String, fix: impl Into<String>) -> Finding {
    Finding::new(Severity::Unfit, what, fix)
}

fn number(topic: &TopicFacts, key: &str) -> Option<usize> {
    topic.config.get(key)?.parse().ok()
}

fn stamps(name: &str, topic: &TopicFacts) -> Option<Finding> {
    (topic.config.get(STAMPED_BY).map(String::as_str) != Some(BY_THE_LOG))
        .then(|| not_log_stamped(name))
}

fn partitions(name: &str, count: u32, registered: &BTreeMap<u32, Micros>) -> Vec<Finding> {
    let unregistered: Vec<u32> = (0..count)
        .filter(|id| !registered.contains_key(id))
        .collect();
    let missing: Vec<u32> = registered
        .keys()
        .copied()
        .filter(|id| *id >= count)
        .collect();
    let mut found = Vec::new();
    if !unregistered.is_empty() {
        found.push(Finding::new(
            Severity::Passing,
            format!(
                "partitions {unregistered:?} of {name} are not registered: they are not read, and \
                 no window closes"
            ),
            format!("quipu admin add-partitions --total {count}"),
        ));
    }
    if !missing.is_empty() {
        let total = registered.len();
        found.push(Finding::new(
            Severity::Passing,
            format!(
                "partitions {missing:?} of {name} are registered but Kafka does not have them: no \
                 window closes past their beginning"
            ),
            format!("quipu admin add-partitions --total {total}"),
        ));
    }
    found
}

fn policy(name: &str, topic: &TopicFacts, wanted: &str) -> Option<Finding> {
    let policy = topic.config.get("cleanup.policy")?;
    (policy != wanted).then(|| {
        unfit(
            format!("topic {name} has cleanup.policy={policy}, which loses what is needed"),
            alter(name, "cleanup.policy", wanted),
        )
    })
}

fn signal_count(name: &str, count: u32, fixed: u32) -> Option<Finding> {
    (count != fixed).then(|| {
        unfit(
            format!(
                "topic {name} has {count} partitions, but {fixed} were fixed at setup: signals of \
                 one counter would reach several workers"
            ),
            format!(
                "stop all roles, delete {name} and create it again with `quipu admin setup`; the \
                 sweep makes up for its signals"
            ),
        )
    })
}

/// A record that is larger than expected could not become a dead letter.
fn event_size(settings: &KafkaSettings, topic: &TopicFacts) -> Option<Finding> {
    let (most, key) = (settings.batch_limit(Topic::Events), "max.message.bytes");
    let name = &settings.topics.events;
    let has = number(topic, key)?;
    (has > most).then(|| {
        unfit(
            format!(
                "topic {name} takes records of up to {has} bytes: a large one that is refused \
                 would stop its partition"
            ),
            format!(
                "{}, or raise kafka.max_record_bytes",
                alter(name, key, most)
            ),
        )
    })
}

/// A dead letter is larger than the record in it.
fn letter_size(settings: &KafkaSettings, topic: &TopicFacts) -> Option<Finding> {
    let (wanted, key) = (
        settings.batch_limit(Topic::DeadLetters),
        "max.message.bytes",
    );
    let name = &settings.topics.dead_letters;
    let has = number(topic, key)?;
    (has < wanted).then(|| {
        unfit(
            format!(
                "topic {name} takes records of up to {has} bytes: a large refused record would \
                 stop its partition"
            ),
            alter(name, key, wanted),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(partitions: u32, config: &[(&str, &str)]) -> TopicFacts {
        let config = config
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        TopicFacts {
            partitions,
            replicas: 3,
            config: config.collect(),
        }
    }

    fn sound() -> Facts {
        let synced = ("min.insync.replicas", "2");
        let topics = [
            (
                "quipu-events",
                topic(
                    2,
                    &[
                        synced,
                        (STAMPED_BY, BY_THE_LOG),
                        ("cleanup.policy", "delete"),
                    ],
                ),
            ),
            ("quipu-signals", topic(8, &[synced])),
            (
                "quipu-watermarks",
                topic(1, &[synced, ("cleanup.policy", "compact")]),
            ),
            (
                "quipu-events-dlq",
                topic(1, &[synced, ("max.message.bytes", "9999999")]),
            ),
        ];
        let topics = topics.map(|(name, facts)| (name.to_owned(), facts)).into();
        Facts { brokers: 3, topics }
    }

    fn problems(facts: &Facts, registered: u32) -> Vec<String> {
        let installed = Installed {
            registered: (0..registered).map(|id| (id, Micros::new(0))).collect(),
            signal_partitions: 8,
            ..Installed::default()
        };
        let found = findings(&KafkaSettings::default(), facts, Some(&installed));
        found
            .into_iter()
            .map(|finding| finding.to_string())
            .collect()
    }

    #[test]
    fn a_sound_cluster_has_no_findings() {
        assert_eq!(problems(&sound(), 2), Vec::<String>::new());
    }

    #[test]
    fn each_finding_names_what_is_wrong_and_the_fix() {
        type Change = fn(&mut Facts);
        let cases: [(Change, &str); 6] = [
            (
                |facts| set(facts, "quipu-events", "max.message.bytes", "9999999"),
                "kafka.max_record_bytes",
            ),
            (
                |facts| drop(facts.topics.remove("quipu-signals")),
                "quipu admin setup",
            ),
            (
                |facts| set(facts, "quipu-events", STAMPED_BY, "CreateTime"),
                "message.timestamp.type=LogAppendTime",
            ),
            (
                |facts| set(facts, "quipu-watermarks", "cleanup.policy", "delete"),
                "cleanup.policy=compact",
            ),
            (
                |facts| set(facts, "quipu-events-dlq", "max.message.bytes", "1000"),
                "max.message.bytes=",
            ),
            (
                |facts| {
                    let signals = facts.topics.get_mut("quipu-signals");
                    signals.expect("it exists").partitions = 9;
                },
                "delete quipu-signals",
            ),
        ];
        for (change, fix) in cases {
            let mut facts = sound();
            change(&mut facts);
            let found = problems(&facts, 2);
            assert!(
                found.len() == 1 && found[0].matches(fix).count() == 1,
                "{fix}: {found:?}"
            );
        }
    }

    fn set(facts: &mut Facts, name: &str, key: &str, value: &str) {
        let topic = facts.topics.get_mut(name).expect("it exists");
        topic.config.insert(key.to_owned(), value.to_owned());
    }

    #[test]
    fn partitions_must_be_those_that_are_registered() {
        assert!(problems(&sound(), 1)[0].contains("[1] of quipu-events are not registered"));
        assert!(problems(&sound(), 3)[0].contains("Kafka does not have them"));
    }

    #[test]
    fn topics_that_are_missing_are_told_at_once() {
        let told = problems(&Facts::default(), 0);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("setup was not run"), "{told:?}");
        assert!(told[0].ends_with("run `quipu admin setup`"), "{told:?}");
        let mut facts = sound();
        facts.topics.remove("quipu-signals");
        facts.topics.remove("quipu-watermarks");
        let told = problems(&facts, 2);
        let expected = "topics quipu-signals, quipu-watermarks do not exist";
        assert!(told.len() == 1 && told[0].starts_with(expected), "{told:?}");
    }

    #[test]
    fn before_setup_a_topic_is_not_compared_with_what_nobody_knows() {
        let found = findings(&KafkaSettings::default(), &sound(), None);
        assert_eq!(found, []);
    }
}
