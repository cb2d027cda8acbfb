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
    aggregate::Count as Sum,
    checkpoint::Checkpoint,
    event::{CounterKey, StoredEvent},
    policy::Mode,
    time::Micros,
};
use quipu_schemas::timestamp::to_rfc3339;
use std::slice;
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
    /// The count of a counter: rolled up, or as it is now, as its namespace's mode says. One whose
    /// checkpoint is stale is signalled, so that a later read finds it fresh.
    pub async fn get(&self, namespace: &str, counter_name: &str) -> Result<Count, Failure> {
        let view = self.view(namespace)?;
        self.read(&view, counter_name).await
    }

    /// The same, of a call that has begun.
    pub(crate) async fn read(&self, view: &View, counter_name: &str) -> Result<Count, Failure> {
        if let Some(counters) = self.best_effort(view) {
            return counters.get(counter_name).await;
        }
        let counter = view.counter(counter_name)?;
        let checkpoint = self.checkpoint_or_origin(view, &counter).await?;
        self.signal_if_stale(view, &counter, checkpoint);
        let (count, through) = match view.life.mode() {
            Mode::Accurate => self.read_accurately(view, &counter, checkpoint).await?,
            Mode::EventuallyConsistent | Mode::BestEffort => {
                (checkpoint.count, checkpoint.last_rollup)
            }
        };
        answer(count, through)
    }

    pub(crate) fn signal_if_stale(
        &self,
        view: &View,
        counter: &CounterKey,
        checkpoint: Checkpoint,
    ) {
        let coalesce = view.life.history().rollup().coalesce;
        if machine::is_stale(checkpoint.lag(view.closed()), coalesce) {
            counter!(names::STALE_READS).increment(1);
            let now = self.clock.read().steady;
            self.signals.stale(&view.namespace, counter, now);
        }
    }

    /// The newest checkpoint that is known here.
    pub(crate) async fn checkpoint_or_origin(
        &self,
        view: &View,
        counter: &CounterKey,
    ) -> Result<Checkpoint, Failure> {
        // The cache may fail at any time: the rollup store knows all that it knows.
        let found = match self.cached_checkpoint(counter).await {
            Some(checkpoint) => Some(checkpoint),
            None => self.stored_checkpoint(counter).await?,
        };
        Ok(found.unwrap_or_else(|| Checkpoint::origin(view.life.origin())))
    }

    /// What the cache has; nothing, where it fails.
    pub(crate) async fn cached_checkpoint(&self, counter: &CounterKey) -> Option<Checkpoint> {
        match self.ports.cache.get(counter).await {
            Ok(Some(checkpoint)) => {
                self.meters.cache_read(CacheRead::Hit);
                Some(checkpoint)
            }
            Ok(None) => {
                self.meters.cache_read(CacheRead::Miss);
                None
            }
            Err(error) => {
                self.meters.cache_read(CacheRead::Failed);
                note_cache_error(&error);
                None
            }
        }
    }

    /// What the rollup store has of a counter; the cache has it then, too.
    pub(crate) async fn stored_checkpoint(
        &self,
        counter: &CounterKey,
    ) -> Result<Option<Checkpoint>, Failure> {
        let stored = self.stored_checkpoints(slice::from_ref(counter)).await?;
        Ok(stored.into_iter().next().flatten())
    }

    /// What the rollup store has of each counter; the cache has it then, too.
    pub(crate) async fn stored_checkpoints(
        &self,
        counters: &[CounterKey],
    ) -> Result<Vec<Option<Checkpoint>>, Failure> {
        if counters.is_empty() {
            return Ok(Vec::new());
        }
        let rows = self.ports.rollups.load(counters).await?;
        let found = counters.iter().zip(&rows);
        let found = found.filter_map(|(counter, row)| Some((counter.clone(), row.checkpoint?)));
        let found: Vec<_> = found.collect();
        if !found.is_empty() {
            let filled = self.ports.cache.set_if_newer(found).await;
            filled.unwrap_or_else(|error| note_cache_error(&error));
        }
        Ok(rows.into_iter().map(|row| row.checkpoint).collect())
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
        let counter = view.counter(counter_name)?;
        let key = call::event_key(token, item_key)?;
        if key.event_time <= view.life.origin() {
            return Ok(EventOutcome::NotStored);
        }
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

/// A count for an API answer.
pub(crate) fn answer(count: Sum, complete_through: Micros) -> Result<Count, Failure> {
    let count = count.to_i64().map_err(|error| {
        let message = format!("{error}; complete through {}", to_rfc3339(complete_through));
        Failure::new(Code::OutOfRange, reason::COUNT_OUT_OF_RANGE, message)
    })?;
    Ok(Count {
        count,
        complete_through: Some(complete_through),
    })
}

fn note_cache_error(error: &StoreError) {
    counter!(names::CACHE_ERRORS).increment(1);
    tracing::debug!(%error, "the cache failed; the rollup store answers");
}
