//! Mutations to Kafka directly, past the server.

use crate::{
    batch::BatchItem,
    client::new_token,
    failure::{Error, Failure},
    mutate::{Receipt, What},
    options::OptionsError,
    token::Token,
    verdict::Applied,
};
use futures::future::join_all;
use quipu_core::{
    event::{EventKey, Mutation},
    key::key_bytes,
    name::{CounterName, ItemKey, NameError, Namespace, Token as EventId},
};
use quipu_schemas::event::{self, CheckedEvent};
use rdkafka::{
    ClientConfig,
    error::{KafkaError, RDKafkaErrorCode},
    producer::{FutureProducer, FutureRecord, Producer as _},
    util::Timeout,
};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// How to publish mutations to Kafka directly.
///
/// The answer is then [`Applied::Published`]: Kafka has the event, on all replicas that are in sync,
/// and it is there once, however often the broker had to be asked. Nobody has judged it, so this
/// promises less than the server's answer:
///
/// - An event that was late when Kafka stamped it, or of a namespace that does not exist or keeps no
///   events (`BEST_EFFORT`), does not count. It shows up among the dead letters only.
///   [`crate::Client::lookup`] tells what became of one.
/// - The client makes no new token for an event that was late: it does not hear of it.
///
/// Reads go to the server, as always.
///
/// ```
/// use quipu_client::{ClientOptions, KafkaOptions};
///
/// let kafka = KafkaOptions::new("127.0.0.1:9092").property("compression.type", "lz4");
/// let options = ClientOptions::new("http://127.0.0.1:7070").kafka(kafka);
/// ```
#[derive(Clone)]
pub struct KafkaOptions {
    brokers: String,
    topic: String,
    delivery: Duration,
    properties: BTreeMap<String, String>,
}

impl KafkaOptions {
    /// Brokers by their addresses, `host:port`, separated by commas.
    pub fn new(brokers: impl Into<String>) -> Self {
        Self {
            brokers: brokers.into(),
            topic: "quipu-events".to_owned(),
            delivery: Duration::from_secs(10),
            properties: BTreeMap::new(),
        }
    }

    /// The events topic; `quipu-events` by default.
    #[must_use]
    pub fn topic(self, topic: impl Into<String>) -> Self {
        let topic = topic.into();
        Self { topic, ..self }
    }

    /// How long an event may wait for its acknowledgement; 10 s by default. A wait beyond the
    /// namespace's accept limit makes an event late.
    #[must_use]
    pub fn delivery_timeout(self, delivery: Duration) -> Self {
        Self { delivery, ..self }
    }

    /// A property of librdkafka, such as those of TLS and SASL. What exactness depends on is set
    /// after these, and cannot be changed by them.
    #[must_use]
    pub fn property(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.insert(key.into(), value.into());
        self
    }

    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        for (key, value) in [
            ("linger.ms", "2"),
            ("queue.buffering.max.kbytes", "32768"),
            ("socket.timeout.ms", "10000"),
            ("reconnect.backoff.max.ms", "1000"),
        ] {
            config.set(key, value);
        }
        for (key, value) in &self.properties {
            config.set(key, value);
        }
        config.set("bootstrap.servers", &self.brokers);
        config.set("delivery.timeout.ms", self.delivery.as_millis().to_string());
        config.set("enable.idempotence", "true");
        config.set("acks", "all");
        config.set("allow.auto.create.topics", "false");
        config
    }
}

impl fmt::Debug for KafkaOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Any property may be a secret: only their names are shown.
        f.debug_struct("KafkaOptions")
            .field("brokers", &self.brokers)
            .field("topic", &self.topic)
            .field("delivery", &self.delivery)
            .field("properties", &self.properties.keys())
            .finish()
    }
}

/// A mutation to publish.
pub(crate) struct Outgoing<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) counter: &'a str,
    pub(crate) what: What,
    pub(crate) token: &'a Token,
    pub(crate) item_key: &'a str,
}

impl Outgoing<'_> {
    /// The key and the value of its record. Nothing that ingest would refuse is published.
    fn encode(&self) -> Result<(Vec<u8>, Vec<u8>), NameError> {
        let event = CheckedEvent {
            namespace: Namespace::new(self.namespace)?,
            counter: CounterName::new(self.counter)?,
            key: EventKey {
                event_time: self.token.generation_time(),
                event_id: EventId::new(self.token.text())?,
                item_key: ItemKey::new(self.item_key)?,
            },
            mutation: match self.what {
                What::Add(delta) => Mutation::Add(delta),
                What::Clear => Mutation::Clear,
            },
        };
        let key = key_bytes(&event.namespace, &event.counter);
        Ok((key, event::encode(&event)))
    }
}

