//! One process, one directory.
//!
//! Three databases lie in it. `log` holds the log, its committed frontiers and the control plane,
//! which share one journal and so one order. `events` and `rollups` hold what is made from the
//! log's records: whatever a crash takes from them, the log still has.

mod best_effort;
mod cache;
mod control;
mod database;
mod directory;
mod event_store;
mod keys;
mod log;
mod rollup_store;
mod settings;
mod slices;

#[cfg(test)]
mod log_tests;
#[cfg(test)]
mod tests;

pub use best_effort::EmbeddedBestEffort;
pub use cache::EmbeddedCache;
pub use control::EmbeddedControlPlane;
pub use directory::OpenError;
pub use event_store::EmbeddedEventStore;
pub use log::{EmbeddedConsumer, EmbeddedProducer};
pub use rollup_store::EmbeddedRollupStore;
pub use settings::{EmbeddedSettings, LogSettings};
pub use slices::Dataset;

use crate::{
    clock::Clock,
    ports::{Committed, Topic},
    watermarks::WatermarkBoard,
};
use directory::DirectoryLock;
use log::{Beginning, Log, Store};
use quipu_core::watermark::Watermarks;
use std::{fmt, path::Path};

/// An open data directory. Dropping it, once all that came from it is dropped, flushes and
/// releases the directory.
pub struct Embedded {
    // Fields are dropped in this order: the lock goes last.
    control: EmbeddedControlPlane,
    log: Log,
    events: EmbeddedEventStore,
    rollups: EmbeddedRollupStore,
    cache: EmbeddedCache,
    watermarks: WatermarkBoard,
    _lock: DirectoryLock,
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded").finish_non_exhaustive()
    }
}

impl Embedded {
    /// Opens a data directory, creating it when there is none. Blocks while it reads what a crash
    /// left in the journals: call it before serving.
    pub fn open(
        directory: &Path,
        settings: EmbeddedSettings,
        clock: Clock,
    ) -> Result<Self, OpenError> {
        let lock = directory::take(directory)?;
        let now = clock.now();
        let begin = Beginning {
            settings: &settings.log,
            now,
            change: control::first_change(now),
        };
        let store = Store::open(&directory.join("log"), begin)?;
        let registry = control::load(&store.control)?;
        let log = Log::start(store, &settings.log, clock.clone(), registry.newest())?;
        let retention = settings.dataset.retention;
        let control = EmbeddedControlPlane::new(registry, log.producer(), retention, clock);
        let committed = log.committed(Topic::Events, "ingest");
        let effective = committed.iter().map(|frontier| frontier.effective_time);
        Ok(Self {
            control,
            log,
            watermarks: WatermarkBoard::new(Watermarks::new((0..).zip(effective))),
            events: EmbeddedEventStore::open(&directory.join("events"), settings.dataset)?,
            rollups: EmbeddedRollupStore::open(&directory.join("rollups"))?,
            cache: EmbeddedCache::new(settings.cache_bytes),
            _lock: lock,
        })
    }

    /// Appends to the log.
    pub fn producer(&self) -> EmbeddedProducer {
        self.log.producer()
    }

    /// Reads a topic for a group, which must have no other consumer of the topic.
    pub fn consumer(&self, topic: Topic, group: &str) -> EmbeddedConsumer {
        self.log.consumer(topic, group)
    }

    /// A group's frontier in each partition of a topic: the committed one, or the beginning.
    pub fn committed(&self, topic: Topic, group: &str) -> Vec<Committed> {
        self.log.committed(topic, group)
    }

    /// How many segments a topic has on disk.
    pub fn log_segments(&self, topic: Topic) -> usize {
        self.log.segments(topic)
    }

    /// Accepted events.
    pub fn events(&self) -> EmbeddedEventStore {
        self.events.clone()
    }

    /// Checkpoints.
    pub fn rollups(&self) -> EmbeddedRollupStore {
        self.rollups.clone()
    }

    /// Checkpoints in memory.
    pub fn cache(&self) -> EmbeddedCache {
        self.cache.clone()
    }

    /// The namespaces.
    pub fn control(&self) -> EmbeddedControlPlane {
        self.control.clone()
    }

    /// The watermarks of the events topic (R12). They start from what ingest has committed.
    pub fn watermarks(&self) -> WatermarkBoard {
        self.watermarks.clone()
    }
}
