//! Reads: counts from the cache or the rollup store, and look-ups of single events.

use crate::{
    call::{self, Count, TokenRequest},
    failure::{Failure, reason},
    gateway::{Gateway, View},
    machine::{self, AfterLookup},
    metrics::CacheRead,
    names,
};
use ::metrics::counter;
use quipu_adapters::ports::{
    Cache, ControlPlane, EventStore, Lookup, Producer, RollupStore, StoreError,
};
use quipu_core::{
    checkpoint::Checkpoint,
    event::{CounterKey, StoredEvent},
    name::CounterName,
    time::Micros,
};
use quipu_schemas::timestamp::to_rfc3339;
use tonic::Code;

/// What is known of one identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventOutcome {
    /// Stored: it is counted, or will be as soon as its window closes.
    Stored(StoredEvent),
    /// Not stored, and it never will be.
    NotStored,
    /// Not stored so far; an attempt may still be in the log.
    NotYetKnown,
    /// Its slice was dropped by retention: nobody can tell any more.
    Unknown,
}

impl<L: Producer, E: EventStore, R: RollupStore, C: Cache, P: ControlPlane> Gateway<L, E, R, C, P> {
    /// The rolled-up count of a counter. One whose checkpoint is stale is signalled, so that a
    /// later read finds it fresh.
    pub async fn get(&self, namespace: &str, counter_name: &str) -> Result<Count, Failure> {
        let view = self.view(namespace)?;
        if let Some(counters) = self.best_effort(&view) {
            return counters.get(counter_name).await;
        }
        let name = CounterName::new(counter_name)?;
        let counter = CounterKey {
            namespace: view.life.id(),
            name,
        };
        let checkpoint = self.checkpoint(&counter).await?;
        let checkpoint = checkpoint.unwrap_or_else(|| Checkpoint::origin(view.life.origin()));
        if machine::is_stale(checkpoint.lag(view.closed()), view.coalesce) {
            counter!(names::STALE_READS).increment(1);
            self.signals
                .stale(view.namespace, counter, self.clock.read().steady);
        }
        let complete_through = checkpoint.last_rollup;
        let count = checkpoint.count.to_i64().map_err(|error| {
            let message = format!("{error}; complete through {}", to_rfc3339(complete_through));
            Failure::new(Code::OutOfRange, reason::COUNT_OUT_OF_RANGE, message)
        })?;
        Ok(Count {
            count,
            complete_through: Some(complete_through),
        })
    }

    async fn checkpoint(&self, counter: &CounterKey) -> Result<Option<Checkpoint>, Failure> {
        // The cache may fail at any time: the rollup store knows all that it knows.
        match self.ports.cache.get(counter).await {
            Ok(Some(checkpoint)) => {
                self.meters.cache_read(CacheRead::Hit);
                return Ok(Some(checkpoint));
            }
            Ok(None) => self.meters.cache_read(CacheRead::Miss),
            Err(error) => {
                self.meters.cache_read(CacheRead::Failed);
                note_cache_error(&error);
            }
        }
        let rows = self
            .ports
            .rollups
            .load(std::slice::from_ref(counter))
            .await?;
        let checkpoint = rows.first().and_then(|row| row.checkpoint);
        if let Some(checkpoint) = checkpoint {
            let filled = self
                .ports
                .cache
                .set_if_newer(vec![(counter.clone(), checkpoint)])
                .await;
            filled.unwrap_or_else(|error| note_cache_error(&error));
        }
        Ok(checkpoint)
    }

    /// Says what became of one mutation.
    pub async fn lookup(
        &self,
        namespace: &str,
        counter_name: &str,
        token: TokenRequest<'_>,
        item_key: &str,
    ) -> Result<EventOutcome, Failure> {
        let view = self.view(namespace)?;
        if !view.life.mode().keeps_events() {
            return Err(Failure::keeps_no_events(&view.namespace));
        }
        let name = CounterName::new(counter_name)?;
        let key = call::event_key(token, item_key)?;
        if key.event_time <= view.life.origin() {
            return Ok(EventOutcome::NotStored);
        }
        let counter = CounterKey {
            namespace: view.life.id(),
            name,
        };
        let found = self.ports.events.lookup(&counter, &key).await?;
        Ok(outcome(&view, found, key.event_time))
    }
}

fn outcome(view: &View, found: Lookup, event_time: Micros) -> EventOutcome {
    let after = machine::after_lookup(&found, view.closed(), event_time);
    match (after, found) {
        (_, Lookup::Stored(event)) => EventOutcome::Stored(event),
        (AfterLookup::RefusedLate, _) => EventOutcome::NotStored,
        (AfterLookup::OutcomeUnknown, _) => EventOutcome::Unknown,
        (AfterLookup::RetryLater | AfterLookup::AlreadyApplied, _) => EventOutcome::NotYetKnown,
    }
}

fn note_cache_error(error: &StoreError) {
    counter!(names::CACHE_ERRORS).increment(1);
    tracing::debug!(%error, "the cache failed; the rollup store answers");
}
