//! Calls of `BEST_EFFORT` namespaces: a cache alone counts. Tokens are ignored, nothing is logged or
//! stored, and a call whose outcome is unknown stays unknown.

use crate::{
    call::{Applied, Count, MutationRequest, Status},
    failure::{Failure, reason},
    gateway::{Gateway, View},
    metrics::Meters,
    mutate::{count_refused, in_item},
};
use futures::{StreamExt, stream};
use quipu_adapters::ports::{
    BestEffort, BestEffortError, Cache, ControlPlane, EventStore, Producer, RollupStore,
};
use quipu_core::{
    event::{CounterKey, Mutation, NamespaceId},
    name::{CounterName, Namespace},
};
use std::time::Duration;
use tonic::Code;

/// How many items of one batch are under way at the same time. They share round trips.
const ITEMS_AT_ONCE: usize = 256;

/// The counters of a namespace that keeps no events.
pub(crate) struct BestEffortCounters<'a> {
    cache: &'a dyn BestEffort,
    meters: &'a Meters,
    namespace: NamespaceId,
    ttl: Duration,
}

impl<L: Producer, E: EventStore, R: RollupStore, C: Cache, P: ControlPlane> Gateway<L, E, R, C, P> {
    /// The counters of a namespace, if it keeps no events.
    pub(crate) fn best_effort(&self, view: &View) -> Option<BestEffortCounters<'_>> {
        (!view.life.mode().keeps_events()).then(|| BestEffortCounters {
            cache: &*self.ports.best_effort,
            meters: &self.meters,
            namespace: view.life.id(),
            ttl: view.life.history().counter_ttl(),
        })
    }
}

impl BestEffortCounters<'_> {
    pub(crate) async fn mutate(&self, request: MutationRequest<'_>) -> Result<Applied, Failure> {
        self.mutate_and_get(request)
            .await
            .map(|(applied, _)| applied)
    }

    /// The count is the one that this very mutation left.
    pub(crate) async fn mutate_and_get(
        &self,
        request: MutationRequest<'_>,
    ) -> Result<(Applied, Count), Failure> {
        let counter = self.counter(request.counter_name)?;
        let left = match request.mutation {
            Mutation::Add(delta) => self.cache.add(&counter, delta, self.ttl).await,
            Mutation::Clear => self.cache.delete(&counter).await.map(|()| 0),
        };
        let count = left.map_err(|error| of_mutation(&error))?;
        self.meters.accepted().increment(1);
        let applied = Applied {
            status: Status::BestEffort,
            made_token: None,
        };
        Ok((applied, approximate(count)))
    }

    /// Each item fails alone, and has its result in the order given.
    pub(crate) async fn batch_add(
        &self,
        items: Vec<Result<MutationRequest<'_>, Failure>>,
    ) -> Vec<Result<Applied, Failure>> {
        let adds = items.into_iter().enumerate().map(|(at, item)| async move {
            let applied = match item {
                Ok(item) => self.mutate(item).await,
                Err(failure) => Err(failure),
            };
            applied
                .map_err(|failure| in_item(at, failure))
                .inspect_err(count_refused)
        });
        // Of one type, so that the call can go to any thread.
        let adds: Vec<_> = adds.collect();
        stream::iter(adds).buffered(ITEMS_AT_ONCE).collect().await
    }

    /// A counter that is not there is zero: never written, cleared, or lost.
    pub(crate) async fn get(&self, counter_name: &str) -> Result<Count, Failure> {
        let counter = self.counter(counter_name)?;
        let read = self.cache.get(&counter).await;
        read.map(|count| approximate(count.unwrap_or(0)))
            .map_err(|error| of_read(&error))
    }

    fn counter(&self, name: &str) -> Result<CounterKey, Failure> {
        Ok(CounterKey {
            namespace: self.namespace,
            name: CounterName::new(name)?,
        })
    }
}

fn approximate(count: i64) -> Count {
    Count {
        count,
        complete_through: None,
    }
}

fn of_mutation(error: &BestEffortError) -> Failure {
    match error {
        BestEffortError::OutOfRange => {
            let message = format!("{error}; nothing changed: clear the counter");
            Failure::new(Code::OutOfRange, reason::COUNT_OUT_OF_RANGE, message)
        }
        // No delay is given: nobody should come back with this call.
        BestEffortError::Unavailable(_) => Failure::new(
            Code::Unavailable,
            reason::NOT_IDEMPOTENT,
            format!(
                "{error}; the mutation may or may not have been applied, and a retry could count it \
                 twice: do not retry it blindly"
            ),
        ),
        BestEffortError::Damaged(_) => of_read(error),
    }
}

fn of_read(error: &BestEffortError) -> Failure {
    match error {
        BestEffortError::Unavailable(_) => {
            Failure::unavailable(reason::STORAGE_UNAVAILABLE, error.to_string())
        }
        BestEffortError::OutOfRange | BestEffortError::Damaged(_) => {
            tracing::error!(%error, "a call met a best-effort counter that is none");
            let message = format!("{error}; clear the counter");
            Failure::new(Code::Internal, reason::STORAGE_DAMAGED, message)
        }
    }
}

impl Failure {
    pub(crate) fn keeps_no_events(namespace: &Namespace) -> Self {
        let message = format!(
            "namespace {namespace} is BEST_EFFORT: it keeps no events that could be looked up"
        );
        Self::new(Code::FailedPrecondition, reason::KEEPS_NO_EVENTS, message)
    }
}
