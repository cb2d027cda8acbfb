//! Events to Kafka directly: a broker in the test's process takes them.

use quipu_client::{
    Applied, BatchItem, Client, ClientOptions, Failure, KafkaOptions, Micros, Token,
};
use quipu_core::{
    event::Mutation,
    key::key_bytes,
    name::{CounterName, Namespace},
};
use quipu_schemas::event;
use rdkafka::{
    ClientConfig, Message,
    consumer::{BaseConsumer, Consumer},
    mocking::MockCluster,
    producer::DefaultProducerContext,
};
use std::time::{Duration, Instant};

const TOPIC: &str = "quipu-events";

fn client(brokers: &str) -> Client {
    let kafka = KafkaOptions::new(brokers).delivery_timeout(Duration::from_secs(5));
    Client::new(ClientOptions::new("http://127.0.0.1:1").kafka(kafka)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn adds_and_clears_become_events_under_the_key_of_their_counter() {
    let cluster: MockCluster<'_, DefaultProducerContext> = MockCluster::new(1).unwrap();
    cluster.create_topic(TOPIC, 3, 1).unwrap();
    let client = client(&cluster.bootstrap_servers());
    let token = Token::given("order-17", Micros::new(1_769_860_800_000_000));
    let add = client
        .add("web", "views", -3)
        .with_token(token.clone())
        .item_key("k");
    let receipt = add.await.unwrap();
    assert_eq!(
        (receipt.applied, receipt.token),
        (Applied::Published, token)
    );
    client.clear("web", "views").await.unwrap();
    let items = (0..20)
        .map(|delta| BatchItem::new("views", delta))
        .collect();
    let results = client.batch_add("web", items).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");

    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", cluster.bootstrap_servers())
        .set("group.id", "test")
        .set("auto.offset.reset", "earliest")
        .create()
        .unwrap();
    consumer.subscribe(&[TOPIC]).unwrap();
    let (web, views) = (
        Namespace::new("web").unwrap(),
        CounterName::new("views").unwrap(),
    );
    let mut mutations = Vec::new();
    let started = Instant::now();
    while mutations.len() < 22 {
        assert!(started.elapsed() < Duration::from_secs(30), "{mutations:?}");
        // Without a record it was some other event of the client.
        let Some(record) = consumer.poll(Duration::from_secs(1)) else {
            continue;
        };
        let record = record.unwrap();
        assert_eq!(record.key(), Some(&key_bytes(&web, &views)[..]));
        let event = event::decode(record.payload().unwrap()).unwrap();
        if event.key.event_id.as_str() == "order-17" {
            assert_eq!(event.key.item_key.as_str(), "k");
            assert_eq!(event.key.event_time, Micros::new(1_769_860_800_000_000));
            assert_eq!(event.mutation, Mutation::Add(-3));
        }
        mutations.push(event.mutation);
    }
    assert_eq!(
        mutations
            .iter()
            .filter(|one| **one == Mutation::Clear)
            .count(),
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ingest_would_refuse_is_not_published_and_what_is_unacknowledged_is_unsettled() {
    let kafka = KafkaOptions::new("127.0.0.1:1").delivery_timeout(Duration::from_millis(500));
    let client = Client::new(ClientOptions::new("http://127.0.0.1:1").kafka(kafka)).unwrap();
    let error = client.add("web", "", 1).await.unwrap_err();
    assert!(matches!(error.failure, Failure::Refused(_)), "{error:?}");
    let error = client.add("web", "views", 1).await.unwrap_err();
    assert!(
        matches!(error.failure, Failure::Unsettled { .. }),
        "{error:?}"
    );
    assert!(error.may_be_applied && error.token.is_some());
}
