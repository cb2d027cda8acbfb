//! The producer's side: idempotent, with a bounded queue, and an answer for each batch rather than
//! for each record.

mod batch;

use super::{
    CALL_TIMEOUT, Registered, blocking, error, list, lost, record,
    settings::{KafkaSettings, misconfigured},
};
use crate::ports::{Appended, LogError, NewRecord, Producer, Topic};
use batch::{Batch, Delivery, DeliveryContext};
use bytes::Bytes;
use rdkafka::{
    error::KafkaError,
    message::OwnedHeaders,
    producer::{BaseRecord, Producer as _, ThreadedProducer},
    types::RDKafkaErrorCode,
};
use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

type Client = ThreadedProducer<DeliveryContext>;

/// How long to wait for room in the client's queue before looking again.
const QUEUE_FULL_PAUSE: Duration = Duration::from_millis(5);
/// How often to ask how many partitions the events topic has.
const REFRESH: Duration = Duration::from_secs(30);

/// Appends to Kafka. Cheap to clone; all clones share one client.
#[derive(Clone)]
pub struct KafkaProducer {
    shared: Arc<Shared>,
}

struct Shared {
    settings: KafkaSettings,
    registered: Registered,
    client: Mutex<Arc<Client>>,
    event_partitions: AtomicU32,
    signal_partitions: u32,
    dead_letter_partitions: u32,
}

impl fmt::Debug for KafkaProducer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaProducer")
            .field("settings", &self.shared.settings)
            .finish_non_exhaustive()
    }
}

/// A record on its way into the client's queue.
pub(super) struct Outgoing {
    pub(super) partition: u32,
    pub(super) key: Option<Bytes>,
    pub(super) value: Option<Bytes>,
    pub(super) headers: Option<OwnedHeaders>,
}

impl KafkaProducer {
    /// Connects, and learns how many partitions the topics have.
    ///
    /// # Errors
    /// When the cluster cannot be reached or lacks a topic, no partition of the events topic is
    /// registered, or the settings are refused.
    pub async fn connect(
        settings: KafkaSettings,
        registered: Registered,
    ) -> Result<Self, LogError> {
        let client = Arc::new(connect(&settings)?);
        let counts = [Topic::Events, Topic::Signals, Topic::DeadLetters];
        let (asked, names) = (Arc::clone(&client), settings.topics.clone());
        let counts = blocking(move || {
            let count = |topic| partitions(&asked, names.name(topic));
            Ok([count(counts[0])?, count(counts[1])?, count(counts[2])?])
        });
        let [events, signals, dead_letters] = counts.await?;
        let shared = Arc::new(Shared {
            settings,
            registered,
            client: Mutex::new(client),
            event_partitions: AtomicU32::new(events),
            signal_partitions: signals,
            dead_letter_partitions: dead_letters,
        });
        tokio::spawn(refresh(Arc::downgrade(&shared)));
        tokio::spawn(watch_over(Arc::downgrade(&shared)));
        let producer = Self { shared };
        if producer.partitions(Topic::Events) == 0 {
            return Err(LogError::Damaged(format!(
                "no partition of {} is registered; set the cluster up with `quipu admin setup`",
                producer.settings().topics.events
            )));
        }
        Ok(producer)
    }

    /// The names and limits that this producer works with.
    pub fn settings(&self) -> &KafkaSettings {
        &self.shared.settings
    }

    /// Resolves once the cluster answers.
    ///
    /// # Errors
    /// When it does not, or the events topic is missing.
    pub async fn ping(&self) -> Result<(), LogError> {
        let (client, topics) = (self.shared.client(), self.shared.settings.topics.clone());
        let asked = blocking(move || partitions(&client, &topics.events));
        asked.await.map(drop)
    }

    /// Appends records to a topic by name, and resolves once all are acknowledged.
    pub(super) async fn send_all(
        &self,
        topic: &str,
        records: impl ExactSizeIterator<Item = Outgoing> + Send,
    ) -> Result<Vec<Appended>, LogError> {
        let client = self.shared.client();
        let count = records.len();
        let (batch, answered) = Batch::new(topic, count);
        for (index, record) in records.enumerate() {
            let delivery = Box::new(Delivery::new(&batch, index));
            if let Err(error) = enqueue(&client, topic, record, delivery).await {
                batch.fail(count - index, error::of_topic(topic, &error));
                break;
            }
        }
        let answer = answered.await;
        let answer = answer.unwrap_or_else(|_| {
            Err(LogError::Unavailable(format!(
                "topic {topic}: the client was replaced before it answered"
            )))
        });
        if answer.is_err() {
            self.shared.replace_broken(&client);
        }
        answer
    }
}

