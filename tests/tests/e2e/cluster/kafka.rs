//! Kafka through the ordinary client, which knows nothing of Quipu.

use rdkafka::{
    ClientConfig, ClientContext, Message, Offset, TopicPartitionList,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    consumer::{BaseConsumer, Consumer},
    error::{KafkaError, RDKafkaErrorCode},
    message::{BorrowedMessage, Header, Headers, OwnedHeaders},
    producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext},
};
use std::{
    collections::BTreeMap, sync::atomic::AtomicUsize, sync::atomic::Ordering, time::Duration,
};

const PATIENCE: Duration = Duration::from_secs(30);

fn client(brokers: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers);
    config
}

fn admin(brokers: &str) -> AdminClient<DefaultClientContext> {
    client(brokers).create().expect("a client")
}

/// Makes a topic with the brokers' defaults.
pub(super) fn make_topic(brokers: &str, name: &str, partitions: i32) {
    let new = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
    let (client, options) = (admin(brokers), AdminOptions::new());
    let made = futures::executor::block_on(client.create_topics([&new], &options));
    let made = made.expect("the brokers answer").remove(0);
    made.expect("the topic is new");
}

/// Deletes topics; what is left behind disturbs nobody.
pub(super) fn delete_topics(brokers: &str, names: &[&str]) {
    let (client, options) = (admin(brokers), AdminOptions::new());
    futures::executor::block_on(client.delete_topics(names, &options)).ok();
}

/// Counts what could not be delivered.
#[derive(Default)]
struct Deliveries {
    failed: AtomicUsize,
}

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if result.is_err() {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Publishes to one topic.
pub(super) struct Publisher {
    producer: BaseProducer<Deliveries>,
    topic: String,
}

impl Publisher {
    pub(super) fn new(brokers: &str, topic: &str) -> Self {
        let mut config = client(brokers);
        config.set("acks", "all").set("enable.idempotence", "true");
        // What waits here grows old.
        config.set("queue.buffering.max.messages", "2000");
        let producer = config.create_with_context(Deliveries::default());
        Self {
            producer: producer.expect("a client"),
            topic: topic.to_owned(),
        }
    }

    /// Publishes to a partition, as soon as the client's queue has room.
    pub(super) fn publish(&self, partition: i32, value: &[u8], headers: &[(&str, &[u8])]) {
        let headers = headers
            .iter()
            .fold(OwnedHeaders::new(), |headers, (key, value)| {
                let value = Some(*value);
                headers.insert(Header { key, value })
            });
        let mut record = BaseRecord::<(), [u8]>::to(&self.topic)
            .partition(partition)
            .payload(value)
            .headers(headers);
        while let Err((error, refused)) = self.producer.send(record) {
            let full = KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull);
            assert_eq!(error, full, "the record is a good one");
            self.producer.poll(Duration::from_millis(100));
            record = refused;
        }
        self.producer.poll(Duration::ZERO);
    }

    /// Returns when the log has everything.
    pub(super) fn flush(&self) {
        self.producer.flush(PATIENCE).expect("the brokers answer");
        let failed = self.producer.context().failed.load(Ordering::Relaxed);
        assert_eq!(failed, 0, "records could not be delivered");
    }
}

/// A record as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) partition: i32,
    pub(super) offset: i64,
    pub(super) timestamp_millis: i64,
    pub(super) value: Option<Vec<u8>>,
    pub(super) headers: Vec<(String, Vec<u8>)>,
}

impl Read {
    /// A header as text; the last one, if there are several.
    pub(super) fn header(&self, name: &str) -> &str {
        let named = self.headers.iter().rfind(|(header, _)| header == name);
        let (_, value) = named.unwrap_or_else(|| panic!("{name} is missing in {self:?}"));
        std::str::from_utf8(value).expect("text")
    }
}

impl From<BorrowedMessage<'_>> for Read {
    fn from(message: BorrowedMessage<'_>) -> Self {
        let headers = message.headers().into_iter().flat_map(Headers::iter);
        Self {
            partition: message.partition(),
            offset: message.offset(),
            timestamp_millis: message.timestamp().to_millis().expect("a time"),
            value: message.payload().map(<[u8]>::to_vec),
            headers: headers
                .map(|header| {
                    (
                        header.key.to_owned(),
                        header.value.unwrap_or_default().to_vec(),
                    )
                })
                .collect(),
        }
    }
}

/// Reads all that a topic holds now, by partition and offset.
pub(super) fn read_all(brokers: &str, topic: &str) -> BTreeMap<(i32, i64), Read> {
    let mut config = client(brokers);
    // No group is made: nothing is committed.
    config.set("group.id", "quipu-e2e-reader");
    config.set("enable.auto.commit", "false");
    config.set("enable.partition.eof", "true");
    let consumer: BaseConsumer = config.create().expect("a client");
    let metadata = consumer.fetch_metadata(Some(topic), PATIENCE);
    let metadata = metadata.expect("the brokers answer");
    let partitions = metadata.topics()[0].partitions();
    let mut list = TopicPartitionList::new();
    for partition in partitions {
        list.add_partition_offset(topic, partition.id(), Offset::Beginning)
            .expect("an offset");
    }
    consumer.assign(&list).expect("the partitions are there");
    let (mut open, mut read) = (partitions.len(), BTreeMap::new());
    while open > 0 {
        match consumer.poll(PATIENCE).expect("the brokers answer") {
            Ok(message) => {
                let one = Read::from(message);
                read.insert((one.partition, one.offset), one);
            }
            Err(KafkaError::PartitionEOF(_)) => open -= 1,
            Err(error) => panic!("{topic}: {error}"),
        }
    }
    read
}
