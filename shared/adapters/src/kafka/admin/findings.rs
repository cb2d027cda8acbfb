//! What is wrong with a cluster's topics: pure in what was found.

use super::{BY_THE_LOG, STAMPED_BY, not_log_stamped};
use crate::{kafka::KafkaSettings, ports::Topic};
use quipu_core::time::Micros;
use std::{collections::BTreeMap, fmt};

/// Something that is wrong, and how it is mended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What is wrong, and what follows from it.
    pub problem: String,
    /// What to do about it.
    pub fix: String,
    /// Whether it may be gone some seconds later: while partitions are added, it is so for a while.
    pub is_passing: bool,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.problem, self.fix)
    }
}

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

/// What is wrong. `registered` are the partitions of the events topic, `signal_partitions` the
/// number fixed at setup.
pub fn findings(
    settings: &KafkaSettings,
    facts: &Facts,
    registered: &BTreeMap<u32, Micros>,
    signal_partitions: u32,
) -> Vec<Finding> {
    let names = &settings.topics;
    let mut found = Vec::new();
    for name in [
        &names.events,
        &names.signals,
        &names.watermarks,
        &names.dead_letters,
    ] {
        match facts.topics.get(name) {
            None => found.push(Finding {
                is_passing: false,
                problem: format!("topic {name} does not exist"),
                fix: "create it with `quipu admin setup`".to_owned(),
            }),
            Some(topic) => found.extend(replication(name, topic, facts.brokers)),
        }
    }
    if let Some(events) = facts.topics.get(&names.events) {
        found.extend(stamps(&names.events, events));
        found.extend(partitions(&names.events, events.partitions, registered));
        found.extend(policy(&names.events, events, "delete"));
        found.extend(event_size(settings, events));
    }
    if let Some(watermarks) = facts.topics.get(&names.watermarks) {
        found.extend(policy(&names.watermarks, watermarks, "compact"));
    }
    if let Some(signals) = facts.topics.get(&names.signals) {
        found.extend(signal_count(
            &names.signals,
            signals.partitions,
            signal_partitions,
        ));
    }
    if let Some(letters) = facts.topics.get(&names.dead_letters) {
        found.extend(letter_size(settings, letters));
    }
    found
}

fn number(topic: &TopicFacts, key: &str) -> Option<usize> {
    topic.config.get(key)?.parse().ok()
}

fn alter(topic: &str, key: &str, value: impl fmt::Display) -> String {
    format!(
        "kafka-configs --alter --entity-type topics --entity-name {topic} --add-config {key}={value}"
    )
}

fn stamps(name: &str, topic: &TopicFacts) -> Option<Finding> {
    (topic.config.get(STAMPED_BY).map(String::as_str) != Some(BY_THE_LOG)).then(|| Finding {
        is_passing: false,
        problem: not_log_stamped(name),
        fix: alter(name, STAMPED_BY, BY_THE_LOG),
    })
}

fn replication(name: &str, topic: &TopicFacts, brokers: usize) -> Option<Finding> {
    let least = number(topic, "min.insync.replicas").unwrap_or(1);
    if topic.replicas > 1 && least < 2 {
        return Some(Finding {
            is_passing: false,
            problem: format!(
                "topic {name} acknowledges with one replica in sync, so a record can be lost with \
                 one broker"
            ),
            fix: alter(name, "min.insync.replicas", 2),
        });
    }
    if brokers > 1 && topic.replicas < 2 {
        return Some(Finding {
            is_passing: false,
            problem: format!("topic {name} has partitions with one replica, on {brokers} brokers"),
            fix: "give it three replicas with kafka-reassign-partitions".to_owned(),
        });
    }
    (least > topic.replicas).then(|| Finding {
        is_passing: false,
        problem: format!(
            "topic {name} asks for {least} replicas in sync but has {}: it takes no record",
            topic.replicas
        ),
        fix: alter(name, "min.insync.replicas", topic.replicas),
    })
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
        found.push(Finding {
            is_passing: true,
            problem: format!(
                "partitions {unregistered:?} of {name} are not registered: they are not read, and \
                 no window closes"
            ),
            fix: format!("quipu admin add-partitions --total {count}"),
        });
    }
    if !missing.is_empty() {
        let total = registered.len();
        found.push(Finding {
            is_passing: true,
            problem: format!(
                "partitions {missing:?} of {name} are registered but Kafka does not have them: no \
                 window closes past their beginning"
            ),
            fix: format!("quipu admin add-partitions --total {total}"),
        });
    }
    found
}

fn policy(name: &str, topic: &TopicFacts, wanted: &str) -> Option<Finding> {
    let policy = topic.config.get("cleanup.policy")?;
    (policy != wanted).then(|| Finding {
        is_passing: false,
        problem: format!("topic {name} has cleanup.policy={policy}, which loses what is needed"),
        fix: alter(name, "cleanup.policy", wanted),
    })
}

fn signal_count(name: &str, count: u32, fixed: u32) -> Option<Finding> {
    (count != fixed).then(|| Finding {
        is_passing: false,
        problem: format!(
            "topic {name} has {count} partitions, but {fixed} were fixed at setup: signals of one \
             counter would reach several workers"
        ),
        fix: format!(
            "stop all roles, delete {name} and create it again with `quipu admin setup`; the sweep \
             makes up for its signals"
        ),
    })
}

/// A record that is larger than expected could not become a dead letter.
fn event_size(settings: &KafkaSettings, topic: &TopicFacts) -> Option<Finding> {
    let (most, key) = (settings.batch_limit(Topic::Events), "max.message.bytes");
    let name = &settings.topics.events;
    let has = number(topic, key)?;
    (has > most).then(|| Finding {
        is_passing: false,
        problem: format!(
            "topic {name} takes records of up to {has} bytes: a large one that is refused would \
             stop its partition"
        ),
        fix: format!(
            "{}, or raise kafka.max_record_bytes",
            alter(name, key, most)
        ),
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
    (has < wanted).then(|| Finding {
        is_passing: false,
        problem: format!(
            "topic {name} takes records of up to {has} bytes: a large refused record would stop \
             its partition"
        ),
        fix: alter(name, key, wanted),
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
        let registered = (0..registered).map(|id| (id, Micros::new(0))).collect();
        let found = findings(&KafkaSettings::default(), facts, &registered, 8);
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
        let cases: [(Change, &str); 7] = [
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
                |facts| set(facts, "quipu-events", "min.insync.replicas", "1"),
                "min.insync.replicas=2",
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
                found.len() == 1 && found[0].contains(fix),
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
    fn one_broker_with_one_replica_is_taken_as_it_is() {
        let mut facts = sound();
        facts.brokers = 1;
        for topic in facts.topics.values_mut() {
            topic.replicas = 1;
            topic
                .config
                .insert("min.insync.replicas".to_owned(), "1".to_owned());
        }
        assert_eq!(problems(&facts, 2), Vec::<String>::new());
    }
}