impl Shared {
    fn client(&self) -> Arc<Client> {
        Arc::clone(&self.client.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// An idempotent producer that can no longer tell which records it has written says so, and
    /// refuses everything after. Another one takes its place.
    fn replace_broken(&self, broken: &Arc<Client>) {
        let Some((_, reason)) = broken.client().fatal_error() else {
            return;
        };
        if self.replace(broken) {
            tracing::error!(
                reason,
                "the Kafka producer broke for good; another takes its place"
            );
        }
    }

    /// Puts another client in the place of this one. Returns whether it did: others may
    /// have done so before.
    fn replace(&self, broken: &Arc<Client>) -> bool {
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&client, broken) {
            return false;
        }
        match connect(&self.settings) {
            Ok(new) => *client = Arc::new(new),
            Err(error) => {
                tracing::error!(%error, "no other producer could be made");
                return false;
            }
        }
        true
    }
}

fn connect(settings: &KafkaSettings) -> Result<Client, LogError> {
    settings
        .producer()
        .create_with_context(DeliveryContext)
        .map_err(|error| misconfigured(&error))
}

fn partitions(client: &Client, topic: &str) -> Result<u32, LogError> {
    let metadata = client.client().fetch_metadata(Some(topic), CALL_TIMEOUT);
    let metadata = metadata.map_err(|error| error::of_topic(topic, &error))?;
    let found = metadata.topics().iter().find(|found| found.name() == topic);
    let count = found.map_or(0, |found| found.partitions().len());
    if count == 0 {
        return Err(error::missing(topic));
    }
    Ok(u32::try_from(count).expect("Kafka counts partitions in 31 bits"))
}

/// Follows a growing events topic for as long as the producer lives.
async fn refresh(shared: Weak<Shared>) {
    loop {
        tokio::time::sleep(REFRESH).await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        let work = move || {
            let count = partitions(&shared.client(), &shared.settings.topics.events)?;
            shared.event_partitions.fetch_max(count, Relaxed);
            Ok(())
        };
        if let Err(error) = blocking(work).await {
            tracing::debug!(%error, "could not ask for the number of partitions");
        }
    }
}

/// Replaces clients that have lost their cluster, for as long as the producer lives. Callers hear
/// of what still waited in such a client when its time is up, and append it again.
async fn watch_over(shared: Weak<Shared>) {
    loop {
        let Some((client, settings)) = shared.upgrade().map(|shared| {
            let client = Arc::downgrade(&shared.client());
            (client, shared.settings.clone())
        }) else {
            return;
        };
        let topic = settings.topics.events.clone();
        lost::until_lost(client.clone(), settings, topic, |client: &Client, topic| {
            lost::answers(client.client(), topic)
        })
        .await;
        let (shared, client) = (shared.upgrade(), client.upgrade());
        if let Some((shared, lost)) = shared.zip(client) {
            let replaced = blocking(move || Ok(shared.replace(&lost)));
            if replaced.await.is_ok_and(|replaced| replaced) {
                lost::tell("producer");
            }
        }
    }
}

async fn enqueue(
    client: &Client,
    topic: &str,
    record: Outgoing,
    delivery: Box<Delivery>,
) -> Result<(), KafkaError> {
    let mut next = BaseRecord::with_opaque_to(topic, delivery);
    next.partition = Some(list::number(record.partition));
    next.key = record.key.as_deref();
    next.payload = record.value.as_deref();
    next.headers = record.headers;
    loop {
        match client.send(next) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), refused)) => {
                next = refused;
                tokio::time::sleep(QUEUE_FULL_PAUSE).await;
            }
            Err((error, refused)) => {
                refused.delivery_opaque.never_sent();
                return Err(error);
            }
        }
    }
}

impl Producer for KafkaProducer {
    fn partitions(&self, topic: Topic) -> u32 {
        match topic {
            // Only partitions that are registered are read (R12).
            Topic::Events => {
                let registered = self.shared.registered.borrow();
                let in_order = (0..)
                    .zip(registered.keys())
                    .take_while(|(at, id)| at == *id);
                let registered = u32::try_from(in_order.count()).unwrap_or(u32::MAX);
                registered.min(self.shared.event_partitions.load(Relaxed))
            }
            Topic::Signals => self.shared.signal_partitions,
            Topic::DeadLetters => self.shared.dead_letter_partitions,
        }
    }

    async fn append(
        &self,
        topic: Topic,
        records: Vec<NewRecord>,
    ) -> Result<Vec<Appended>, LogError> {
        let settings = &self.shared.settings;
        let limit = settings.limit(topic);
        let sizes = records.iter().map(|record| record::size(&record.body));
        if let Some(bytes) = sizes.max().filter(|bytes| *bytes > limit) {
            return Err(LogError::TooLarge { bytes, limit });
        }
        if records.is_empty() {
            return Ok(Vec::new());
        }
        let name = settings.topics.name(topic);
        let outgoing = records.into_iter().map(|new| {
            let (value, headers) = record::parts(new.body);
            Outgoing {
                partition: new.partition,
                key: None,
                value,
                headers,
            }
        });
        let appended = self.send_all(name, outgoing).await?;
        if topic == Topic::Events
            && appended
                .iter()
                .any(|one| one.append_time == batch::UNSTAMPED)
        {
            return Err(LogError::Unavailable(
                super::admin::not_log_stamped(name).to_string(),
            ));
        }
        Ok(appended)
    }
}
