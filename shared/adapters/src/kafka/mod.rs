//! The log on Apache Kafka: an idempotent producer, consumers in classic cooperative groups that
//! commit effective times beside their offsets (R2), and the topic that carries watermarks between
//! processes.
//!
//! Each consumer has a thread that polls, and does whatever else waits for a broker; the role
//! talks to it by channels, so that its own loop never blocks.

pub mod admin;
mod consumer;
mod context;
mod error;
mod frontier;
mod list;
mod lost;
mod producer;
mod reader;
mod record;
mod settings;
pub mod watermarks;

pub use consumer::KafkaConsumer;
pub use producer::KafkaProducer;
pub use settings::{KafkaSettings, TopicNames};

use crate::ports::LogError;
use quipu_core::time::Micros;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::sync::watch;

/// The registered partitions of the events topic, each with its initial effective time (R12), as
/// the control plane knows them.
pub type Registered = watch::Receiver<Arc<BTreeMap<u32, Micros>>>;

/// How long a call to a broker may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs calls that wait for a broker off the event loop.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LogError> + Send + 'static,
) -> Result<T, LogError> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.unwrap_or_else(|error| Err(LogError::Unavailable(format!("a call ended: {error}"))))
}
