//! The coalescing set: counters that wait for their windows to close, each with the signals that
//! are finished once it is rolled up past them. 500 writes in a coalesce window are one entry.

mod room;
mod terms;
mod waits;

pub use terms::{Mark, Pace, Settled, SignalAt};

use quipu_adapters::ports::Parked;
use quipu_core::{
    event::{CounterKey, NamespaceId},
    name::CounterName,
    time::Micros,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};
use xxhash_rust::xxh3::Xxh3DefaultBuilder;

#[derive(Debug)]
struct Counter {
    marks: Vec<Mark>,
    parked: Option<(u32, Micros)>,
    ripe_at: Micros,
    in_flight: bool,
    rolled_through: Micros,
}

impl Counter {
    fn is_idle(&self) -> bool {
        self.marks.is_empty() && self.parked.is_none()
    }
}

/// More marks than this are merged: a counter's signals stay bounded.
const MOST_MARKS: usize = 64;

type Ripe = BTreeMap<NamespaceId, BTreeSet<(Micros, CounterName)>>;

/// The set. Iteration order never depends on chance: the hasher is fixed.
#[derive(Debug, Default)]
pub struct PendingSet {
    counters: HashMap<CounterKey, Counter, Xxh3DefaultBuilder>,
    ripe: Ripe,
    idle: usize,
    turn: Option<NamespaceId>,
}

impl PendingSet {
    /// How many counters are in the set.
    pub fn len(&self) -> usize {
        self.counters.len()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.counters.is_empty()
    }

    /// How many have converged and only circulate.
    pub fn idle(&self) -> usize {
        self.idle
    }

    /// Whether a counter is in the set.
    pub fn contains(&self, counter: &CounterKey) -> bool {
        self.counters.contains_key(counter)
    }

    /// Takes a signal. Returns whether it opened a mark of its own; otherwise it coalesced into
    /// one that is open already.
    pub fn signal(&mut self, counter: &CounterKey, mark: Mark, coalesce: Duration) -> bool {
        let entry = self.entry(counter);
        let full = entry.marks.len() >= MOST_MARKS;
        let open = entry.marks.last_mut().filter(|open| {
            open.at.partition == mark.at.partition
                && (full || mark.last_write <= open.first_write + coalesce)
        });
        let opened = open.is_none();
        match open {
            Some(open) => open.last_write = open.last_write.max(mark.last_write),
            None => entry.marks.push(mark),
        }
        // A stale read tells of no write, but wants what has closed by now, whatever else waits.
        self.ripen(counter, mark.first_write, coalesce);
        opened
    }

    /// Takes a signal that was parked before.
    pub fn unpark(&mut self, partition: u32, parked: &Parked) {
        let entry = self.entry(&parked.counter);
        let known = entry
            .parked
            .map_or(Micros::MIN, |(_, last_write)| last_write);
        entry.parked = Some((partition, known.max(parked.last_write)));
        self.ripen(&parked.counter, parked.last_write, Duration::ZERO);
    }

    /// Up to `limit` counters whose oldest unrolled write is closed. They are in flight until
    /// they settle or are put back. Namespaces take turns.
    pub fn take_ripe(
        &mut self,
        closed: &BTreeMap<NamespaceId, Micros>,
        limit: usize,
    ) -> Vec<CounterKey> {
        let mut taken = Vec::new();
        let after_turn = |id: &NamespaceId| self.turn.is_some_and(|turn| *id <= turn);
        let mut namespaces: Vec<NamespaceId> = self.ripe.keys().copied().collect();
        namespaces.sort_by_key(after_turn);
        for namespace in namespaces {
            let (Some(closed), Some(ripe)) =
                (closed.get(&namespace), self.ripe.get_mut(&namespace))
            else {
                continue;
            };
            while taken.len() < limit && ripe.first().is_some_and(|(at, _)| at <= closed) {
                let Some((_, name)) = ripe.pop_first() else {
                    break;
                };
                let key = CounterKey { namespace, name };
                let entry = self
                    .counters
                    .get_mut(&key)
                    .expect("a ripe counter is in the set");
                entry.in_flight = true;
                taken.push(key);
                self.turn = Some(namespace);
            }
        }
        taken
    }

