//! A log that has stopped for good, and stores that do not get on.

use crate::fixtures::{assignment, settings, store};
use futures::{FutureExt, future::BoxFuture};
use quipu_adapters::{
    clock::Clock,
    memory::{MemoryEventStore, MemoryLog},
    ports::{
        Appended, Body, Committed, Consumer, LogError, NewRecord, Polled, Producer, Record, Stamp,
        Topic,
    },
    watermarks::WatermarkBoard,
};
use quipu_core::{policy::PolicyBook, time::Micros, watermark::Watermarks};
use quipu_ingest::{IngestError, Ports, Settings};
use std::{
    future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
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

/// The producer of a log that never answers.
#[derive(Clone, Debug)]
struct Hanging;

impl Producer for Hanging {
    fn partitions(&self, _: Topic) -> u32 {
        1
    }

    async fn append(&self, _: Topic, _: Vec<NewRecord>) -> Result<Vec<Appended>, LogError> {
        future::pending().await
    }
}

/// Brings records that cannot be read, without end.
#[derive(Debug, Default)]
struct Garbage {
    assigned: bool,
    read: Arc<AtomicU64>,
}

impl Consumer for Garbage {
    async fn poll(&mut self) -> Result<Polled, LogError> {
        tokio::task::yield_now().await;
        let partition = 0;
        if !std::mem::replace(&mut self.assigned, true) {
            return Ok(Polled::Assigned(vec![assignment(partition)]));
        }
        let record = Record {
            offset: self.read.fetch_add(1, Ordering::Relaxed),
            stamp: Stamp::Log(Micros::new(0)),
            body: Body::value("no event"),
        };
        let records = vec![record];
        Ok(Polled::Records { partition, records })
    }

    fn commit(&mut self, _: Vec<(u32, Committed)>) -> BoxFuture<'static, Result<(), LogError>> {
        future::ready(Ok(())).boxed()
    }

    fn release(&mut self, _: Vec<u32>) {}
    fn seek(&mut self, _: u32, _: u64) {}
    fn pause(&mut self, _: u32) {}
    fn resume(&mut self, _: u32) {}
}

fn ports<L>(log: L, clock: Clock) -> Ports<L, MemoryEventStore> {
    Ports {
        log,
        events: store(),
        watermarks: WatermarkBoard::new(Watermarks::new([(0, Micros::new(0))])),
        policies: watch::channel(Arc::new(PolicyBook::new([], Micros::MAX))).1,
        clock,
    }
}

#[tokio::test]
async fn an_idle_ingest_ends_when_the_log_has_stopped_for_good() {
    let (clock, _) = Clock::manual(Micros::new(0));
    let log = MemoryLog::new(clock.clone(), 1);
    let consumer = log.consumer(Topic::Events);
    let run = quipu_ingest::run(
        consumer,
        ports(Stopped, clock),
        settings(),
        future::pending(),
    );
    let ended = tokio::time::timeout(Duration::from_secs(5), run).await;
    assert!(
        matches!(ended, Ok(Err(IngestError::Log(LogError::Damaged(_))))),
        "a process whose log has stopped must not look alive: {ended:?}"
    );
}

#[tokio::test]
async fn refused_records_that_cannot_be_dead_lettered_are_not_piled_up_in_memory() {
    let (clock, _) = Clock::manual(Micros::new(0));
    let consumer = Garbage::default();
    let read = Arc::clone(&consumer.read);
    let for_a_while = tokio::time::sleep(Duration::from_millis(300));
    let run = quipu_ingest::run(consumer, ports(Hanging, clock), settings(), for_a_while);
    // It never ends: what is under way hangs.
    let ended = tokio::time::timeout(Duration::from_millis(500), run).await;
    assert!(ended.is_err(), "{ended:?}");
    // Two batches under way, and one that waits.
    assert_eq!(read.load(Ordering::Relaxed), 30);
}

#[tokio::test]
async fn a_topic_of_which_nearly_everything_is_refused_stops_the_role_with_its_name_and_the_setting()
 {
    let (clock, _) = Clock::manual(Micros::new(0));
    let log = MemoryLog::new(clock.clone(), 1);
    let consumer = Garbage::default();
    let read = Arc::clone(&consumer.read);
    let settings = Settings {
        most_refused_percent: 90,
        ..settings()
    };
    let run = quipu_ingest::run(consumer, ports(log, clock), settings, future::pending());
    let ended = tokio::time::timeout(Duration::from_secs(20), run).await;
    let told = ended
        .expect("it stops")
        .expect_err("by an error")
        .to_string();
    for part in [
        "quipu-events partition 0: 100%",
        "malformed",
        "ingest.most_refused_percent",
    ] {
        assert!(told.contains(part), "{told}");
    }
    assert_eq!(
        read.load(Ordering::Relaxed),
        1_001,
        "nothing more is dead-lettered"
    );
}
