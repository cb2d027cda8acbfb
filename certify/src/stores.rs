//! What the stores have in the end.

use crate::{
    entry::Entry,
    failure::Failure,
    observed::{Counted, Counts},
};
use futures::{StreamExt, TryStreamExt, stream};
use quipu_adapters::{
    cassandra::{Cassandra, CassandraEventStore, CassandraRollupStore},
    clock::Clock,
    config::Config,
    ports::{Cache, EventStore, RollupStore, StoreError},
    redis::RedisCache,
};
use quipu_core::{
    checkpoint::Checkpoint,
    event::{CounterKey, NamespaceId, StoredEvent},
    name::CounterName,
    time::Micros,
    window::Window,
};
use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    time::{Duration, Instant},
};

/// Counters that are scanned at once.
const AT_ONCE: usize = 8;
/// Without an answer, or all checkpoints in store and cache, for this long, something is broken.
const PATIENCE: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(200);

/// The stores of an installation, and the number of the namespace in them.
pub(crate) struct Stores {
    events: CassandraEventStore,
    rollups: CassandraRollupStore,
    cache: RedisCache,
    namespace: NamespaceId,
}

impl Stores {
    /// Opens what is configured.
    pub(crate) async fn open(config: &Config, namespace: NamespaceId) -> Result<Self, Failure> {
        let settings = config.cassandra.settings()?;
        let cassandra = Cassandra::connect(settings, Clock::system()).await?;
        let redis = config.redis.settings()?;
        Ok(Self {
            events: cassandra.events(config.cassandra.dataset()?).await?,
            rollups: cassandra.rollups().await?,
            cache: RedisCache::connect(&redis).map_err(|error| Failure::new(error.to_string()))?,
            namespace,
        })
    }

    fn key(&self, counter: &CounterName) -> CounterKey {
        CounterKey {
            namespace: self.namespace,
            name: counter.clone(),
        }
    }

    /// All rows of the counters, from the oldest to the newest event that was attempted.
    pub(crate) async fn rows(
        &self,
        counters: &[CounterName],
        entries: &[Entry],
    ) -> Result<BTreeMap<CounterName, Vec<StoredEvent>>, Failure> {
        let times = || entries.iter().map(|entry| entry.key.event_time);
        let window = Window {
            after: times().min().unwrap_or(Micros::MAX).pred(),
            through: times().max().unwrap_or(Micros::MIN),
        };
        let scanned: Vec<_> = counters
            .iter()
            .map(|counter| async move {
                let rows = patiently(|| self.scan(counter, window)).await?;
                Ok::<_, Failure>((counter.clone(), rows))
            })
            .collect();
        stream::iter(scanned)
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    async fn scan(
        &self,
        counter: &CounterName,
        window: Window,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let mut rows = Vec::new();
        let mut sink = |row| {
            rows.push(row);
            ControlFlow::Continue(())
        };
        self.events
            .scan(&self.key(counter), window, &mut sink)
            .await?;
        Ok(rows)
    }

    /// Checkpoints in store and cache, once all cover `through`; after [`PATIENCE`], as they are.
    pub(crate) async fn counts(
        &self,
        counters: &[CounterName],
        through: Micros,
    ) -> Result<BTreeMap<CounterName, Counts>, Failure> {
        let began = Instant::now();
        loop {
            let counts = patiently(|| self.counts_now(counters)).await?;
            let covers = |counted: Option<Counted>| counted.is_some_and(|it| it.through >= through);
            let settled = counts
                .values()
                .all(|counts| covers(counts.checkpoint) && covers(counts.cached));
            if settled || began.elapsed() > PATIENCE {
                return Ok(counts);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn counts_now(
        &self,
        counters: &[CounterName],
    ) -> Result<BTreeMap<CounterName, Counts>, StoreError> {
        let keys: Vec<_> = counters.iter().map(|counter| self.key(counter)).collect();
        let rows = self.rollups.load(&keys).await?;
        let mut counts = BTreeMap::new();
        for (key, row) in keys.into_iter().zip(rows) {
            let cached = self.cache.get(&key).await?;
            let found = Counts {
                checkpoint: row.checkpoint.map(counted),
                cached: cached.map(counted),
                ..Counts::default()
            };
            counts.insert(key.name, found);
        }
        Ok(counts)
    }
}

/// Asks again while a store is unavailable, up to [`PATIENCE`].
async fn patiently<T, F>(ask: impl Fn() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let began = Instant::now();
    loop {
        match ask().await {
            Err(StoreError::Unavailable(_)) if began.elapsed() < PATIENCE => {
                tokio::time::sleep(POLL).await;
            }
            asked => return asked,
        }
    }
}

fn counted(checkpoint: Checkpoint) -> Counted {
    Counted {
        count: checkpoint.count.get(),
        through: checkpoint.last_rollup,
    }
}
