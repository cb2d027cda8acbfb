//! Kafka through the ordinary client, as any producer and any auditor uses it.

use crate::{
    failure::Failure,
    observed::{Logged, Place},
    poison,
};
use quipu_adapters::kafka::KafkaSettings;
use quipu_core::{key::key_bytes, name::Namespace};
use quipu_schemas::event::{self, CheckedEvent};
use rdkafka::{
    ClientConfig, Message, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
    error::KafkaError,
    message::{BorrowedMessage, Header, Headers, OwnedHeaders},
    metadata::MetadataTopic,
    producer::{FutureProducer, FutureRecord},
    util::Timeout,
};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// A call that takes longer has failed.
const CALL: Duration = Duration::from_secs(20);
/// Without a further record for this long, something is broken.
const PATIENCE: Duration = Duration::from_mins(1);
/// Marks what was appended on purpose and is no event, with the namespace of the run.
const POISON: &str = "quipu-certify";
/// How Quipu's own records without a value are marked.
const TICK: &str = "quipu-tick";

/// The end of each partition of a topic.
pub(crate) type Ends = BTreeMap<u32, u64>;

fn config(kafka: &KafkaSettings) -> ClientConfig {
    let mut config = ClientConfig::new();
    for (key, value) in &kafka.properties {
        config.set(key, value);
    }
    config.set("bootstrap.servers", &kafka.brokers);
    config.set("allow.auto.create.topics", "false");
    config.set("reconnect.backoff.max.ms", "1000");
    config
}

/// Publishes to the events topic, past the gateway.
#[derive(Clone)]
pub(crate) struct Publisher {
    producer: FutureProducer,
    topic: String,
    namespace: Namespace,
}

impl Publisher {
    pub(crate) fn new(kafka: &KafkaSettings, namespace: &Namespace) -> Result<Self, Failure> {
        let mut config = config(kafka);
        config.set("acks", "all").set("enable.idempotence", "true");
        config.set("linger.ms", "5");
        config.set("delivery.timeout.ms", "10000");
        Ok(Self {
            producer: config.create()?,
            topic: kafka.topics.events.clone(),
            namespace: namespace.clone(),
        })
    }

    /// Appends an event to a partition. Where the log has it, if it says so.
    pub(crate) async fn event(&self, event: &CheckedEvent, partition: u32) -> Option<Place> {
        let (key, value) = (
            key_bytes(&event.namespace, &event.counter),
            event::encode(event),
        );
        let record = FutureRecord::to(&self.topic).key(&key).payload(&value);
        self.append(record.partition(number(partition))).await
    }

    /// Appends what is no event.
    pub(crate) async fn poison(&self, poison: &poison::Record, partition: u32) -> Option<Place> {
        let mark = Header {
            key: POISON,
            value: Some(self.namespace.as_str()),
        };
        let mut headers = OwnedHeaders::new().insert(mark);
        if let Some(kind) = poison.content_type {
            headers = headers.insert(Header {
                key: "content-type",
                value: Some(kind),
            });
        }
        let mut record = FutureRecord::<[u8], [u8]>::to(&self.topic).headers(headers);
        record.payload = poison.value.as_deref();
        self.append(record.partition(number(partition))).await
    }

