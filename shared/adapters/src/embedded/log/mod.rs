//! The embedded log: topics of partitions with a clock of their own, written by one thread with
//! group commit, and dropped in whole segments once their consumers have finished them.
//!
//! What must hold after a crash follows from one journal: a group of appends is one atomic step
//! in it, commits stand behind the appends before them, and nobody is answered and no consumer
//! sees a record before it is synced. A segment is dropped only when the frontiers that passed it
//! are synced.

mod clock;
mod consumer;
mod format;
mod group;
mod meta;
mod producer;
mod request;
mod store;
mod tail;
mod topic;
mod writer;

pub use consumer::EmbeddedConsumer;
pub use producer::EmbeddedProducer;
pub(super) use request::Change;
pub(super) use store::{Beginning, Store};

use crate::{
    clock::Clock,
    embedded::LogSettings,
    ports::{Committed, Topic},
};
use clock::LogClock;
use quipu_core::time::Micros;
use std::{fmt, io, sync::Arc, thread::JoinHandle};
use tokio::sync::mpsc;
use writer::Writer;

/// The running log. Dropping it syncs and ends its thread; its producers then refuse.
pub(super) struct Log {
    producer: EmbeddedProducer,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").finish_non_exhaustive()
    }
}

impl Log {
    /// Starts the writer. No time at or before `newest_change` is given to an append that comes
    /// after it.
    pub(super) fn start(
        store: Store,
        settings: &LogSettings,
        clock: Clock,
        newest_change: Micros,
    ) -> io::Result<Self> {
        let clock = LogClock::resume(clock, store.newest_time.max(newest_change));
        let store = Arc::new(store);
        let writer = Writer::new(Arc::clone(&store), clock, settings.segment_bytes);
        let (sender, requests) = mpsc::unbounded_channel();
        let thread = std::thread::Builder::new().name("quipu-log".to_owned());
        let thread = thread.spawn(move || writer.run(requests))?;
        let producer = EmbeddedProducer::new(
            store,
            sender,
            settings.queue_bytes,
            settings.max_record_bytes,
        );
        Ok(Self {
            producer,
            thread: Some(thread),
        })
    }

    pub(super) fn producer(&self) -> EmbeddedProducer {
        self.producer.clone()
    }

    pub(super) fn consumer(&self, topic: Topic, group: &str) -> EmbeddedConsumer {
        EmbeddedConsumer::new(self.producer(), topic, group)
    }

    pub(super) fn segments(&self, topic: Topic) -> usize {
        self.producer.store.topic(topic).segments().len()
    }

    /// A group's frontier in each partition: the committed one, or the beginning.
    pub(super) fn committed(&self, topic: Topic, group: &str) -> Vec<Committed> {
        self.producer.store.committed(topic, &group.into())
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.producer.close();
        if self
            .thread
            .take()
            .is_some_and(|thread| thread.join().is_err())
        {
            tracing::error!("the log's thread panicked");
        }
    }
}
