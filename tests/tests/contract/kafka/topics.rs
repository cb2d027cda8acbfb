//! What foreign producers write, and what is wrong with topics.

use super::{OnKafka, TOPICS, admin_client, open, raw, registry, settings};
use crate::log::{append, assigned, read_to_end, record, values};
use quipu_adapters::{
    finding::{Finding, Severity},
    kafka::{
        KafkaConsumer, KafkaProducer, KafkaSettings,
        admin::{self, AcceptLimit, Installed},
    },
    ports::{Body, LogError, Producer, Stamp, Topic},
};
use rdkafka::{
    admin::{AdminOptions, AlterConfig, ResourceSpecifier},
    message::{Header, OwnedHeaders},
    mocking::MockCluster,
    producer::{BaseProducer, BaseRecord, Producer as _},
    types::{RDKafkaApiKey, RDKafkaRespErr},
};
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(10);

fn transactional(log: &OnKafka) -> BaseProducer {
    let mut config = raw();
    config.set("transactional.id", &log.settings.topics.events);
    config.create().expect("a client")
}

#[tokio::test]
async fn aborted_records_are_never_seen_and_committed_ones_are() {
    let (log, _keep) = open().await;
    let producer = transactional(&log);
    let topic = &log.settings.topics.events;
    let send = |value: &str| {
        let next = BaseRecord::<(), str>::to(topic).partition(0).payload(value);
        producer
            .send(next)
            .map_err(|(error, _)| error)
            .expect("sent");
    };
    producer.init_transactions(WAIT).expect("begun");
    producer.begin_transaction().expect("begun");
    ["x", "y"].into_iter().for_each(send);
    producer.flush(WAIT).expect("flushed");
    producer.abort_transaction(WAIT).expect("aborted");
    producer.begin_transaction().expect("begun");
    ["a", "b"].into_iter().for_each(send);
    producer.commit_transaction(WAIT).expect("committed");
    append(&log, vec![record(0, "c")]).await;
    let mut consumer = log.join(topic).await;
    assigned(&mut consumer).await;
    let read = read_to_end(&mut consumer, &[0]).await;
    assert_eq!(values(&read[&0]), ["a", "b", "c"]);
    let offsets: Vec<u64> = read[&0].iter().map(|record| record.offset).collect();
    // When the second marker is written, before or after the last record, is the broker's choice.
    assert_eq!(
        offsets[..2],
        [3, 4],
        "a marker and aborted records leave gaps"
    );
}

#[tokio::test]
async fn a_null_value_of_somebody_else_is_an_empty_record_and_no_tick() {
    let (log, _keep) = open().await;
    let topic = &log.settings.topics.events;
    let producer: BaseProducer = raw().create().expect("a client");
    let headers = OwnedHeaders::new().insert(Header {
        key: "h",
        value: Some("1"),
    });
    let next = BaseRecord::<(), ()>::to(topic)
        .partition(0)
        .headers(headers);
    producer
        .send(next)
        .map_err(|(error, _)| error)
        .expect("sent");
    producer.flush(WAIT).expect("flushed");
    let mut consumer = log.join(topic).await;
    assigned(&mut consumer).await;
    let read = read_to_end(&mut consumer, &[0]).await;
    let Body::Data { value, headers } = &read[&0][0].body else {
        panic!("{read:?}")
    };
    assert!(value.is_empty());
    assert_eq!(headers[0].0, "h");
}

/// What a test's topics are to be compared with.
fn installed() -> Installed {
    Installed {
        registered: registry(2).borrow().as_ref().clone(),
        signal_partitions: 2,
        events_stored: Duration::from_hours(24),
        longest_limit: None,
    }
}

async fn check(settings: &KafkaSettings, installed: &Installed) -> Vec<Finding> {
    let found = admin::check(settings, Some(installed)).await;
    found.expect("checked")
}

fn is_more_than_advice(finding: &Finding) -> bool {
    finding.severity > Severity::Advice
}

