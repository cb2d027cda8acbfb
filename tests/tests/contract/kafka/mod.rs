//! The log on a real Kafka: topics of its own for each test, and what only Kafka can do.

mod groups;
mod starts;
mod topics;

use crate::log::{LogUnderTest, START};
use quipu_adapters::{
    kafka::{
        KafkaConsumer, KafkaProducer, KafkaSettings, TopicNames,
        admin::{self, TopicSettings},
    },
    ports::{Committed, Consumer, Polled},
};
use quipu_core::time::Micros;
use rdkafka::{
    ClientConfig,
    admin::{AdminClient, AdminOptions},
    client::DefaultClientContext,
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::sync::watch;

pub(crate) const TOPICS: TopicSettings = TopicSettings {
    event_partitions: 2,
    signal_partitions: 2,
    replication_factor: 1,
    min_insync_replicas: 1,
    retention_hours: 1,
};

/// Topics of one test, of which the first partitions are registered.
pub(crate) struct OnKafka {
    settings: KafkaSettings,
    producer: KafkaProducer,
    registry: watch::Sender<Arc<BTreeMap<u32, Micros>>>,
}

/// Deletes the topics of a test.
pub(crate) struct Cleanup(KafkaSettings);

fn brokers() -> String {
    std::env::var("QUIPU_TEST_KAFKA").unwrap_or_else(|_| "127.0.0.1:19092".to_owned())
}

/// Names that no other test has.
pub(crate) fn settings() -> KafkaSettings {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let now = std::time::UNIX_EPOCH
        .elapsed()
        .expect("after 1970")
        .as_millis();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = |what: &str| format!("quipu-test-{}-{now}-{number}-{what}", std::process::id());
    KafkaSettings {
        brokers: brokers(),
        client_id: "quipu-test".to_owned(),
        topics: TopicNames {
            events: name("events"),
            signals: name("signals"),
            watermarks: name("watermarks"),
            dead_letters: name("dlq"),
        },
        ..KafkaSettings::default()
    }
}

pub(crate) fn registry(count: u32) -> watch::Sender<Arc<BTreeMap<u32, Micros>>> {
    watch::Sender::new(Arc::new((0..count).map(|id| (id, START)).collect()))
}

pub(crate) async fn open() -> (OnKafka, Cleanup) {
    let settings = settings();
    let made = admin::setup(&settings, TOPICS).await;
    let made = made.unwrap_or_else(|error| {
        panic!(
            "no Kafka at {}: {error}; start the stack: scripts/stack up",
            brokers()
        )
    });
    assert_eq!(made.len(), 4);
    let cleanup = Cleanup(settings.clone());
    let registry = registry(2);
    let producer = KafkaProducer::connect(settings.clone(), registry.subscribe());
    let producer = producer.await.expect("connected");
    let log = OnKafka {
        settings,
        producer,
        registry,
    };
    (log, cleanup)
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        let names = &self.0.topics;
        let all: [&str; 4] = [
            &names.events,
            &names.signals,
            &names.watermarks,
            &names.dead_letters,
        ];
        // What is left behind disturbs nobody.
        let client = admin_client();
        let deleted = client.delete_topics(&all, &AdminOptions::new());
        futures::executor::block_on(deleted).ok();
    }
}

pub(crate) fn admin_client() -> AdminClient<DefaultClientContext> {
    raw().create().expect("a client")
}

/// A client that knows nothing of Quipu.
pub(crate) fn raw() -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers());
    config
}

impl OnKafka {
    pub(crate) async fn join(&self, group: &str) -> KafkaConsumer {
        let registered = self.registry.subscribe();
        let joined = KafkaConsumer::events(self.settings.clone(), group, registered).await;
        joined.expect("joined")
    }
}

impl LogUnderTest for OnKafka {
    type Producer = KafkaProducer;
    type Consumer = KafkaConsumer;

    async fn producer(&self) -> KafkaProducer {
        self.producer.clone()
    }

    async fn consumer(&self) -> KafkaConsumer {
        // Groups are named after topics, so that tests never share one.
        self.join(&self.settings.topics.events).await
    }
}

pub(crate) fn at(next_offset: u64, micros: i64) -> Committed {
    Committed {
        next_offset,
        effective_time: Micros::new(micros),
    }
}

/// Polls until something else comes than records and ends.
pub(crate) async fn next_change(consumer: &mut KafkaConsumer) -> Polled {
    let change = async {
        loop {
            match consumer.poll().await.expect("polled") {
                Polled::Records { .. } | Polled::End { .. } => {}
                change => return change,
            }
        }
    };
    let change = tokio::time::timeout(Duration::from_secs(20), change).await;
    change.expect("a change of the group")
}
