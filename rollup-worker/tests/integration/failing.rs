//! A rollup store that has stopped for good.

use crate::fixtures::{counter, policy, prepared, settings, signal};
use quipu_adapters::{
    clock::Clock,
    memory::{MemoryCache, MemoryEventStore, MemoryLog},
    ports::{
        Body, CounterPage, Durability, EventStore, ListPosition, NewRecord, Parked, Producer,
        RollupRow, RollupStore, StoreError, Topic,
    },
    watermarks::WatermarkBoard,
};
use quipu_core::{
    checkpoint::Checkpoint,
    event::{CounterKey, EventKey, EventRow, LogPosition, Mutation, NamespaceId, StoredEvent},
    name::{ItemKey, Token},
    time::Micros,
    watermark::Watermarks,
    window::Window,
};
use quipu_rollup_worker::{Ports, RollupError, Settings, aggregate::Stores};
use std::{future, sync::Arc, time::Duration};
use tokio::sync::watch;

/// It is read, but takes nothing any more, as after a failed write.
#[derive(Clone, Debug)]
struct Stopped;

fn stopped<T>() -> Result<T, StoreError> {
    Err(StoreError::Damaged("a write failed".to_owned()))
}

impl RollupStore for Stopped {
    async fn load(&self, counters: &[CounterKey]) -> Result<Vec<RollupRow>, StoreError> {
        Ok(vec![RollupRow::default(); counters.len()])
    }
    async fn counters(
        &self,
        _: NamespaceId,
        _: ListPosition,
        _: usize,
    ) -> Result<CounterPage, StoreError> {
        stopped()
    }
    async fn put(&self, _: Vec<(CounterKey, Checkpoint)>) -> Result<(), StoreError> {
        stopped()
    }
    async fn note_writes(&self, _: Vec<(CounterKey, Micros)>) -> Result<(), StoreError> {
        stopped()
    }
    async fn park(&self, _: u32, _: Vec<Parked>) -> Result<(), StoreError> {
        stopped()
    }
    async fn parked(
        &self,
        _: u32,
        _: Option<&CounterKey>,
        _: usize,
    ) -> Result<Vec<Parked>, StoreError> {
        Ok(Vec::new())
    }
    async fn unpark(&self, _: u32, _: Vec<Parked>) -> Result<(), StoreError> {
        stopped()
    }
    async fn sync(&self) -> Result<Durability, StoreError> {
        stopped()
    }
}

fn row() -> EventRow {
    let event_time = Micros::new(1_000_000);
    EventRow {
        counter: counter("c"),
        event: StoredEvent {
            key: EventKey {
                event_time,
                event_id: Token::new("t").expect("a valid token"),
                item_key: ItemKey::new("").expect("a valid item key"),
            },
            mutation: Mutation::Add(1),
            source: LogPosition {
                effective_time: event_time,
                partition: 0,
                offset: 0,
            },
        },
    }
}

async fn events() -> MemoryEventStore {
    let (after, through) = (Micros::new(0), Micros::new(2_000_000));
    let events = prepared(Window { after, through }).await;
    events.write(&[row()]).await.expect("written");
    events
}

#[tokio::test]
async fn a_worker_ends_when_the_rollup_store_has_stopped_for_good() {
    let (clock, _) = Clock::manual(Micros::new(60_000_000));
    let log = MemoryLog::new(clock.clone(), 1);
    let signal = signal(counter("c"), row().event.key.event_time);
    let record = NewRecord {
        partition: 0,
        body: Body::value(quipu_schemas::signal::encode(&signal)),
    };
    log.append(Topic::Signals, vec![record])
        .await
        .expect("appended");
    let ports = Ports {
        log: log.clone(),
        stores: Stores {
            events: events().await,
            rollups: Stopped,
            cache: MemoryCache::default(),
        },
        sweep_rollups: Stopped,
        watermarks: WatermarkBoard::new(Watermarks::new([(0, clock.now())])),
        policies: watch::channel(Arc::new(policy())).1,
        clock,
    };
    let settings = Settings {
        sync_every: Duration::from_millis(20),
        ..settings()
    };
    let consumer = log.consumer(Topic::Signals);
    let run = quipu_rollup_worker::run(consumer, ports, settings, future::pending());
    let ended = tokio::time::timeout(Duration::from_secs(5), run).await;
    assert!(
        matches!(ended, Ok(Err(RollupError::Store(StoreError::Damaged(_))))),
        "a process whose counts have stopped must not look alive: {ended:?}"
    );
}
