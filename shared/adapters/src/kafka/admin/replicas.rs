//! How many brokers have a record before it is acknowledged (R11).

use super::{
    alter,
    findings::{Facts, TopicFacts, unfit},
};
use crate::finding::{Finding, Severity};

const LEAST: &str = "min.insync.replicas";

/// Copies of each partition that are fewer than the cluster could keep, or than the topic asks for.
pub(super) fn shortage(name: &str, topic: &TopicFacts, brokers: usize) -> Option<Finding> {
    let least = topic.config.get(LEAST).and_then(|least| least.parse().ok());
    let (least, replicas): (usize, _) = (least.unwrap_or(1), topic.replicas);
    if replicas > 1 && least < 2 {
        return Some(unfit(
            format!(
                "topic {name} acknowledges with one replica in sync, so a record can be lost with \
                 one broker"
            ),
            alter(name, LEAST, 2),
        ));
    }
    if brokers > 1 && replicas < 2 {
        return Some(unfit(
            format!("topic {name} has partitions with one replica, on {brokers} brokers"),
            "give it three replicas with kafka-reassign-partitions",
        ));
    }
    (least > replicas).then(|| {
        unfit(
            format!(
                "topic {name} asks for {least} replicas in sync but has {replicas}: it takes no \
                 record"
            ),
            alter(name, LEAST, replicas),
        )
    })
}

/// A cluster of one broker: fit for trying things out.
pub(super) fn one_broker(facts: &Facts) -> Option<Finding> {
    let alone = facts.topics.iter().filter(|(_, topic)| topic.replicas < 2);
    let names: Vec<&str> = alone.map(|(name, _)| name.as_str()).collect();
    (facts.brokers < 2 && !names.is_empty()).then(|| {
        let names = names.join(", ");
        Finding::new(
            Severity::Advice,
            format!(
                "one Kafka broker has the only copy of {names}, and acknowledges a record before \
                 its disk has it: a loss of power or of the disk takes records that were \
                 acknowledged"
            ),
            format!(
                "use three brokers, with kafka.replication_factor = 3 and \
                 kafka.min_insync_replicas = 2 when setup makes the topics; those that are there \
                 get both by kafka-reassign-partitions and {LEAST}=2"
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(replicas: usize, least: &str) -> TopicFacts {
        TopicFacts {
            replicas,
            config: [(LEAST.to_owned(), least.to_owned())].into(),
            ..TopicFacts::default()
        }
    }

    #[test]
    fn a_record_that_one_broker_alone_may_have_is_a_shortage_where_there_are_more() {
        let fix = |brokers, replicas, least| {
            let found = shortage("t", &topic(replicas, least), brokers);
            found.map(|finding| (finding.severity, finding.fix))
        };
        let altered = |value| Some((Severity::Unfit, alter("t", LEAST, value)));
        assert_eq!(fix(3, 3, "2"), None);
        assert_eq!(fix(3, 3, "1"), altered(2));
        assert_eq!(fix(1, 1, "2"), altered(1));
        assert_eq!(fix(1, 1, "1"), None);
        let (_, moved) = fix(3, 1, "1").expect("told");
        assert!(moved.contains("kafka-reassign-partitions"), "{moved}");
    }

    #[test]
    fn one_broker_is_advised_once_for_all_its_topics() {
        let facts = |brokers, replicas| Facts {
            brokers,
            topics: ["a", "b"]
                .map(|name| (name.to_owned(), topic(replicas, "1")))
                .into(),
        };
        let advised = one_broker(&facts(1, 1)).expect("told");
        assert_eq!(advised.severity, Severity::Advice);
        assert!(advised.what.contains("the only copy of a, b"), "{advised}");
        assert!(
            advised.fix.contains("kafka.min_insync_replicas = 2"),
            "{advised}"
        );
        let others_are_down = one_broker(&facts(1, 3));
        assert_eq!(others_are_down, None);
        assert_eq!(one_broker(&facts(2, 1)), None);
    }
}
