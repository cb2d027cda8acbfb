//! The invariants, and what they are checked against: the log itself and the true policy. The
//! verdicts here are written apart from the production code on purpose.

mod quiet;
mod reads;

use super::{
    verdict::{Verdict, truth},
    world::World,
};
use quipu_adapters::ports::{Body, Committed, SliceState};
use quipu_core::{
    checkpoint::Checkpoint,
    event::{CounterKey, EventKey, EventRow, Mutation, NamespaceId, StoredEvent},
    time::Micros,
};
use quipu_schemas::signal;
use std::collections::{BTreeMap, BTreeSet};

/// What a client was told for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// ACCEPTED or `ALREADY_APPLIED`.
    Applied,
    /// Refused as late: it was never counted and never will be.
    Refused,
}

type Events = BTreeMap<EventKey, StoredEvent>;

/// What is known of what ought to be.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    /// The first broken invariant.
    pub violation: Option<String>,
    /// What clients were told.
    pub told: Vec<(CounterKey, EventKey, Told)>,
    verdicts: BTreeMap<(u32, u64), Verdict>,
    undecided: BTreeSet<(u32, u64)>,
    accepted: BTreeMap<CounterKey, Events>,
    dead_lettered: BTreeSet<(u32, u64)>,
    closed: BTreeMap<NamespaceId, Micros>,
    visible: BTreeMap<(CounterKey, Micros), i128>,
    finished: BTreeMap<u32, usize>,
}

fn fold<'a>(events: impl Iterator<Item = &'a StoredEvent>) -> i128 {
    events.fold(0, |count, event| match event.mutation {
        Mutation::Add(delta) => count + i128::from(delta),
        Mutation::Clear => 0,
    })
}

impl World {
    /// An invariant is broken. The first one counts.
    pub(super) fn violate(&mut self, what: String) {
        self.note(&format!("VIOLATION {what}"));
        self.oracle.violation.get_or_insert(what);
    }

    /// A record was appended.
    pub(super) fn check_append(&mut self, partition: u32, offset: u64) {
        self.oracle.undecided.insert((partition, offset));
    }

    /// Ingest decided a record (invariant 1).
    pub(super) fn check_verdict(&mut self, partition: u32, offset: u64, verdict: Verdict) {
        let place = (partition, offset);
        if let Some(first) = self.oracle.verdicts.get(&place) {
            if *first != verdict {
                let what = format!("two verdicts on {place:?}: {first:?}, then {verdict:?}");
                self.violate(what);
            }
            return;
        }
        let truth = self.truth(place);
        if truth != verdict {
            self.violate(format!(
                "wrong verdict on {place:?}: {verdict:?}, not {truth:?}"
            ));
        }
        self.oracle.undecided.remove(&place);
        if let Verdict::Accepted(row) = &verdict {
            let events = self.oracle.accepted.entry(row.counter.clone()).or_default();
            let known = events
                .entry(row.event.key.clone())
                .or_insert_with(|| row.event.clone());
            if row.event.source < known.source {
                *known = row.event.clone();
            }
        }
        self.oracle.verdicts.insert(place, verdict);
    }

    fn truth(&self, (partition, offset): (u32, u64)) -> Verdict {
        let state = &self.events_topic.partitions[partition as usize];
        truth(
            self.bug,
            self.control.truth(),
            partition,
            &state.entries[state.index(offset)],
        )
    }

    /// A dead letter is in its topic.
    pub(super) fn check_dead_letter(&mut self, body: &Body) {
        let Body::Data { headers, .. } = body else {
            return;
        };
        let header = |name: &str| {
            let (_, value) = headers.iter().rev().find(|(key, _)| key == name)?;
            std::str::from_utf8(value).ok()?.parse::<u64>().ok()
        };
        let place = (
            header("quipu-source-partition"),
            header("quipu-source-offset"),
        );
        if let (Some(partition), Some(offset)) = place {
            let partition = u32::try_from(partition).expect("few partitions");
            self.oracle.dead_lettered.insert((partition, offset));
        }
    }

    /// Somebody relies on a closed time.
    pub(super) fn publish_closed(&mut self, namespace: NamespaceId, closed: Micros) {
        let known = self.oracle.closed.entry(namespace).or_insert(closed);
        *known = closed.max(*known);
    }

    /// A row is about to be written (invariant 2).
    pub(super) fn check_write(&mut self, row: &EventRow) {
        let copies = self
            .events
            .rows
            .get(&row.counter)
            .and_then(|rows| rows.get(&row.event.key));
        let closed = self.oracle.closed.get(&row.counter.namespace);
        let is_closed = closed.is_some_and(|closed| row.event.key.event_time <= *closed);
        if copies.is_none() && is_closed {
            self.violate(format!("a new identity at or before {closed:?}: {row:?}"));
        }
    }

    /// A checkpoint became visible (invariant 3).
    pub(super) fn check_checkpoint(
        &mut self,
        place: &str,
        counter: &CounterKey,
        checkpoint: Checkpoint,
    ) {
        let (through, count) = (checkpoint.last_rollup, checkpoint.count.get());
        self.note(&format!(
            "{place} {}/{} = {count} through {through}",
            counter.namespace.0, counter.name
        ));
        if let Some(ahead) = self.undecided_before(counter, through) {
            self.violate(format!(
                "{place}: {counter:?} closed at {through} before {ahead:?}"
            ));
        }
        if self.is_abandoned(counter) {
            return;
        }
        let expected = self.count_through(counter, through);
        if expected != count {
            self.violate(format!(
                "{place}: {counter:?} through {through} is {count}, not {expected}"
            ));
        }
        self.oracle
            .visible
            .insert((counter.clone(), through), count);
    }

