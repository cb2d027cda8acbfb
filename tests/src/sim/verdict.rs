//! The true verdict on a record: acceptance written apart from the production code, so that one
//! cannot hide the other's mistake.

use super::{
    bug::Bug,
    world::{control::TOPIC, log::Entry},
};
use quipu_adapters::ports::{Body, Stamp};
use quipu_core::{
    event::{CounterKey, EventRow, LogPosition, StoredEvent},
    policy::{Incarnation, PolicyBook},
};
use quipu_schemas::event;

/// The verdict on one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A tick.
    Tick,
    /// Stored.
    Accepted(EventRow),
    /// Dead-lettered for a reason.
    Refused(&'static str),
}

/// The true verdict on a record.
pub(super) fn truth(
    bug: Option<Bug>,
    policy: &PolicyBook,
    partition: u32,
    entry: &Entry,
) -> Verdict {
    let (value, stamp) = match (&entry.record.body, entry.record.stamp) {
        (Body::Tick, Stamp::Log(_)) => return Verdict::Tick,
        (Body::Data { value, .. }, Stamp::Log(_)) => (value, entry.effective),
        (_, Stamp::Producer(_)) => return Verdict::Refused("not_log_stamped"),
    };
    let Ok(event) = event::decode(value) else {
        return Verdict::Refused("malformed");
    };
    let Some(history) = policy.history(event.namespace.as_str()) else {
        return Verdict::Refused("unknown_namespace");
    };
    if history.topic() != TOPIC {
        return Verdict::Refused("wrong_topic");
    }
    let alive = |life: &&Incarnation| {
        life.created_at() <= stamp && life.deleted_at().is_none_or(|end| stamp < end)
    };
    let Some(life) = history.lives().iter().find(alive) else {
        return Verdict::Refused("unknown_namespace");
    };
    if !life.mode().keeps_events() {
        return Verdict::Refused("keeps_no_events");
    }
    let slack = i64::from(bug == Some(Bug::AcceptsTheHorizon));
    let mut ahead = 0;
    for (index, version) in life.versions().iter().enumerate() {
        if version.from > stamp {
            break;
        }
        let end = life
            .versions()
            .get(index + 1)
            .map_or(i64::MAX, |next| next.from.get() - 1);
        let limit = i64::try_from(version.limits.accept_limit.as_micros()).expect("short");
        if event.key.event_time.get() <= stamp.get().min(end) - limit - slack {
            return Verdict::Refused("late");
        }
        ahead = i64::try_from(version.limits.max_future.as_micros()).expect("short");
    }
    if event.key.event_time.get() > stamp.get() + ahead {
        return Verdict::Refused("too_far_ahead");
    }
    let source = LogPosition {
        effective_time: stamp,
        partition,
        offset: entry.record.offset,
    };
    let counter = CounterKey {
        namespace: life.id(),
        name: event.counter,
    };
    let event = StoredEvent {
        key: event.key,
        mutation: event.mutation,
        source,
    };
    Verdict::Accepted(EventRow { counter, event })
}
