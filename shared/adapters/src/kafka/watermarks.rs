//! Watermarks between processes: a compacted topic that says how far each partition of the events
//! topic is decided and durable (R2, R12). Ingests publish what their board shows, workers and
//! gateways follow; a consumer without metadata in its commits falls back on it.

use super::{
    CALL_TIMEOUT, KafkaProducer, KafkaSettings, Registered, blocking, context::PlainContext, error,
    list, lost, producer::Outgoing, settings::misconfigured,
};
use crate::{
    metrics::stores::UNREGISTERED,
    ports::{Committed, LogError},
    retry::Backoff,
    watermarks::WatermarkBoard,
};
use quipu_schemas::watermark::{self, PartitionWatermark};
use rdkafka::{
    Message, Offset,
    consumer::{BaseConsumer, Consumer, StreamConsumer},
    error::KafkaError,
};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

/// Frontiers that move within this time are published together.
const PACE: Duration = Duration::from_millis(50);
/// How often to look for partitions that nobody registered.
const LOOK: Duration = Duration::from_secs(10);

/// Publishes the frontiers that this process's ingest commits, for ever: each board's newest.
pub async fn publish(log: KafkaProducer, board: WatermarkBoard) {
    let mut frontiers = board.frontiers();
    let mut published = BTreeMap::new();
    loop {
        let newest = frontiers.borrow_and_update().clone();
        let moved = newest
            .iter()
            .filter(|(partition, frontier)| published.get(*partition) != Some(*frontier));
        let moved: Vec<(u32, Committed)> = moved.map(|(id, at)| (*id, *at)).collect();
        if moved.is_empty() {
            if frontiers.changed().await.is_err() {
                return;
            }
            continue;
        }
        let mut backoff = Backoff::new("publish watermarks");
        while let Err(error) = append(&log, &moved).await {
            backoff.wait(&error).await;
        }
        published = newest;
        tokio::time::sleep(PACE).await;
    }
}

/// Appends watermark records.
///
/// # Errors
/// When the topic does not take them; some may have been appended.
pub(super) async fn append(
    log: &KafkaProducer,
    frontiers: &[(u32, Committed)],
) -> Result<(), LogError> {
    let topics = &log.settings().topics;
    let outgoing = frontiers.iter().map(|(partition, frontier)| Outgoing {
        partition: 0,
        key: Some(key(&topics.events, *partition).into()),
        value: Some(encode(&topics.events, *partition, *frontier).into()),
        headers: None,
    });
    log.send_all(&topics.watermarks, outgoing).await.map(drop)
}

fn key(topic: &str, partition: u32) -> Vec<u8> {
    format!("{topic}/{partition}").into_bytes()
}

fn encode(topic: &str, partition: u32, frontier: Committed) -> Vec<u8> {
    watermark::encode(&PartitionWatermark {
        topic: topic.to_owned(),
        partition,
        next_offset: frontier.next_offset,
        effective_time: frontier.effective_time,
    })
}

/// The partition and frontier of a record that is about this topic.
fn decode(topic: &str, value: &[u8]) -> Option<(u32, Committed)> {
    let watermark = watermark::decode(value).ok()?;
    let frontier = Committed {
        next_offset: watermark.next_offset,
        effective_time: watermark.effective_time,
    };
    (watermark.topic == topic).then_some((watermark.partition, frontier))
}

/// Reads the whole topic into a board and goes on, for ever. The board stops closing while the
/// events topic has a partition that is not registered, and learns of those that are.
///
/// # Errors
/// When the topic is missing, or the settings are refused.
pub async fn follow(
    settings: KafkaSettings,
    registered: Registered,
    board: WatermarkBoard,
) -> Result<(), LogError> {
    let mut consumer = from_beginning(&settings).await?;
    loop {
        let topic = settings.topics.watermarks.clone();
        let lost = lost::until_lost(
            Arc::downgrade(&consumer),
            settings.clone(),
            topic,
            |consumer: &StreamConsumer<_>, topic| lost::answers(consumer.client(), topic),
        );
        tokio::select! {
            () = receive(&consumer, &settings, &board) => unreachable!("it reads for ever"),
            () = watch_partitions(&consumer, &settings, registered.clone(), &board) => {
                unreachable!("it watches for ever")
            }
            () = lost => lost::tell("watermarks"),
        }
        let mut backoff = Backoff::new("follow watermarks with another client");
        consumer = loop {
            match from_beginning(&settings).await {
                Err(error @ LogError::Unavailable(_)) => backoff.wait(&error).await,
                made => break made?,
            }
        };
    }
}