    async fn append<K, V>(&self, record: FutureRecord<'_, K, V>) -> Option<Place>
    where
        K: rdkafka::message::ToBytes + ?Sized,
        V: rdkafka::message::ToBytes + ?Sized,
    {
        let sent = self
            .producer
            .send(record, Timeout::After(CALL))
            .await
            .ok()?;
        let partition = u32::try_from(sent.partition).ok()?;
        Some((partition, u64::try_from(sent.offset).ok()?))
    }
}

/// Where each partition of a topic ends now.
pub(crate) fn ends(kafka: &KafkaSettings, topic: &str) -> Result<Ends, Failure> {
    let consumer: BaseConsumer = config(kafka).create()?;
    let metadata = consumer.fetch_metadata(Some(topic), CALL)?;
    let partitions = metadata.topics().iter().flat_map(MetadataTopic::partitions);
    let mut ends = Ends::new();
    for partition in partitions {
        let (_, end) = consumer.fetch_watermarks(topic, partition.id(), CALL)?;
        let partition = u32::try_from(partition.id()).unwrap_or_default();
        ends.insert(partition, u64::try_from(end).unwrap_or_default());
    }
    if ends.is_empty() {
        return Err(Failure::new(format!("Kafka has no topic {topic}")));
    }
    Ok(ends)
}

/// The records of a run in the events topic, between two of its ends.
pub(crate) fn events(
    kafka: &KafkaSettings,
    namespace: &Namespace,
    range: (&Ends, &Ends),
) -> Result<BTreeMap<Place, Logged>, Failure> {
    let mut events = BTreeMap::new();
    read(kafka, &kafka.topics.events, range, |place, message| {
        if let Some(logged) = logged(message, namespace) {
            events.insert(place, logged);
        }
    })?;
    Ok(events)
}

/// Why records were refused, by their places in the events topic.
pub(crate) fn dead_letters(
    kafka: &KafkaSettings,
    range: (&Ends, &Ends),
) -> Result<BTreeMap<Place, String>, Failure> {
    let mut letters = BTreeMap::new();
    read(kafka, &kafka.topics.dead_letters, range, |_, message| {
        let number = |name| text(message, name)?.parse::<u64>().ok();
        let partition = number("quipu-source-partition").and_then(|it| u32::try_from(it).ok());
        let source = partition.zip(number("quipu-source-offset"));
        if let (Some(source), Some(reason)) = (source, text(message, "quipu-reason")) {
            letters.insert(source, reason);
        }
    })?;
    Ok(letters)
}

/// What a record is to the run; nothing, if it is somebody else's.
fn logged(message: &BorrowedMessage<'_>, namespace: &Namespace) -> Option<Logged> {
    if text(message, TICK).is_some() {
        return None;
    }
    if let Some(of) = text(message, POISON) {
        return (of == namespace.as_str()).then_some(Logged::Poison);
    }
    let event = event::decode(message.payload()?).ok()?;
    (event.namespace == *namespace).then_some(Logged::Event(event.counter, event.key))
}

/// A header as text; the last one, if there are several.
fn text(message: &BorrowedMessage<'_>, name: &str) -> Option<String> {
    let headers = message.headers()?;
    let named = (0..headers.count()).rev().map(|at| headers.get(at));
    let value = named
        .filter(|header| header.key == name)
        .map(|header| header.value);
    let value = value.into_iter().next()?;
    Some(String::from_utf8_lossy(value.unwrap_or_default()).into_owned())
}

fn read(
    kafka: &KafkaSettings,
    topic: &str,
    (from, to): (&Ends, &Ends),
    mut each: impl FnMut(Place, &BorrowedMessage<'_>),
) -> Result<(), Failure> {
    let mut config = config(kafka);
    // No group is made: nothing is committed.
    config.set("group.id", "quipu-certify");
    config.set("enable.auto.commit", "false");
    config.set("enable.partition.eof", "true");
    config.set("isolation.level", "read_committed");
    config.set("auto.offset.reset", "error");
    let consumer: BaseConsumer = config.create()?;
    let mut list = TopicPartitionList::new();
    let mut open = BTreeMap::new();
    for (partition, to) in to {
        let from = from.get(partition).copied().unwrap_or_default();
        if from < *to {
            open.insert(number(*partition), *to);
            let offset = Offset::Offset(i64::try_from(from).unwrap_or(i64::MAX));
            list.add_partition_offset(topic, number(*partition), offset)?;
        }
    }
    consumer.assign(&list)?;
    let mut moved = Instant::now();
    while !open.is_empty() {
        match consumer.poll(Duration::from_millis(200)) {
            Some(Ok(message)) => {
                moved = Instant::now();
                let place = place(message.partition(), message.offset());
                let end = to.get(&place.0).copied().unwrap_or_default();
                if place.1 < end {
                    each(place, &message);
                }
                if place.1 + 1 >= end {
                    open.remove(&message.partition());
                }
            }
            // Nothing more is there: what is before the end is the mark of a transaction.
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                open.remove(&partition);
            }
            Some(Err(error)) if moved.elapsed() > PATIENCE => return Err(error.into()),
            None if moved.elapsed() > PATIENCE => {
                let problem = format!("{topic} cannot be read to its end: {open:?} is left");
                return Err(Failure::new(problem));
            }
            Some(Err(_)) | None => {}
        }
    }
    Ok(())
}

fn place(partition: i32, offset: i64) -> Place {
    let partition = u32::try_from(partition).unwrap_or_default();
    (partition, u64::try_from(offset).unwrap_or_default())
}

fn number(partition: u32) -> i32 {
    i32::try_from(partition).unwrap_or(i32::MAX)
}