    /// A counter in flight was rolled up through a time. `noted` is the newest write that the
    /// store knew of.
    ///
    /// # Panics
    /// When it was not in flight.
    pub fn settle(
        &mut self,
        counter: &CounterKey,
        rolled_through: Micros,
        noted: Option<Micros>,
        pace: Pace,
    ) -> Settled {
        let entry = self
            .counters
            .get_mut(counter)
            .expect("a counter in flight is in the set");
        assert!(
            entry.in_flight,
            "{counter:?} settled without being in flight"
        );
        entry.in_flight = false;
        entry.rolled_through = entry.rolled_through.max(rolled_through);
        let was_idle = entry.is_idle();
        let mut settled = Settled::default();
        entry.marks.retain(|mark| {
            let open = mark.last_write > rolled_through;
            if !open {
                settled.signals.push(mark.at);
            }
            open
        });
        if let Some((partition, last_write)) = entry.parked.filter(|(_, at)| *at <= rolled_through)
        {
            entry.parked = None;
            settled.parked = Some((
                partition,
                Parked {
                    counter: counter.clone(),
                    last_write,
                },
            ));
        }
        let next_write = entry
            .marks
            .iter()
            .map(|mark| mark.first_write)
            .chain(entry.parked.map(|(_, last_write)| last_write))
            .chain(noted.filter(|noted| *noted > rolled_through))
            .min();
        let idle = entry.is_idle();
        self.idle = self.idle + usize::from(idle) - usize::from(was_idle);
        let due = match (next_write, pace.circulation) {
            (Some(write), _) => Some(write.max(rolled_through + pace.coalesce)),
            (None, Some(circulation)) => Some(rolled_through + circulation),
            (None, None) => None,
        };
        match due {
            Some(due) => self.schedule(counter, due),
            None => self.remove(counter),
        }
        settled
    }

    /// A counter in flight could not be rolled up: it is as ripe as before.
    pub fn put_back(&mut self, counter: &CounterKey) {
        let entry = self
            .counters
            .get_mut(counter)
            .expect("a counter in flight is in the set");
        entry.in_flight = false;
        let ripe_at = entry.ripe_at;
        self.schedule(counter, ripe_at);
    }

    /// The newest time that a counter is known to be rolled up through (R15: a worker never uses
    /// a base older than one it has seen).
    pub fn rolled_through(&self, counter: &CounterKey) -> Micros {
        self.counters
            .get(counter)
            .map_or(Micros::MIN, |entry| entry.rolled_through)
    }

    /// Signals that were read before `opened_before` and are not finished, as rows to park, each
    /// with the marks that the row stands for.
    pub fn overdue(&self, opened_before: Micros) -> Vec<(CounterKey, u32, Micros)> {
        let is_overdue = |entry: &&Counter| {
            entry
                .marks
                .first()
                .is_some_and(|mark| mark.opened < opened_before)
        };
        self.counters
            .iter()
            .filter(|(_, entry)| is_overdue(entry))
            .map(|(counter, entry)| {
                let partition = entry.marks[0].at.partition;
                let writes = entry
                    .marks
                    .iter()
                    .filter(|mark| mark.at.partition == partition);
                let last = writes
                    .map(|mark| mark.last_write)
                    .max()
                    .unwrap_or(Micros::MIN);
                (counter.clone(), partition, last)
            })
            .collect()
    }