type Following = Arc<StreamConsumer<PlainContext>>;

/// A consumer of the whole topic. Boards keep the furthest watermark of each partition, so reading
/// it again changes nothing.
async fn from_beginning(settings: &KafkaSettings) -> Result<Following, LogError> {
    let consumer = reading(settings).create_with_context(PlainContext);
    let consumer = Arc::new(consumer.map_err(|error| misconfigured(&error))?);
    let count = count(&consumer, &settings.topics.watermarks).await?;
    assign(&*consumer, &settings.topics.watermarks, count)?;
    Ok(consumer)
}

async fn receive(
    consumer: &StreamConsumer<PlainContext>,
    settings: &KafkaSettings,
    board: &WatermarkBoard,
) {
    let (topic, events) = (&settings.topics.watermarks, &settings.topics.events);
    let mut backoff = Backoff::new("read watermarks");
    loop {
        match consumer.recv().await {
            Ok(message) => {
                let watermark = message.payload().and_then(|value| decode(events, value));
                if let Some((partition, frontier)) = watermark {
                    board.publish(partition, frontier);
                }
                backoff = Backoff::new("read watermarks");
            }
            Err(KafkaError::PartitionEOF(_)) => {}
            // The client goes on by itself, and puts an error for each of its attempts into the
            // queue: a pause at each would last for long after the brokers are back.
            Err(error) => {
                backoff.failed(&error::of_topic(topic, &error));
                tokio::task::yield_now().await;
            }
        }
    }
}

async fn watch_partitions(
    consumer: &Following,
    settings: &KafkaSettings,
    mut registered: Registered,
    board: &WatermarkBoard,
) {
    let mut told = Vec::new();
    loop {
        let known = registered.borrow_and_update().clone();
        board.register(known.iter().map(|(partition, at)| (*partition, *at)));
        match count(consumer, &settings.topics.events).await {
            Ok(count) => {
                let unknown: Vec<u32> = (0..count).filter(|id| !known.contains_key(id)).collect();
                metrics::gauge!(UNREGISTERED, "topic" => settings.topics.events.clone())
                    .set(f64::from(u32::try_from(unknown.len()).unwrap_or(u32::MAX)));
                if unknown.is_empty() {
                    board.release();
                } else {
                    board.hold();
                    if told != unknown {
                        tracing::error!(
                            partitions = ?unknown,
                            topic = settings.topics.events,
                            "partitions exist that are not registered: no window closes until \
                             they are; register them with `quipu admin add-partitions`"
                        );
                    }
                }
                told = unknown;
            }
            Err(error) => tracing::debug!(%error, "could not ask for the number of partitions"),
        }
        let changed = tokio::time::timeout(LOOK, registered.changed()).await;
        if changed.is_ok_and(|changed| changed.is_err()) {
            tokio::time::sleep(LOOK).await;
        }
    }
}

async fn count(consumer: &Following, topic: &str) -> Result<u32, LogError> {
    let (consumer, topic) = (Arc::clone(consumer), topic.to_owned());
    blocking(move || partitions(&*consumer, &topic)).await
}

