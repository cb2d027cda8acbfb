//! Signals over the memory budget, while the store takes nothing.

use crate::fixtures::{counter, policy, prepared, settings, signal};
use futures::future::BoxFuture;
use quipu_adapters::{
    clock::Clock,
    memory::{MemoryCache, MemoryConsumer, MemoryLog, MemoryRollupStore},
    ports::{
        Body, Committed, Consumer, CounterPage, Durability, ListPosition, LogError, NewRecord,
        Parked, Polled, Producer, RollupRow, RollupStore, StoreError, Topic,
    },
    watermarks::WatermarkBoard,
};
use quipu_core::{
    checkpoint::Checkpoint,
    event::{CounterKey, NamespaceId},
    time::Micros,
    watermark::Watermarks,
    window::Window,
};
use quipu_rollup_worker::{Ports, aggregate::Stores};
use std::{
    collections::BTreeMap,
    future,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::sync::watch;

const SIGNALS: usize = 50_000;
/// Signals that may wait for the store, and what one poll brings.
const BOUND: usize = 10_000 + 1_000;

/// Counts the records that the role read.
struct Counting(MemoryConsumer, Arc<AtomicUsize>);

impl Consumer for Counting {
    async fn poll(&mut self) -> Result<Polled, LogError> {
        let polled = self.0.poll().await;
        if let Ok(Polled::Records { records, .. }) = &polled {
            self.1.fetch_add(records.len(), Relaxed);
        }
        polled
    }
    fn commit(&mut self, to: Vec<(u32, Committed)>) -> BoxFuture<'static, Result<(), LogError>> {
        self.0.commit(to)
    }
    fn release(&mut self, partitions: Vec<u32>) {
        self.0.release(partitions);
    }
    fn seek(&mut self, partition: u32, next_offset: u64) {
        self.0.seek(partition, next_offset);
    }
    fn pause(&mut self, partition: u32) {
        self.0.pause(partition);
    }
    fn resume(&mut self, partition: u32) {
        self.0.resume(partition);
    }
    fn ends(&self) -> BoxFuture<'static, BTreeMap<u32, u64>> {
        self.0.ends()
    }
}

/// A store that parks nothing while it is away.
#[derive(Clone, Debug)]
struct Away(MemoryRollupStore, Arc<AtomicBool>);

impl RollupStore for Away {
    async fn load(&self, counters: &[CounterKey]) -> Result<Vec<RollupRow>, StoreError> {
        self.0.load(counters).await
    }
    async fn counters(
        &self,
        namespace: NamespaceId,
        from: ListPosition,
        limit: usize,
    ) -> Result<CounterPage, StoreError> {
        self.0.counters(namespace, from, limit).await
    }
    async fn put(&self, rows: Vec<(CounterKey, Checkpoint)>) -> Result<(), StoreError> {
        self.0.put(rows).await
    }
    async fn note_writes(&self, writes: Vec<(CounterKey, Micros)>) -> Result<(), StoreError> {
        self.0.note_writes(writes).await
    }
    async fn park(&self, partition: u32, rows: Vec<Parked>) -> Result<(), StoreError> {
        if self.1.load(Relaxed) {
            return Err(StoreError::Unavailable("it is away".to_owned()));
        }
        self.0.park(partition, rows).await
    }
    async fn parked(
        &self,
        partition: u32,
        after: Option<&CounterKey>,
        limit: usize,
    ) -> Result<Vec<Parked>, StoreError> {
        self.0.parked(partition, after, limit).await
    }
    async fn unpark(&self, partition: u32, rows: Vec<Parked>) -> Result<(), StoreError> {
        self.0.unpark(partition, rows).await
    }
    async fn sync(&self) -> Result<Durability, StoreError> {
        self.0.sync().await
    }
}

#[tokio::test]
async fn a_store_that_parks_nothing_stops_the_reading_of_signals_until_it_is_back() {
    let now = Micros::new(60_000_000);
    let (clock, _) = Clock::manual(now);
    let log = MemoryLog::new(clock.clone(), 1);
    let records = (0..SIGNALS).map(|number| {
        let signal = signal(counter(&format!("c{number}")), now);
        NewRecord {
            partition: 0,
            body: Body::value(quipu_schemas::signal::encode(&signal)),
        }
    });
    log.append(Topic::Signals, records.collect())
        .await
        .expect("appended");
    let (read, away) = (
        Arc::<AtomicUsize>::default(),
        Arc::new(AtomicBool::new(true)),
    );
    let rollups = Away(MemoryRollupStore::default(), Arc::clone(&away));
    let (after, through) = (Micros::new(0), now);
    let ports = Ports {
        log: log.clone(),
        stores: Stores {
            events: prepared(Window { after, through }).await,
            rollups: rollups.clone(),
            cache: MemoryCache::default(),
        },
        sweep_rollups: rollups.clone(),
        // Nothing that was signalled closes.
        watermarks: WatermarkBoard::new(Watermarks::new([(0, now)])),
        policies: watch::channel(Arc::new(policy())).1,
        clock,
    };
    let consumer = Counting(log.consumer(Topic::Signals), Arc::clone(&read));
    let run = quipu_rollup_worker::run(consumer, ports, settings(), future::pending());
    let observe = async {
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        let while_away = read.load(Relaxed);
        assert!(while_away <= BOUND, "{while_away} are in memory");
        away.store(false, Relaxed);
        loop {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let parked = rollups.parked(0, None, SIGNALS).await.expect("listed");
            if parked.len() + settings().limits.pending >= SIGNALS {
                return;
            }
        }
    };
    tokio::select! {
        ended = run => panic!("the role ended: {ended:?}"),
        done = tokio::time::timeout(Duration::from_secs(20), observe) => {
            done.expect("what was over the budget is parked");
        }
    }
}
