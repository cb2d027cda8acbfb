//! What must hold when all is quiet.

use super::{Told, fold};
use crate::sim::world::{World, log::Entry};
use quipu_adapters::ports::{Body, SliceState};
use quipu_core::{
    checkpoint::Checkpoint,
    event::{CounterKey, EventKey},
};

impl World {
    /// Whether all that was read is finished and committed, and nothing is parked any more
    /// (invariant 6). Ticks go on for ever.
    pub(in crate::sim) fn is_drained(&self) -> bool {
        let signals = &self.signals_topic.partitions;
        let committed = signals
            .iter()
            .all(|state| state.index(state.committed.next_offset) == state.entries.len());
        let is_tick = |entry: &Entry| entry.record.body == Body::Tick;
        let events = &self.events_topic.partitions;
        let rest = events
            .iter()
            .flat_map(|state| &state.entries[state.index(state.committed.next_offset)..]);
        committed && rest.into_iter().all(is_tick)
    }

    /// What must hold when all is quiet (invariants 1, 3 and 4).
    pub(in crate::sim) fn check_quiet(&mut self) {
        for (counter, key, told) in std::mem::take(&mut self.oracle.told) {
            let stored = self
                .oracle
                .accepted
                .get(&counter)
                .is_some_and(|events| events.contains_key(&key));
            if stored != (told == Told::Applied) {
                self.violate(format!(
                    "{counter:?} {key:?}: told {told:?}, but stored is {stored}"
                ));
            }
        }
        for ((counter, through), count) in std::mem::take(&mut self.oracle.visible) {
            let expected = self.count_through(&counter, through);
            if expected != count {
                self.violate(format!(
                    "{counter:?} through {through} was {count}, is {expected}"
                ));
            }
        }
        let counters: Vec<CounterKey> = self.oracle.accepted.keys().cloned().collect();
        for counter in counters {
            self.check_rows(&counter);
        }
    }

    fn check_rows(&mut self, counter: &CounterKey) {
        let kept = |key: &EventKey| self.events.slice(key).1 != Some(SliceState::Dropped);
        let accepted = self.oracle.accepted[counter]
            .values()
            .filter(|event| kept(&event.key));
        let rows = self.events.rows.get(counter).into_iter().flatten();
        let stored = rows.filter_map(|(_, copies)| {
            copies
                .iter()
                .map(|copy| &copy.event)
                .min_by_key(|event| event.source)
        });
        let (accepted, stored): (Vec<_>, Vec<_>) = (accepted.collect(), stored.collect());
        if accepted != stored {
            let (more, fewer) = (accepted.len(), stored.len());
            let odd = accepted.into_iter().find(|event| !stored.contains(event));
            let what =
                format!("{counter:?}: {more} accepted events, {fewer} rows; not a row: {odd:?}");
            self.violate(what);
        }
    }

    /// The counters of living namespaces that are not yet what they ought to be.
    pub(in crate::sim) fn unconverged(&self) -> Option<String> {
        self.oracle.accepted.iter().find_map(|(counter, events)| {
            let (_, life) = self.control.truth().incarnation(counter.namespace)?;
            if life.deleted_at().is_some() {
                return None;
            }
            let last = events.last_key_value()?.0.event_time;
            let expected = fold(events.values());
            let covers = |found: Option<Checkpoint>| {
                found.is_some_and(|it| it.count.get() == expected && it.last_rollup >= last)
            };
            let (stored, cached) = (
                self.rollups.row(counter).checkpoint,
                self.rollups.cache.get(counter).copied(),
            );
            let converged = covers(stored) && cached.is_none_or(|it| covers(Some(it)));
            (!converged).then(|| {
                format!("{counter:?}: {stored:?}, cached {cached:?}, is {expected} at {last}")
            })
        })
    }
}