/// Publishes to the events topic.
pub(crate) struct Publisher {
    options: KafkaOptions,
    producer: Mutex<FutureProducer>,
}

impl Publisher {
    pub(crate) fn new(options: &KafkaOptions) -> Result<Self, OptionsError> {
        let producer = options.config().create().map_err(|error| {
            OptionsError(format!("Kafka's client refuses its settings: {error}"))
        })?;
        Ok(Self {
            options: options.clone(),
            producer: Mutex::new(producer),
        })
    }

    /// Publishes one mutation, and resolves once it is acknowledged. Kafka's client retries by
    /// itself, up to the time for the delivery.
    pub(crate) async fn publish(&self, event: Outgoing<'_>) -> Result<Receipt, Error> {
        let token = event.token.clone();
        let (key, value) = event.encode().map_err(|error| {
            Error::unsent(Failure::invalid(error.to_string())).with_token(token.clone())
        })?;
        let record = FutureRecord::to(&self.options.topic)
            .key(&key)
            .payload(&value);
        let producer = self.producer();
        let sent = producer.send(record, Timeout::After(self.options.delivery));
        match sent.await {
            Ok(_) => Ok(Receipt {
                applied: Applied::Published,
                token,
            }),
            Err((error, _)) => {
                self.replace_broken(&producer);
                Err(failed(&error, &self.options).with_token(token))
            }
        }
    }

    /// Publishes adds, each with a result of its own.
    pub(crate) async fn publish_all(
        &self,
        namespace: &str,
        items: Vec<BatchItem>,
    ) -> Vec<Result<Receipt, Error>> {
        let publish = |item: BatchItem| async move {
            let token = item.token.unwrap_or_else(new_token);
            let event = Outgoing {
                namespace,
                counter: &item.counter,
                what: What::Add(item.delta),
                token: &token,
                item_key: &item.item_key,
            };
            self.publish(event).await
        };
        join_all(items.into_iter().map(publish)).await
    }

    fn producer(&self) -> FutureProducer {
        self.producer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// An idempotent producer that can no longer tell which records it has written refuses
    /// everything after. Another one takes its place; the events that failed may be there, and a
    /// retry with the same token counts once.
    fn replace_broken(&self, broken: &FutureProducer) {
        if broken.client().fatal_error().is_none() {
            return;
        }
        let mut producer = self.producer.lock().unwrap_or_else(PoisonError::into_inner);
        if producer.client().fatal_error().is_none() {
            return;
        }
        match self.options.config().create() {
            Ok(new) => *producer = new,
            Err(error) => tracing::error!(%error, "no other Kafka producer could be made"),
        }
    }
}

/// What did not get into the queue was not sent; all else may be there.
fn failed(error: &KafkaError, options: &KafkaOptions) -> Error {
    let topic = &options.topic;
    let message = format!("topic {topic}: {error}");
    match error.rdkafka_error_code() {
        Some(RDKafkaErrorCode::QueueFull) => Error::unsent(Failure::Unreachable {
            server: options.brokers.clone(),
            cause: message,
        }),
        Some(
            RDKafkaErrorCode::MessageSizeTooLarge
            | RDKafkaErrorCode::UnknownTopic
            | RDKafkaErrorCode::UnknownTopicOrPartition
            | RDKafkaErrorCode::UnknownPartition,
        ) => Error::unsent(Failure::invalid(message)),
        Some(RDKafkaErrorCode::TopicAuthorizationFailed) => {
            Error::unsent(Failure::Denied(crate::failure::Said {
                message,
                ..Default::default()
            }))
        }
        _ => Error {
            failure: Failure::unsettled(message),
            may_be_applied: true,
            token: None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_pass_through_but_never_change_what_exactness_depends_on() {
        let options = KafkaOptions::new("b:1")
            .property("sasl.password", "hunter2")
            .property("acks", "0")
            .property("enable.idempotence", "false");
        let config = options.config();
        assert_eq!(config.get("sasl.password"), Some("hunter2"));
        assert_eq!(config.get("acks"), Some("all"));
        assert_eq!(config.get("enable.idempotence"), Some("true"));
        assert!(!format!("{options:?}").contains("hunter2"));
    }
}
