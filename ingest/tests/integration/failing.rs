//! A log that has stopped for good.

use quipu_adapters::{
    clock::Clock,
    memory::{MemoryEventStore, MemoryLog},
    ports::{Appended, LogError, NewRecord, Producer, Topic},
    watermarks::WatermarkBoard,
};
use quipu_core::{policy::PolicyBook, slice::Slicing, time::Micros, watermark::Watermarks};
use quipu_ingest::{IngestError, Ports, Settings, ticks::TickSettings};
use std::{future, sync::Arc, time::Duration};
use tokio::sync::watch;

/// The producer of a log that takes nothing any more.
#[derive(Clone, Debug)]
struct Stopped;

impl Producer for Stopped {
    fn partitions(&self, _: Topic) -> u32 {
        1
    }

    async fn append(&self, _: Topic, _: Vec<NewRecord>) -> Result<Vec<Appended>, LogError> {
        Err(LogError::Damaged("a write failed".to_owned()))
    }
}

#[tokio::test]
async fn an_idle_ingest_ends_when_the_log_has_stopped_for_good() {
    let (clock, _) = Clock::manual(Micros::new(0));
    let log = MemoryLog::new(clock.clone(), 1);
    let tick = Duration::from_millis(10);
    let settings = Settings {
        topic: "quipu-events",
        batch_rows: 10,
        linger: tick,
        in_flight: 2,
        ticks: TickSettings {
            active: tick,
            idle: tick,
            idle_after: tick,
        },
    };
    let ports = Ports {
        log: Stopped,
        events: MemoryEventStore::new(Slicing::new(Duration::from_hours(24)).expect("valid")),
        watermarks: WatermarkBoard::new(Watermarks::new([(0, Micros::new(0))])),
        policies: watch::channel(Arc::new(PolicyBook::new([], Micros::MAX))).1,
        clock,
    };
    let run = quipu_ingest::run(
        log.consumer(Topic::Events),
        ports,
        settings,
        future::pending(),
    );
    let ended = tokio::time::timeout(Duration::from_secs(5), run).await;
    assert!(
        matches!(ended, Ok(Err(IngestError::Log(LogError::Damaged(_))))),
        "a process whose log has stopped must not look alive: {ended:?}"
    );
}
