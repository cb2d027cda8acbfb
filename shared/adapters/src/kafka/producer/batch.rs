//! Delivery reports, gathered by batch.

use super::error;
use crate::{
    kafka::{context, frontier::from_millis},
    ports::{Appended, LogError},
};
use quipu_core::time::Micros;
use rdkafka::{
    ClientContext, Timestamp,
    config::RDKafkaLogLevel,
    error::KafkaError,
    message::Message,
    producer::{DeliveryResult, ProducerContext},
    types::RDKafkaErrorCode,
};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

/// The append time of a record that the log did not stamp.
pub(super) const UNSTAMPED: Micros = Micros::MIN;

type Answer = Result<Vec<Appended>, LogError>;

/// Records that were appended together, and what is known of each.
pub(super) struct Batch {
    topic: String,
    state: Mutex<State>,
}

struct State {
    appended: Vec<Option<Appended>>,
    left: usize,
    failure: Option<LogError>,
    answer: Option<oneshot::Sender<Answer>>,
}

impl Batch {
    /// A batch of so many records, and where its answer comes: once, after the last of them.
    pub(super) fn new(topic: &str, count: usize) -> (Arc<Self>, oneshot::Receiver<Answer>) {
        let (answer, answered) = oneshot::channel();
        let state = State {
            appended: vec![None; count],
            left: count,
            failure: None,
            answer: Some(answer),
        };
        let (topic, state) = (topic.to_owned(), Mutex::new(state));
        (Arc::new(Self { topic, state }), answered)
    }

    /// So many more records will never be acknowledged.
    pub(super) fn fail(&self, count: usize, failure: LogError) {
        let mut state = self.lock();
        state.failure.get_or_insert(failure);
        state.settle(count);
    }

    fn done(&self, index: usize, appended: Appended) {
        let mut state = self.lock();
        state.appended[index] = Some(appended);
        state.settle(1);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn settle(&mut self, count: usize) {
        self.left -= count;
        if self.left > 0 {
            return;
        }
        let Some(answer) = self.answer.take() else {
            return;
        };
        let appended = std::mem::take(&mut self.appended);
        let result = match self.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(appended.into_iter().flatten().collect()),
        };
        // Whoever asked may have gone.
        let _ = answer.send(result);
    }
}

/// A record's place in its batch, carried by the client until the record is acknowledged.
pub(super) struct Delivery {
    batch: Option<Arc<Batch>>,
    index: usize,
}

impl Delivery {
    pub(super) fn new(batch: &Arc<Batch>, index: usize) -> Self {
        let batch = Some(Arc::clone(batch));
        Self { batch, index }
    }

    /// The record was not taken: whoever made the batch says so for all that are left.
    pub(super) fn never_sent(mut self) {
        self.batch = None;
    }

    fn report(mut self, result: Result<Appended, KafkaError>) {
        let Some(batch) = self.batch.take() else {
            return;
        };
        match result {
            Ok(appended) => batch.done(self.index, appended),
            Err(error) => batch.fail(1, error::of_topic(&batch.topic, &error)),
        }
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        // A client that is dropped with records in its queue drops these, too.
        if let Some(batch) = self.batch.take() {
            let purged = KafkaError::MessageProduction(RDKafkaErrorCode::PurgeQueue);
            batch.fail(1, error::of_topic(&batch.topic, &purged));
        }
    }
}

/// Takes delivery reports.
pub(super) struct DeliveryContext;

impl ClientContext for DeliveryContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        context::log(level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        context::client_error(&error, reason);
    }
}

impl ProducerContext for DeliveryContext {
    type DeliveryOpaque = Box<Delivery>;

    fn delivery(&self, result: &DeliveryResult<'_>, delivery: Box<Delivery>) {
        let result = match result {
            Ok(message) => Ok(Appended {
                partition: u32::try_from(message.partition()).unwrap_or_default(),
                offset: u64::try_from(message.offset()).unwrap_or_default(),
                append_time: match message.timestamp() {
                    Timestamp::LogAppendTime(millis) => from_millis(millis),
                    Timestamp::CreateTime(_) | Timestamp::NotAvailable => UNSTAMPED,
                },
            }),
            Err((error, _)) => Err(error.clone()),
        };
        delivery.report(result);
    }
}
