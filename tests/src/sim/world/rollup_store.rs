//! The simulated rollup store, and the cache.
//!
//! Fault model. As of the event store: acknowledged writes that were not synced may be lost at a
//! restart, which makes a new generation, and then what was stored before shows again. An older
//! checkpoint never wins over a newer one that is still there. The cache may be lost as a whole
//! and may fail, and answers what it was last told.

use super::super::{bug::Bug, rng::Rng};
use quipu_adapters::ports::{Parked, RollupRow};
use quipu_core::{checkpoint::Checkpoint, event::CounterKey, time::Micros};
use std::collections::{BTreeMap, BTreeSet};

/// A value with what a restart brings back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell<T> {
    durable: Option<T>,
    volatile: Option<T>,
}

/// The state of the rollup store and the cache.
#[derive(Debug, Default)]
pub(crate) struct RollupState {
    checkpoints: BTreeMap<CounterKey, Cell<Checkpoint>>,
    last_writes: BTreeMap<CounterKey, Cell<Micros>>,
    /// A parked row, or `None` where one was removed.
    parked: BTreeMap<(u32, CounterKey), Cell<Option<Micros>>>,
    /// Cached checkpoints.
    pub cache: BTreeMap<CounterKey, Checkpoint>,
    /// How often it restarted.
    pub generation: u64,
}

impl<T: Copy> Cell<T> {
    const EMPTY: Self = Self {
        durable: None,
        volatile: None,
    };

    fn read(&self) -> Option<T> {
        self.volatile.or(self.durable)
    }

    fn flush(&mut self) {
        self.durable = self.read();
        self.volatile = None;
    }

    fn restart(&mut self, keep: bool) {
        if keep {
            self.flush();
        }
        self.volatile = None;
    }
}

/// Keeps the newer count with the older time.
fn tear(cell: &mut Cell<Checkpoint>) {
    if let (Some(old), Some(new)) = (&mut cell.durable, cell.volatile) {
        old.count = new.count;
    }
}

impl RollupState {
    /// What is stored of a counter.
    pub(crate) fn row(&self, counter: &CounterKey) -> RollupRow {
        RollupRow {
            checkpoint: self.checkpoints.get(counter).and_then(Cell::read),
            last_write: self.last_writes.get(counter).and_then(Cell::read),
        }
    }

    /// Every counter that has a row, and whether it has a checkpoint, by counter.
    pub(crate) fn counters(&self) -> impl Iterator<Item = (&CounterKey, bool)> {
        let known = self.checkpoints.keys().chain(self.last_writes.keys());
        let known: BTreeSet<_> = known.collect();
        known
            .into_iter()
            .map(|counter| (counter, self.row(counter).checkpoint.is_some()))
    }

    /// The checkpoint of a counter that survives a restart.
    pub(crate) fn durable_checkpoint(&self, counter: &CounterKey) -> Option<Checkpoint> {
        self.checkpoints.get(counter).and_then(|cell| cell.durable)
    }

    /// Writes a checkpoint, unless what is stored is as new. Returns whether it was taken.
    pub(crate) fn put(
        &mut self,
        bug: Option<Bug>,
        counter: &CounterKey,
        checkpoint: Checkpoint,
    ) -> bool {
        let cell = self
            .checkpoints
            .entry(counter.clone())
            .or_insert(Cell::EMPTY);
        let taken = bug == Some(Bug::OlderCheckpointWins)
            || cell
                .read()
                .is_none_or(|stored| checkpoint.supersedes(&stored));
        if taken {
            cell.volatile = Some(checkpoint);
        }
        taken
    }

    /// Notes a last write.
    pub(crate) fn note_write(&mut self, counter: &CounterKey, at: Micros) {
        let cell = self
            .last_writes
            .entry(counter.clone())
            .or_insert(Cell::EMPTY);
        if cell.read().is_none_or(|known| known < at) {
            cell.volatile = Some(at);
        }
    }

    /// Parks a signal.
    pub(crate) fn park(&mut self, partition: u32, row: &Parked) {
        let cell = self
            .parked
            .entry((partition, row.counter.clone()))
            .or_insert(Cell::EMPTY);
        if cell
            .read()
            .flatten()
            .is_none_or(|known| known < row.last_write)
        {
            cell.volatile = Some(Some(row.last_write));
        }
    }

    /// Removes a parked signal.
    pub(crate) fn unpark(&mut self, partition: u32, row: &Parked) {
        if let Some(cell) = self.parked.get_mut(&(partition, row.counter.clone()))
            && cell
                .read()
                .flatten()
                .is_some_and(|known| known <= row.last_write)
        {
            cell.volatile = Some(None);
        }
    }

    /// The parked signals of a partition.
    pub(crate) fn parked(&self, partition: u32) -> impl Iterator<Item = Parked> {
        let rows = self
            .parked
            .iter()
            .filter(move |((id, _), _)| *id == partition);
        rows.filter_map(|((_, counter), cell)| {
            let last_write = cell.read().flatten()?;
            Some(Parked {
                counter: counter.clone(),
                last_write,
            })
        })
    }

    /// Whether a row that stands for a write survives a restart.
    pub(crate) fn is_parked_durably(
        &self,
        partition: u32,
        counter: &CounterKey,
        write: Micros,
    ) -> bool {
        let cell = self.parked.get(&(partition, counter.clone()));
        cell.and_then(|cell| cell.durable.flatten())
            .is_some_and(|known| known >= write)
    }

    /// How many signals are parked.
    pub(crate) fn parked_rows(&self) -> usize {
        self.parked
            .values()
            .filter(|cell| cell.read().flatten().is_some())
            .count()
    }

    /// Everything written so far is durable.
    pub(crate) fn flush(&mut self) {
        self.checkpoints.values_mut().for_each(Cell::flush);
        self.last_writes.values_mut().for_each(Cell::flush);
        self.parked.values_mut().for_each(Cell::flush);
    }

    /// Restarts, and loses any part of what was not durable.
    pub(crate) fn restart(&mut self, rng: &mut Rng, bug: Option<Bug>) {
        self.generation += 1;
        let keep_one_in = rng.below(4);
        if bug == Some(Bug::NonAtomicCheckpoint) {
            self.checkpoints.values_mut().for_each(tear);
        }
        self.checkpoints
            .values_mut()
            .for_each(|cell| cell.restart(rng.chance(keep_one_in)));
        self.last_writes
            .values_mut()
            .for_each(|cell| cell.restart(rng.chance(keep_one_in)));
        self.parked
            .values_mut()
            .for_each(|cell| cell.restart(rng.chance(keep_one_in)));
    }

    /// Sets a cached checkpoint if it is newer. Returns whether it was taken.
    pub(crate) fn cache(
        &mut self,
        bug: Option<Bug>,
        counter: &CounterKey,
        checkpoint: Checkpoint,
    ) -> bool {
        let taken = bug == Some(Bug::UnconditionalCacheSet)
            || self
                .cache
                .get(counter)
                .is_none_or(|cached| checkpoint.supersedes(cached));
        if taken {
            self.cache.insert(counter.clone(), checkpoint);
        }
        taken
    }
}