    /// An aborted transaction took a record back.
    pub(super) fn forget_append(&mut self, partition: u32, offset: u64) {
        let place = (partition, offset);
        self.oracle.undecided.remove(&place);
        if let Some(verdict) = self.oracle.verdicts.get(&place) {
            let what = format!("{place:?} was never committed, and decided: {verdict:?}");
            self.violate(what);
        }
    }

    /// A checkpoint took another's place (R15).
    pub(super) fn check_not_older(
        &mut self,
        place: &str,
        counter: &CounterKey,
        before: Option<Checkpoint>,
        set: Checkpoint,
    ) {
        if before.is_some_and(|before| before.supersedes(&set)) {
            self.violate(format!(
                "{place}: {counter:?} went back from {before:?} to {set:?}"
            ));
        }
    }

    /// Slices may go although a counter of a deleted namespace is not rolled up past them.
    fn is_abandoned(&self, counter: &CounterKey) -> bool {
        let life = self.control.truth().incarnation(counter.namespace);
        let deleted = life.is_some_and(|(_, life)| life.deleted_at().is_some());
        deleted
            && self
                .events
                .slices()
                .iter()
                .any(|slice| slice.state == SliceState::Dropped)
    }

    fn undecided_before(&self, counter: &CounterKey, through: Micros) -> Option<EventRow> {
        let open = self.oracle.undecided.iter().map(|place| self.truth(*place));
        open.into_iter().find_map(|verdict| match verdict {
            Verdict::Accepted(row)
                if row.counter == *counter && row.event.key.event_time <= through =>
            {
                Some(row)
            }
            _ => None,
        })
    }

    /// The ordered fold of the accepted events of a counter up to a time.
    pub(super) fn count_through(&self, counter: &CounterKey, through: Micros) -> i128 {
        let events = self
            .oracle
            .accepted
            .get(counter)
            .into_iter()
            .flat_map(BTreeMap::values);
        fold(events.take_while(|event| event.key.event_time <= through))
    }

    /// A frontier of the events topic was committed, or a watermark published (invariant 5).
    pub(super) fn check_frontier(&mut self, partition: u32, frontier: Committed) {
        let state = &self.events_topic.partitions[partition as usize];
        let effective = state.effective_before(frontier.next_offset);
        if effective != frontier.effective_time {
            self.violate(format!(
                "frontier {frontier:?} of {partition} should say {effective}"
            ));
        }
        self.check_finished(partition, frontier.next_offset);
    }

    fn check_finished(&mut self, partition: u32, next_offset: u64) {
        let state = &self.events_topic.partitions[partition as usize];
        let from = self.oracle.finished.get(&partition).copied().unwrap_or(0);
        let to = state.index(next_offset).max(from);
        let offsets: Vec<u64> = state.entries[from..to]
            .iter()
            .map(|entry| entry.record.offset)
            .collect();
        for offset in offsets {
            if !self.is_finished((partition, offset)) {
                self.violate(format!(
                    "{partition}/{offset} was passed undecided or undurable"
                ));
            }
        }
        self.oracle.finished.insert(partition, to);
    }

    fn is_finished(&self, place: (u32, u64)) -> bool {
        match self.oracle.verdicts.get(&place) {
            None => false,
            Some(Verdict::Tick) => true,
            Some(Verdict::Refused(_)) => self.oracle.dead_lettered.contains(&place),
            Some(Verdict::Accepted(row)) => {
                let copies = self
                    .events
                    .rows
                    .get(&row.counter)
                    .and_then(|rows| rows.get(&row.event.key));
                let mut copies = copies.into_iter().flatten();
                self.events.slice(&row.event.key).1 == Some(SliceState::Dropped)
                    || copies.any(|copy| copy.durable && copy.event.source <= row.event.source)
            }
        }
    }

    /// A signal frontier was committed: what it passes is rolled up or parked, durably (R17).
    pub(super) fn check_signal_commit(&mut self, partition: u32, from: u64, to: u64) {
        let state = &self.signals_topic.partitions[partition as usize];
        let passed: Vec<_> = state.entries[state.index(from)..state.index(to.max(from))]
            .iter()
            .filter_map(|entry| match &entry.record.body {
                Body::Data { value, .. } => signal::decode(value)
                    .ok()
                    .map(|it| (entry.record.offset, it)),
                Body::Tick => None,
            })
            .collect();
        for (offset, signal) in passed {
            let policy = self.control.truth();
            let lives = policy
                .incarnation(signal.counter.namespace)
                .is_some_and(|(_, life)| life.deleted_at().is_none());
            let Some(write) = signal.last_write.filter(|_| lives) else {
                continue;
            };
            let rolled = self
                .rollups
                .durable_checkpoint(&signal.counter)
                .is_some_and(|it| it.last_rollup >= write);
            if !rolled
                && !self
                    .rollups
                    .is_parked_durably(partition, &signal.counter, write)
            {
                self.violate(format!("signal {partition}/{offset} was committed before {signal:?} was rolled up or parked"));
            }
        }
    }

    /// A client was told something for good.
    pub(super) fn tell(&mut self, counter: CounterKey, key: EventKey, told: Told) {
        self.note(&format!(
            "told {}/{} {:?} {told:?}",
            counter.namespace.0, counter.name, key.event_id
        ));
        self.oracle.told.push((counter, key, told));
    }
}