    /// A row was stored for the signals of `partition` up to a write: they are finished once it
    /// is durable.
    pub fn parked(&mut self, partition: u32, parked: &Parked) -> Vec<SignalAt> {
        let Some(entry) = self.counters.get_mut(&parked.counter) else {
            return Vec::new();
        };
        self.idle -= usize::from(entry.is_idle());
        let mut signals = Vec::new();
        entry.marks.retain(|mark| {
            let open = mark.at.partition != partition || mark.last_write > parked.last_write;
            if !open {
                signals.push(mark.at);
            }
            open
        });
        // Its row may stand for a later write: a row is only finished when all of it is.
        let known = entry.parked.map_or(Micros::MIN, |(_, at)| at);
        entry.parked = Some((partition, parked.last_write.max(known)));
        signals
    }

    /// Forgets what waits for signals of partitions that are no longer owned.
    pub fn revoke(&mut self, partitions: &[u32]) {
        let mut left = Vec::new();
        for (counter, entry) in &mut self.counters {
            let was_idle = entry.is_idle();
            entry
                .marks
                .retain(|mark| !partitions.contains(&mark.at.partition));
            entry.parked = entry
                .parked
                .filter(|(partition, _)| !partitions.contains(partition));
            if entry.is_idle() && !was_idle {
                self.idle += 1;
                left.extend((!entry.in_flight).then(|| counter.clone()));
            }
        }
        for counter in left {
            self.unschedule(&counter);
            self.remove(&counter);
        }
    }

    /// Forgets everything, after the store lost writes (R11).
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Forgets waiting counters of namespaces that no longer live: all they waited for is
    /// finished.
    pub fn forget(&mut self, lives: impl Fn(NamespaceId) -> bool) -> Vec<Settled> {
        let gone: Vec<CounterKey> = self
            .counters
            .iter()
            .filter(|(counter, entry)| !entry.in_flight && !lives(counter.namespace))
            .map(|(counter, _)| counter.clone())
            .collect();
        let mut finished = Vec::with_capacity(gone.len());
        for counter in gone {
            self.unschedule(&counter);
            let entry = self.counters.remove(&counter).expect("it was just found");
            self.idle -= usize::from(entry.is_idle());
            let signals = entry.marks.iter().map(|mark| mark.at).collect();
            let row = |last_write| Parked {
                counter: counter.clone(),
                last_write,
            };
            let parked = entry.parked.map(|(partition, at)| (partition, row(at)));
            finished.push(Settled { signals, parked });
        }
        finished
    }

    /// A counter's entry, to which the caller adds something to wait for.
    fn entry(&mut self, counter: &CounterKey) -> &mut Counter {
        let was_idle = self.counters.get(counter).is_some_and(Counter::is_idle);
        self.idle -= usize::from(was_idle);
        self.counters
            .entry(counter.clone())
            .or_insert_with(|| Counter {
                marks: Vec::new(),
                parked: None,
                ripe_at: Micros::MAX,
                in_flight: false,
                rolled_through: Micros::MIN,
            })
    }

    /// Makes a waiting counter due at a write, but within a coalesce window of its last rollup
    /// only once.
    fn ripen(&mut self, counter: &CounterKey, write: Micros, coalesce: Duration) {
        let entry = &self.counters[counter];
        let at = write.max(entry.rolled_through + coalesce);
        if !entry.in_flight && at < entry.ripe_at {
            self.schedule(counter, at);
        }
    }

    fn schedule(&mut self, counter: &CounterKey, at: Micros) {
        self.unschedule(counter);
        let entry = self
            .counters
            .get_mut(counter)
            .expect("only counters of the set are due");
        entry.ripe_at = at;
        let ripe = self.ripe.entry(counter.namespace).or_default();
        ripe.insert((at, counter.name.clone()));
    }

    fn unschedule(&mut self, counter: &CounterKey) {
        let at = self.counters[counter].ripe_at;
        if let Some(ripe) = self.ripe.get_mut(&counter.namespace) {
            ripe.remove(&(at, counter.name.clone()));
        }
    }

    fn remove(&mut self, counter: &CounterKey) {
        if self
            .counters
            .remove(counter)
            .is_some_and(|entry| entry.is_idle())
        {
            self.idle -= 1;
        }
    }
}