/// The newest watermark record of a partition of the events topic. Blocks.
pub(super) fn newest(
    settings: &KafkaSettings,
    events: &str,
    partition: u32,
) -> Result<Option<Committed>, LogError> {
    let topic = &settings.topics.watermarks;
    let consumer: BaseConsumer<PlainContext> = reading(settings)
        .create_with_context(PlainContext)
        .map_err(|error| misconfigured(&error))?;
    let mut open = partitions(&consumer, topic)?;
    assign(&consumer, topic, open)?;
    let mut newest: Option<Committed> = None;
    let mut until = Instant::now() + CALL_TIMEOUT;
    while open > 0 {
        let left = until.saturating_duration_since(Instant::now());
        match consumer.poll(left) {
            Some(Ok(message)) => {
                until = Instant::now() + CALL_TIMEOUT;
                let found = message.payload().and_then(|value| decode(events, value));
                if let Some((_, frontier)) = found.filter(|(id, _)| *id == partition) {
                    let later = newest.filter(|it| it.next_offset > frontier.next_offset);
                    newest = later.or(Some(frontier));
                }
            }
            Some(Err(KafkaError::PartitionEOF(_))) => open -= 1,
            Some(Err(error)) => return Err(error::of_topic(topic, &error)),
            None if left.is_zero() => {
                let text = format!("topic {topic}: it was not read to its end in time");
                return Err(LogError::Unavailable(text));
            }
            None => {}
        }
    }
    Ok(newest)
}

/// A consumer that assigns partitions itself: its group has no members and no commits.
fn reading(settings: &KafkaSettings) -> rdkafka::ClientConfig {
    settings.consumer("quipu-watermarks")
}

fn partitions<C: Consumer<PlainContext>>(consumer: &C, topic: &str) -> Result<u32, LogError> {
    let metadata = consumer.fetch_metadata(Some(topic), CALL_TIMEOUT);
    let metadata = metadata.map_err(|error| error::of_topic(topic, &error))?;
    let found = metadata.topics().iter().find(|found| found.name() == topic);
    let count = found.map_or(0, |found| found.partitions().len());
    if count == 0 {
        return Err(error::missing(topic));
    }
    Ok(u32::try_from(count).expect("Kafka counts partitions in 31 bits"))
}

fn assign<C: Consumer<PlainContext>>(
    consumer: &C,
    topic: &str,
    partitions: u32,
) -> Result<(), LogError> {
    list::at(topic, (0..partitions).map(|id| (id, Offset::Beginning)))
        .and_then(|list| consumer.assign(&list))
        .map_err(|error| error::of_topic(topic, &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_core::{time::Micros, watermark::Watermarks};
    use rdkafka::{
        mocking::MockCluster,
        producer::{DefaultProducerContext, FutureProducer, FutureRecord},
    };

    #[test]
    fn a_watermark_reads_back_and_those_of_other_topics_are_passed() {
        let frontier = Committed {
            next_offset: 7,
            effective_time: Micros::new(-9),
        };
        let value = encode("events", 3, frontier);
        assert_eq!(decode("events", &value), Some((3, frontier)));
        assert_eq!(decode("other", &value), None);
        assert_eq!(decode("events", b"\xff"), None);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_errors_of_an_outage_that_is_over_delay_no_watermark() {
        let cluster: MockCluster<'_, DefaultProducerContext> = MockCluster::new(1).unwrap();
        let mut settings = KafkaSettings {
            brokers: cluster.bootstrap_servers(),
            ..KafkaSettings::default()
        };
        settings.topics.watermarks = "marks".to_owned();
        cluster.create_topic("marks", 1, 1).unwrap();
        let consumer = from_beginning(&settings).await.unwrap();
        cluster.broker_down(1).unwrap();
        // Meanwhile the client puts an error for each of its attempts into its queue.
        tokio::time::sleep(Duration::from_secs(15)).await;
        cluster.broker_up(1).unwrap();
        let producer: FutureProducer = settings.producer().create().unwrap();
        let frontier = Committed {
            next_offset: 7,
            effective_time: Micros::new(50),
        };
        let value = encode(&settings.topics.events, 0, frontier);
        let record = FutureRecord::to("marks").key("k").payload(&value);
        producer.send(record, CALL_TIMEOUT).await.unwrap();
        let board = WatermarkBoard::new(Watermarks::new([(0, Micros::new(1))]));
        let mut watermarks = board.subscribe();
        let moved = async {
            let low = Some(frontier.effective_time);
            watermarks
                .wait_for(|known| known.low() == low)
                .await
                .map(|_| ())
        };
        tokio::select! {
            () = receive(&consumer, &settings, &board) => unreachable!("it reads for ever"),
            moved = tokio::time::timeout(Duration::from_secs(5), moved) => {
                moved.expect("it reads what is there").unwrap();
            }
        }
    }
}
