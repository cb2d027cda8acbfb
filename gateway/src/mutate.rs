//! Adds and clears: check, append or look up, answer.

use crate::{
    call::{self, Applied, EventToken, MutationRequest, Status, TokenRequest},
    failure::Failure,
    gateway::{Gateway, View},
    machine::{self, AfterAppend, AfterLookup, Precheck},
    names,
};
use ::metrics::counter;
use futures::{StreamExt, stream};
use quipu_adapters::ports::{
    Appended, Body, Cache, ControlPlane, EventStore, NewRecord, Producer, RollupStore, Topic,
};
use quipu_core::{
    event::{CounterKey, Mutation},
    key,
    name::CounterName,
};
use quipu_schemas::event::{self, CheckedEvent};
use tonic::Code;
use uuid::Uuid;

/// How many late items of one batch are looked up at the same time.
const LOOKUPS_AT_ONCE: usize = 32;

/// A mutation that passed its checks.
struct Prepared {
    event: CheckedEvent,
    next: Next,
    made_token: Option<EventToken>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Append,
    LookUp,
}

impl<L: Producer, E: EventStore, R: RollupStore, C: Cache, P: ControlPlane> Gateway<L, E, R, C, P> {
    /// Adds to a counter, or clears it: zeroes what stands before the clear.
    pub async fn mutate(
        &self,
        namespace: &str,
        request: MutationRequest<'_>,
    ) -> Result<Applied, Failure> {
        let view = self.view(namespace)?;
        let charged = self.charge(&view, request.counter_name);
        charged.inspect_err(count_refused)?;
        if let Some(counters) = self.best_effort(&view) {
            return counters.mutate(request).await.inspect_err(count_refused);
        }
        let (applied, _) = self.mutate_one(&view, request).await?;
        Ok(applied)
    }

    /// The same, of a call that has begun, with the event that it made.
    pub(crate) async fn mutate_one(
        &self,
        view: &View,
        request: MutationRequest<'_>,
    ) -> Result<(Applied, CheckedEvent), Failure> {
        let prepared = prepare(view, request).inspect_err(count_refused)?;
        let event = prepared.event.clone();
        let mut results = self.mutate_all(view, vec![Ok(prepared)]).await;
        let applied = results.pop().expect("one mutation has one result")?;
        if event.mutation == Mutation::Clear && applied.status == Status::Accepted {
            let counter = CounterKey {
                namespace: view.life.id(),
                name: event.counter.clone(),
            };
            let (namespace, at) = (event.namespace.clone(), event.key.event_time);
            self.signals.written(namespace, counter, at);
        }
        Ok((applied, event))
    }

    /// Mutates up to 1,000 counters with one append. Each item has a result of its own, in the
    /// order given; an item that is already an error keeps it.
    pub async fn batch_add(
        &self,
        namespace: &str,
        items: Vec<Result<MutationRequest<'_>, Failure>>,
    ) -> Result<Vec<Result<Applied, Failure>>, Failure> {
        let view = self.view(namespace)?;
        call::check_batch_size("items", items.len())?;
        let charged = self.charge_batch(&view, items);
        let items = charged.inspect_err(count_refused)?;
        if let Some(counters) = self.best_effort(&view) {
            return Ok(counters.batch_add(items).await);
        }
        let checked = items.into_iter().enumerate().map(|(at, item)| {
            let prepared = item.and_then(|item| prepare(&view, item));
            prepared
                .map_err(|failure| in_item(at, failure))
                .inspect_err(count_refused)
        });
        Ok(self.mutate_all(&view, checked.collect()).await)
    }

    async fn mutate_all(
        &self,
        view: &View,
        checked: Vec<Result<Prepared, Failure>>,
    ) -> Vec<Result<Applied, Failure>> {
        let to = |next| {
            checked
                .iter()
                .flatten()
                .filter(move |p| p.next == next)
                .map(|p| &p.event)
        };
        let fresh: Vec<_> = to(Next::Append).collect();
        let late: Vec<_> = to(Next::LookUp).collect();
        let (appended, looked_up) = tokio::join!(self.append(&fresh), self.look_up(view, &late));
        let (mut appended, mut looked_up) = (appended.into_iter(), looked_up.into_iter());
        let apply = |item: Result<Prepared, Failure>| {
            let item = item?;
            let verdict = match item.next {
                Next::Append => appended.next(),
                Next::LookUp => looked_up.next(),
            };
            let verdict = verdict.expect("every mutation has a verdict");
            let status = verdict.inspect_err(count_refused)?;
            Ok(Applied {
                status,
                made_token: item.made_token,
            })
        };
        checked.into_iter().map(apply).collect()
    }

