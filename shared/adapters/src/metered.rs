//! Stores that measure how long their calls take. A call that its caller gives up is not measured.

mod best_effort;

pub use best_effort::MeteredBestEffort;

use crate::{
    metrics::stores as names,
    ports::{
        Cache, CounterPage, Durability, EventStore, Extent, ListPosition, Lookup, Parked,
        RollupRow, RollupStore, SliceInfo, StoreError,
    },
};
use metrics::{Histogram, histogram};
use quipu_core::{
    checkpoint::Checkpoint,
    event::{CounterKey, EventKey, EventRow, NamespaceId, StoredEvent},
    slice::SliceId,
    time::Micros,
    window::Window,
};
use std::{ops::ControlFlow, sync::Arc, time::Instant};

/// The handles of one operation, made once: looking them up costs more than many a call.
#[derive(Debug)]
struct Meter {
    ok: Histogram,
    failed: Histogram,
}

impl Meter {
    fn new(name: &'static str, operation: &'static str) -> Self {
        Self {
            ok: histogram!(name, "operation" => operation, "outcome" => "ok"),
            failed: histogram!(name, "operation" => operation, "outcome" => "error"),
        }
    }

    async fn time<T, E>(&self, call: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let began = Instant::now();
        let result = call.await;
        let meter = if result.is_ok() {
            &self.ok
        } else {
            &self.failed
        };
        meter.record(began.elapsed());
        result
    }
}

/// An event store with meters. Cheap to clone where the store is.
#[derive(Clone, Debug)]
pub struct MeteredEvents<E> {
    store: E,
    meters: Arc<EventMeters>,
}

#[derive(Debug)]
struct EventMeters {
    write: Meter,
    sync: Meter,
    scan: Meter,
    lookup: Meter,
    slices: Meter,
    prepare: Meter,
    drop_slice: Meter,
    counters: Meter,
}

impl<E> MeteredEvents<E> {
    /// Measures a store. Call it once the process has its recorder.
    pub fn new(store: E) -> Self {
        let meter = |operation| Meter::new(names::EVENT_STORE_SECONDS, operation);
        let meters = EventMeters {
            write: meter("write"),
            sync: meter("sync"),
            scan: meter("scan"),
            lookup: meter("lookup"),
            slices: meter("slices"),
            prepare: meter("prepare"),
            drop_slice: meter("drop_slice"),
            counters: meter("counters"),
        };
        Self {
            store,
            meters: Arc::new(meters),
        }
    }
}

impl<E: EventStore> EventStore for MeteredEvents<E> {
    async fn write(&self, rows: &[EventRow]) -> Result<(), StoreError> {
        self.meters.write.time(self.store.write(rows)).await
    }

    async fn sync(&self) -> Result<Durability, StoreError> {
        self.meters.sync.time(self.store.sync()).await
    }

    async fn scan(
        &self,
        counter: &CounterKey,
        window: Window,
        sink: &mut (dyn FnMut(StoredEvent) -> ControlFlow<()> + Send),
    ) -> Result<(), StoreError> {
        let scan = self.store.scan(counter, window, sink);
        self.meters.scan.time(scan).await
    }

    /// Answered from what is known of the slices, so it is not measured.
    async fn extent(&self, window: Window) -> Result<Extent, StoreError> {
        self.store.extent(window).await
    }

    async fn lookup(&self, counter: &CounterKey, key: &EventKey) -> Result<Lookup, StoreError> {
        let lookup = self.store.lookup(counter, key);
        self.meters.lookup.time(lookup).await
    }

    async fn slices(&self) -> Result<Vec<SliceInfo>, StoreError> {
        self.meters.slices.time(self.store.slices()).await
    }

    async fn prepare(&self, window: Window) -> Result<(), StoreError> {
        self.meters.prepare.time(self.store.prepare(window)).await
    }

    async fn drop_slice(&self, slice: SliceId) -> Result<(), StoreError> {
        let dropped = self.store.drop_slice(slice);
        self.meters.drop_slice.time(dropped).await
    }