/// Sets one setting of a topic, and the others to their defaults.
async fn change(topic: &str, key: &str, value: &str) {
    let change = AlterConfig::new(ResourceSpecifier::Topic(topic));
    let change = change.set(key, value);
    let client = admin_client();
    let altered = client.alter_configs([&change], &AdminOptions::new());
    altered.await.expect("altered")[0]
        .as_ref()
        .expect("altered");
    // Brokers take a moment to hear of it, and another one to follow.
    let heard = async {
        let resource = [&ResourceSpecifier::Topic(topic)];
        loop {
            let described = client.describe_configs(resource, &AdminOptions::new());
            let described = described.await.expect("described").remove(0);
            let config = described.expect("the topic is there");
            let entry = config.get(key).expect("it has this setting");
            if entry.value.as_deref() == Some(value) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let heard = tokio::time::timeout(Duration::from_secs(30), heard).await;
    heard.expect("the setting is changed");
    tokio::time::sleep(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn a_topic_that_producers_stamp_is_refused_by_consumer_producer_and_check() {
    let (log, _keep) = open().await;
    let topic = log.settings.topics.events.clone();
    let mut running = log.join(&topic).await;
    assigned(&mut running).await;
    read_to_end(&mut running, &[0, 1]).await;
    change(&topic, "message.timestamp.type", "CreateTime").await;
    let fix = "message.timestamp.type=LogAppendTime";
    let refused = KafkaConsumer::events(log.settings.clone(), "other", log.registry.subscribe());
    let refused = refused
        .await
        .expect_err("the topic has the wrong stamps")
        .to_string();
    assert!(refused.contains(fix), "{refused}");
    let appended = log
        .producer
        .append(Topic::Events, vec![record(0, "a")])
        .await;
    let refused = appended.expect_err("its time is worthless").to_string();
    assert!(refused.contains(fix), "{refused}");
    let read = read_to_end(&mut running, &[0]).await;
    assert!(matches!(read[&0][0].stamp, Stamp::Producer(_)), "{read:?}");
    let mut found = check(&log.settings, &installed()).await;
    found.retain(|finding| finding.severity.is_refused());
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].fix.contains(fix), "{found:?}");
    assert_eq!(found[0].to_string().matches(fix).count(), 1, "{found:?}");
}

#[tokio::test]
async fn setup_makes_what_is_missing_once_and_check_has_advice_only() {
    let (log, _keep) = open().await;
    let again = admin::setup(&log.settings, TOPICS).await.expect("set up");
    assert_eq!(again, Vec::<String>::new());
    let found = check(&log.settings, &installed()).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].severity, Severity::Advice);
    assert!(found[0].what.starts_with("one Kafka broker"), "{found:?}");
    admin::add_partitions(&log.settings, 3)
        .await
        .expect("added");
    admin::add_partitions(&log.settings, 3)
        .await
        .expect("they are there");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let found = check(&log.settings, &installed()).await;
    let found = found.into_iter().find(is_more_than_advice);
    let found = found.expect("a partition that nobody registered");
    assert_eq!(found.severity, Severity::Passing);
    assert!(found.what.contains("[2]"), "{found}");
    assert_eq!(
        log.producer.partitions(Topic::Events),
        2,
        "only registered ones are used"
    );
}

#[tokio::test]
async fn topics_that_are_missing_are_told_with_the_fix() {
    let settings = settings();
    let connected = KafkaProducer::connect(settings.clone(), registry(2).subscribe()).await;
    let refused = connected.expect_err("it has no topics").to_string();
    assert!(refused.contains("quipu admin setup"), "{refused}");
    for installed in [None, Some(&installed())] {
        let found = admin::check(&settings, installed).await.expect("checked");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].what.starts_with("setup was not run"), "{found:?}");
        assert_eq!(found[0].fix, "run `quipu admin setup`");
    }
}

#[tokio::test]
async fn records_that_the_topic_keeps_for_longer_than_their_events_are_told() {
    let (log, _keep) = open().await;
    let topic = log.settings.topics.events.clone();
    // An hour of the topic, an hour of the segment, and ten minutes of the namespace.
    let with = |stored| Installed {
        events_stored: Duration::from_mins(stored),
        longest_limit: Some(AcceptLimit {
            namespace: "web".to_owned(),
            limit: Duration::from_mins(10),
        }),
        ..installed()
    };
    let told = async |installed: &Installed| {
        let mut found = check(&log.settings, installed).await;
        found.retain(|finding| finding.what.contains("cassandra.retention"));
        found.pop()
    };
    assert_eq!(told(&with(130)).await, None);
    let found = told(&with(129)).await.expect("told");
    assert_eq!(found.severity, Severity::Problem);
    assert!(found.what.contains("2h 10m in all"), "{found}");
    assert!(found.fix.contains("retention.ms=3540000"), "{found}");
    change(&topic, "retention.ms", "-1").await;
    let found = told(&with(129)).await.expect("told");
    assert_eq!(found.severity, Severity::Advice);
    assert!(found.what.contains("is not covered"), "{found}");
}

#[tokio::test]
async fn a_record_that_is_too_large_is_refused_before_anything_is_appended() {
    let (log, _keep) = open().await;
    let limit = log.settings.max_record_bytes;
    let large = "x".repeat(limit + 1);
    let records = vec![record(0, "small"), record(0, &large)];
    let refused = log.producer.append(Topic::Events, records).await;
    assert!(
        matches!(refused, Err(LogError::TooLarge { bytes, limit: l }) if bytes == limit + 1 && l == limit),
        "{refused:?}"
    );
    let largest = "x".repeat(limit);
    append(&log, vec![record(0, &largest)]).await;
    let letter = log
        .producer
        .append(Topic::DeadLetters, vec![record(0, &large)])
        .await;
    letter.expect("a dead letter has room for its headers");
}

#[tokio::test]
async fn a_producer_that_broke_for_good_is_replaced() {
    let mut settings = settings();
    let cluster = MockCluster::new(1).expect("a cluster of this process");
    settings.brokers = cluster.bootstrap_servers();
    let names = &settings.topics;
    for name in [&names.events, &names.signals, &names.dead_letters] {
        cluster.create_topic(name, 1, 1).expect("created");
    }
    let producer = KafkaProducer::connect(settings, registry(1).subscribe()).await;
    let producer = producer.expect("connected");
    let append = || producer.append(Topic::Signals, vec![record(0, "a")]);
    append().await.expect("appended");
    // The broker says that it has lost what this producer wrote: it can never go on.
    let lost = RDKafkaRespErr::RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER;
    cluster.request_errors(RDKafkaApiKey::Produce, &[lost]);
    append()
        .await
        .expect_err("nobody knows whether it was appended");
    append().await.expect("another producer takes over");
}