    /// Appends events and says of each, in their order, whether it is accepted (R7).
    async fn append(&self, events: &[&CheckedEvent]) -> Vec<Result<Status, Failure>> {
        if events.is_empty() {
            return Vec::new();
        }
        let partitions = self.ports.log.partitions(Topic::Events);
        let records = events
            .iter()
            .map(|event| record(event, partitions))
            .collect();
        let appended = match self.ports.log.append(Topic::Events, records).await {
            Ok(appended) => appended,
            Err(error) => return vec![Err(error.into()); events.len()],
        };
        assert_eq!(
            appended.len(),
            events.len(),
            "the log answers for every record"
        );
        // Read only now: what is in effect at the append is in it.
        let book = self.book();
        let guard = self.settings.append_guard;
        let verdict = |(event, appended): (&&CheckedEvent, &Appended)| {
            let (name, at) = (event.namespace.as_str(), event.key.event_time);
            if machine::is_capped(&book, name, *appended) {
                return Err(Failure::undecided());
            }
            match machine::after_append(&book, name, appended.append_time, guard, at) {
                AfterAppend::Accepted(_) => {
                    self.meters.accepted().increment(1);
                    Ok(Status::Accepted)
                }
                AfterAppend::Unavailable => Err(Failure::undecided()),
            }
        };
        events.iter().zip(&appended).map(verdict).collect()
    }

    /// Looks up what became of earlier attempts of late events, in their order (R16).
    async fn look_up(&self, view: &View, events: &[&CheckedEvent]) -> Vec<Result<Status, Failure>> {
        let lookups: Vec<_> = events
            .iter()
            .map(|event| self.look_up_one(view, event))
            .collect();
        stream::iter(lookups)
            .buffered(LOOKUPS_AT_ONCE)
            .collect()
            .await
    }

    async fn look_up_one(&self, view: &View, event: &CheckedEvent) -> Result<Status, Failure> {
        let counter = CounterKey {
            namespace: view.life.id(),
            name: event.counter.clone(),
        };
        let found = self.ports.events.lookup(&counter, &event.key).await?;
        match machine::after_lookup(&found, view.closed(), event.key.event_time) {
            AfterLookup::AlreadyApplied => {
                self.meters.already_applied().increment(1);
                Ok(Status::AlreadyApplied)
            }
            AfterLookup::RetryLater => Err(Failure::window_open()),
            AfterLookup::RefusedLate => Err(Failure::late(&view.life, view.moment.effective)),
            AfterLookup::OutcomeUnknown => Err(Failure::outcome_unknown()),
        }
    }
}

fn prepare(view: &View, request: MutationRequest<'_>) -> Result<Prepared, Failure> {
    let counter = CounterName::new(request.counter_name)?;
    let (key, made_token) = if let Some(token) = request.token {
        (call::event_key(token, request.item_key)?, None)
    } else {
        let text = Uuid::new_v4().to_string();
        // The newest time that is known, so that a clock that stepped back makes nothing late.
        let generation_time = view.moment.effective;
        let made = TokenRequest {
            token: &text,
            generation_time,
        };
        let key = call::event_key(made, request.item_key)?;
        let made = EventToken {
            token: key.event_id.clone(),
            generation_time,
        };
        (key, Some(made))
    };
    let (life, moment) = (&view.life, view.moment);
    let next = match machine::precheck(life, moment, key.event_time) {
        Precheck::Append => Next::Append,
        Precheck::LookUp => Next::LookUp,
        Precheck::RefusedLate => return Err(Failure::late(life, moment.effective)),
        Precheck::TooFarAhead => return Err(Failure::too_far_ahead(life, moment.effective)),
    };
    let namespace = view.namespace.clone();
    let event = CheckedEvent {
        namespace,
        counter,
        key,
        mutation: request.mutation,
    };
    Ok(Prepared {
        event,
        next,
        made_token,
    })
}

fn record(event: &CheckedEvent, partitions: u32) -> NewRecord {
    let key = key::key_bytes(&event.namespace, &event.counter);
    NewRecord {
        partition: key::partition(key::route(&key), partitions),
        body: Body::value(event::encode(event)),
    }
}

pub(crate) fn count_refused(failure: &Failure) {
    counter!(names::REFUSED, "reason" => failure.reason).increment(1);
}

/// The failure of an item, with the place of a field that is to blame in the whole request.
pub(crate) fn in_item(at: usize, failure: Failure) -> Failure {
    if failure.code == Code::InvalidArgument {
        failure.within(&format!("items[{at}]"))
    } else {
        failure
    }
}
