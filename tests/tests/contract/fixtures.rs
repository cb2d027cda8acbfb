//! Stores to test, and values to put into them.

#[cfg(feature = "cluster")]
use quipu_adapters::redis::{RedisBestEffort, RedisCache, RedisSettings};
use quipu_adapters::{
    clock::Clock,
    embedded::{
        Dataset, EmbeddedBestEffort, EmbeddedCache, EmbeddedEventStore, EmbeddedRollupStore,
    },
    memory::{MemoryCache, MemoryEventStore, MemoryRollupStore},
    ports::{BestEffort, EventStore},
};
use quipu_core::{
    aggregate::Count,
    checkpoint::{Checkpoint, Generation},
    event::{CounterKey, EventKey, EventRow, LogPosition, Mutation, NamespaceId, StoredEvent},
    name::{CounterName, ItemKey, Token},
    slice::{SliceLayout, Slicing},
    time::Micros,
    window::Window,
};
use std::{ops::ControlFlow, path::Path, sync::Arc, time::Duration};

/// The length of a slice in these tests.
pub(crate) const SLICE: i64 = 10_000_000;

fn dataset(bucket_seconds: u64, event_buckets: u16) -> Dataset {
    Dataset {
        slicing: Slicing::new(Duration::from_secs(10)).expect("a valid length"),
        layout: SliceLayout::new(Duration::from_secs(bucket_seconds), event_buckets)
            .expect("a valid layout"),
        ..Dataset::default()
    }
}

pub(crate) fn memory_events(_: &Path) -> MemoryEventStore {
    MemoryEventStore::new(dataset(10, 1).slicing)
}

pub(crate) fn embedded_events(directory: &Path) -> EmbeddedEventStore {
    EmbeddedEventStore::open(directory, dataset(10, 1)).expect("the store opens")
}

/// Buckets that do not begin where slices do.
pub(crate) fn embedded_events_in_short_buckets(directory: &Path) -> EmbeddedEventStore {
    EmbeddedEventStore::open(directory, dataset(3, 1)).expect("the store opens")
}

pub(crate) fn embedded_events_in_event_buckets(directory: &Path) -> EmbeddedEventStore {
    EmbeddedEventStore::open(directory, dataset(3, 4)).expect("the store opens")
}

pub(crate) fn memory_rollups(_: &Path) -> MemoryRollupStore {
    MemoryRollupStore::default()
}

pub(crate) fn embedded_rollups(directory: &Path) -> EmbeddedRollupStore {
    EmbeddedRollupStore::open(directory).expect("the store opens")
}

pub(crate) fn memory_cache(_: &Path) -> MemoryCache {
    MemoryCache::default()
}

pub(crate) fn embedded_cache(_: &Path) -> EmbeddedCache {
    EmbeddedCache::default()
}

pub(crate) fn embedded_best_effort(_: &Path) -> Arc<dyn BestEffort> {
    let bytes = EmbeddedBestEffort::DEFAULT_BYTES;
    Arc::new(EmbeddedBestEffort::new(bytes, Clock::system()))
}

/// Where the tests find Redis.
#[cfg(feature = "cluster")]
pub(crate) fn redis_address() -> String {
    std::env::var("QUIPU_TEST_REDIS").unwrap_or_else(|_| "127.0.0.1:16379".to_owned())
}

/// A cache on a real Redis, with keys of its own.
#[cfg(feature = "cluster")]
pub(crate) async fn redis_cache(settings: RedisSettings) -> RedisCache {
    let cache = RedisCache::connect(&settings).expect("the settings can be");
    let waits = std::iter::repeat_n(Duration::from_millis(20), 100);
    for wait in waits {
        if cache.ping().await.is_ok() {
            return cache;
        }
        tokio::time::sleep(wait).await;
    }
    panic!(
        "no Redis answers at {}: start the stack: scripts/stack up",
        settings.address
    );
}

/// Best-effort counters on a real Redis, once it answers.
#[cfg(feature = "cluster")]
pub(crate) async fn redis_best_effort(settings: &RedisSettings) -> Arc<dyn BestEffort> {
    let counters = RedisBestEffort::connect(settings).expect("the settings can be");
    let waits = std::iter::repeat_n(Duration::from_millis(20), 100);
    for wait in waits {
        if counters.get(&counter("none")).await.is_ok() {
            return Arc::new(counters);
        }
        tokio::time::sleep(wait).await;
    }
    panic!(
        "no Redis answers at {}: start the stack: scripts/stack up",
        settings.address
    );
}

/// Settings for a Redis that others use too: a prefix of the test's own, and short lives.
#[cfg(feature = "cluster")]
pub(crate) fn redis_settings(address: String) -> RedisSettings {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    RedisSettings {
        address,
        key_prefix: format!("quipu-test-{}-{number}", std::process::id()),
        ttl: Duration::from_mins(5),
        ..RedisSettings::default()
    }
}

pub(crate) fn counter(name: &str) -> CounterKey {
    CounterKey {
        namespace: NamespaceId(1),
        name: CounterName::new(name).expect("a valid name"),
    }
}

pub(crate) fn key(time: i64, token: &str, item: &str) -> EventKey {
    EventKey {
        event_time: Micros::new(time),
        event_id: Token::new(token).expect("a valid token"),
        item_key: ItemKey::new(item).expect("a valid item key"),
    }
}

/// An event that came from partition 0, one microsecond after its time.
pub(crate) fn event(key: EventKey, mutation: Mutation, offset: u64) -> StoredEvent {
    let effective_time = key.event_time.succ();
    StoredEvent {
        key,
        mutation,
        source: LogPosition {
            effective_time,
            partition: 0,
            offset,
        },
    }
}

pub(crate) fn row(name: &str, time: i64, token: &str, delta: i64) -> EventRow {
    let event = event(key(time, token, ""), Mutation::Add(delta), 1);
    EventRow {
        counter: counter(name),
        event,
    }
}

pub(crate) fn window(after: i64, through: i64) -> Window {
    Window {
        after: Micros::new(after),
        through: Micros::new(through),
    }
}

/// Every slice that these tests use.
pub(crate) fn everything() -> Window {
    window(-3 * SLICE, 3 * SLICE)
}

pub(crate) async fn scan<S: EventStore>(store: &S, name: &str, window: Window) -> Vec<StoredEvent> {
    let mut events = Vec::new();
    store
        .scan(&counter(name), window, &mut |event| {
            events.push(event);
            ControlFlow::Continue(())
        })
        .await
        .expect("the scan succeeds");
    events
}

pub(crate) fn checkpoint(generation: u16, count: i128, last_rollup: i64) -> Checkpoint {
    Checkpoint {
        generation: Generation::new(generation).expect("a valid generation"),
        count: Count::new(count),
        last_rollup: Micros::new(last_rollup),
    }
}
