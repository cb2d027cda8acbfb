//! Events straight to the events topic, as fast as the broker takes them.

use super::{
    events::{Shape, counter},
    installation::{Installation, NAMESPACE},
};
use crate::http::Failure;
use quipu_core::{
    event::{EventKey, Mutation},
    key::{key_bytes, partition, route},
    name::{CounterName, ItemKey, Namespace, Token},
    time::Micros,
};
use quipu_schemas::event::{self, CheckedEvent};
use rdkafka::{
    ClientConfig, ClientContext,
    error::KafkaError,
    producer::{BaseRecord, DeliveryResult, Producer, ProducerContext, ThreadedProducer},
    types::RDKafkaErrorCode,
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

/// Partitions of the events topic, as setup makes it.
pub(super) const PARTITIONS: u32 = 4;
const CALL_TIMEOUT: Duration = Duration::from_mins(1);

/// What was published.
pub(super) struct Published {
    /// The sum of each counter's deltas; no delta is zero or less.
    pub(super) counts: Vec<u64>,
    /// The offset after the last event of each partition.
    pub(super) ends: BTreeMap<u32, u64>,
    pub(super) took: Duration,
}

/// Counts events that the broker did not take.
#[derive(Clone, Default)]
struct Failures(Arc<AtomicU64>);

impl ClientContext for Failures {}

impl ProducerContext for Failures {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if result.is_err() {
            self.0.fetch_add(1, Relaxed);
        }
    }
}

/// Publishes so many events, each generated as it is handed to the client: the client's queue is
/// short, so that none is late when the log gets it.
pub(super) fn publish(
    installation: &Installation<'_>,
    events: u64,
    shape: Shape,
) -> Result<Published, Failure> {
    let failures = Failures::default();
    let producer: ThreadedProducer<Failures> = ClientConfig::new()
        .set("bootstrap.servers", &installation.stack.kafka)
        .set("enable.idempotence", "true")
        .set("compression.type", "lz4")
        .set("linger.ms", "5")
        .set("batch.size", "524288")
        .set("queue.buffering.max.messages", "50000")
        .create_with_context(failures.clone())?;
    let topic = installation.topic("events");
    let mut counts = vec![0; usize::try_from(shape.counters())?];
    let mut draw = shape.draw();
    let began = Instant::now();
    for number in 0..events {
        let drawn = draw();
        let delta = number % 3 + 1;
        counts[usize::try_from(drawn)?] += delta;
        let event = event(number, drawn, i64::try_from(delta)?)?;
        let key = key_bytes(&event.namespace, &event.counter);
        let to = partition(route(&key), PARTITIONS);
        let value = event::encode(&event);
        let record = BaseRecord::to(&topic).partition(i32::try_from(to)?);
        enqueue(&producer, record.key(&key).payload(&value))?;
    }
    producer.flush(CALL_TIMEOUT)?;
    let took = began.elapsed();
    let failed = failures.0.load(Relaxed);
    if failed > 0 {
        return Err(format!("Kafka did not take {failed} events").into());
    }
    let mut ends = BTreeMap::new();
    for id in 0..PARTITIONS {
        let client = producer.client();
        let (_, end) = client.fetch_watermarks(&topic, i32::try_from(id)?, CALL_TIMEOUT)?;
        ends.insert(id, u64::try_from(end)?);
    }
    Ok(Published { counts, ends, took })
}

/// An add that is made now.
pub(super) fn event(number: u64, drawn: u32, delta: i64) -> Result<CheckedEvent, Failure> {
    // As long as tokens of 64 random bits, and as scattered.
    let token = format!("{:016x}", number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    Ok(CheckedEvent {
        namespace: Namespace::new(NAMESPACE)?,
        counter: CounterName::new(&counter(drawn))?,
        key: EventKey {
            event_time: Micros::new(jiff::Timestamp::now().as_microsecond()),
            event_id: Token::new(&token)?,
            item_key: ItemKey::new("")?,
        },
        mutation: Mutation::Add(delta),
    })
}

fn enqueue(
    producer: &ThreadedProducer<Failures>,
    record: BaseRecord<'_, Vec<u8>, Vec<u8>>,
) -> Result<(), Failure> {
    let mut next = record;
    loop {
        match producer.send(next) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), refused)) => {
                next = refused;
                thread::sleep(Duration::from_millis(1));
            }
            Err((error, _)) => return Err(error.into()),
        }
    }
}