    async fn counters(
        &self,
        slice: SliceId,
        after: Option<&CounterKey>,
        limit: usize,
    ) -> Result<Vec<CounterKey>, StoreError> {
        let counters = self.store.counters(slice, after, limit);
        self.meters.counters.time(counters).await
    }
}

/// A rollup store with meters. Cheap to clone where the store is.
#[derive(Clone, Debug)]
pub struct MeteredRollups<R> {
    store: R,
    meters: Arc<RollupMeters>,
}

#[derive(Debug)]
struct RollupMeters {
    load: Meter,
    counters: Meter,
    put: Meter,
    note_writes: Meter,
    park: Meter,
    parked: Meter,
    unpark: Meter,
    sync: Meter,
}

impl<R> MeteredRollups<R> {
    /// Measures a store. Call it once the process has its recorder.
    pub fn new(store: R) -> Self {
        let meter = |operation| Meter::new(names::ROLLUP_STORE_SECONDS, operation);
        let meters = RollupMeters {
            load: meter("load"),
            counters: meter("counters"),
            put: meter("put"),
            note_writes: meter("note_writes"),
            park: meter("park"),
            parked: meter("parked"),
            unpark: meter("unpark"),
            sync: meter("sync"),
        };
        Self {
            store,
            meters: Arc::new(meters),
        }
    }
}

impl<R: RollupStore> RollupStore for MeteredRollups<R> {
    async fn load(&self, counters: &[CounterKey]) -> Result<Vec<RollupRow>, StoreError> {
        self.meters.load.time(self.store.load(counters)).await
    }

    async fn counters(
        &self,
        namespace: NamespaceId,
        from: ListPosition,
        limit: usize,
    ) -> Result<CounterPage, StoreError> {
        let page = self.store.counters(namespace, from, limit);
        self.meters.counters.time(page).await
    }

    async fn put(&self, checkpoints: Vec<(CounterKey, Checkpoint)>) -> Result<(), StoreError> {
        self.meters.put.time(self.store.put(checkpoints)).await
    }

    async fn note_writes(&self, writes: Vec<(CounterKey, Micros)>) -> Result<(), StoreError> {
        let noted = self.store.note_writes(writes);
        self.meters.note_writes.time(noted).await
    }

    async fn park(&self, partition: u32, signals: Vec<Parked>) -> Result<(), StoreError> {
        let parked = self.store.park(partition, signals);
        self.meters.park.time(parked).await
    }

    async fn parked(
        &self,
        partition: u32,
        after: Option<&CounterKey>,
        limit: usize,
    ) -> Result<Vec<Parked>, StoreError> {
        let parked = self.store.parked(partition, after, limit);
        self.meters.parked.time(parked).await
    }

    async fn unpark(&self, partition: u32, finished: Vec<Parked>) -> Result<(), StoreError> {
        let removed = self.store.unpark(partition, finished);
        self.meters.unpark.time(removed).await
    }

    async fn sync(&self) -> Result<Durability, StoreError> {
        self.meters.sync.time(self.store.sync()).await
    }
}

/// A cache with meters. Cheap to clone where the cache is.
#[derive(Clone, Debug)]
pub struct MeteredCache<C> {
    cache: C,
    meters: Arc<CacheMeters>,
}

#[derive(Debug)]
struct CacheMeters {
    get: Meter,
    set: Meter,
}

impl<C> MeteredCache<C> {
    /// Measures a cache. Call it once the process has its recorder.
    pub fn new(cache: C) -> Self {
        let meter = |operation| Meter::new(names::CACHE_SECONDS, operation);
        let meters = CacheMeters {
            get: meter("get"),
            set: meter("set_if_newer"),
        };
        Self {
            cache,
            meters: Arc::new(meters),
        }
    }
}

impl<C: Cache> Cache for MeteredCache<C> {
    async fn get(&self, counter: &CounterKey) -> Result<Option<Checkpoint>, StoreError> {
        self.meters.get.time(self.cache.get(counter)).await
    }

    async fn set_if_newer(
        &self,
        checkpoints: Vec<(CounterKey, Checkpoint)>,
    ) -> Result<(), StoreError> {
        let set = self.cache.set_if_newer(checkpoints);
        self.meters.set.time(set).await
    }
}
