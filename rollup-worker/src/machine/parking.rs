//! Parking: signals that cannot finish in time, or do not fit in memory, become stored rows, so
//! that their offsets can be committed (R17).

use super::Machine;
use quipu_adapters::ports::Parked;
use quipu_core::{
    event::{CounterKey, NamespaceId},
    time::Micros,
};
use std::{collections::BTreeMap, time::Duration};

/// Parked counters that close within this stay in memory.
const SOON: Duration = Duration::from_mins(1);

/// A pass over a partition's parked rows, page by page, as memory allows.
#[derive(Debug, Default)]
pub(super) enum ParkedPass {
    /// Every row is in memory.
    Loaded,
    /// To be started.
    #[default]
    Due,
    /// Loaded up to a counter.
    After(CounterKey),
    /// Likewise, and rows were parked since the pass began: another follows.
    AfterAndAgain(CounterKey),
}

impl Machine {
    /// Rows that must be stored now, by signal partition, since their signals have waited too long.
    /// Tell [`Self::on_parked`] once they are.
    pub fn to_park(&mut self, now: Micros) -> BTreeMap<u32, Vec<Parked>> {
        let mut rows: BTreeMap<u32, Vec<Parked>> = BTreeMap::new();
        for (counter, partition, last_write) in self.pending.overdue(now - self.limits.park_after) {
            rows.entry(partition).or_default().push(Parked {
                counter,
                last_write,
            });
        }
        rows
    }

    /// Rows of signals over the memory budget, by signal partition. Tell
    /// [`Self::on_overflow_parked`] once they are stored.
    pub fn overflow(&self) -> BTreeMap<u32, Vec<Parked>> {
        let mut rows: BTreeMap<u32, Vec<Parked>> = BTreeMap::new();
        for (at, row) in &self.overflow {
            rows.entry(at.partition).or_default().push(row.clone());
        }
        rows
    }

    /// How many signals [`Self::overflow`] has.
    pub fn overflow_len(&self) -> usize {
        self.overflow.len()
    }

    /// The rows of [`Self::overflow`] were stored: they are loaded again as memory allows.
    pub fn on_overflow_parked(&mut self) {
        for (at, _) in std::mem::take(&mut self.overflow) {
            self.finished.signals.push(at);
            self.load_again(at.partition);
        }
    }

    /// Rows of [`Self::to_park`] were stored.
    pub fn on_parked(&mut self, rows: &BTreeMap<u32, Vec<Parked>>) {
        for (partition, rows) in rows {
            for row in rows {
                let signals = self.pending.parked(*partition, row);
                self.finished.signals.extend(signals);
            }
        }
    }

    /// When memory is half full, lets parked counters go that close late: they must not keep those
    /// out that close now. Their rows are loaded again and again, until they close soon.
    pub fn make_room(&mut self, closed: &BTreeMap<NamespaceId, Micros>) {
        let pending = self.pending.len();
        if pending <= self.limits.pending / 2 {
            return;
        }
        let most = pending - self.limits.pending / 4;
        for partition in self.pending.let_go(most, closed, SOON) {
            self.load_again(partition);
        }
    }

    /// Another pass over a partition's parked rows is needed.
    fn load_again(&mut self, partition: u32) {
        let state = self.partition(partition);
        state.parked = match std::mem::take(&mut state.parked) {
            ParkedPass::Loaded | ParkedPass::Due => ParkedPass::Due,
            ParkedPass::After(counter) | ParkedPass::AfterAndAgain(counter) => {
                ParkedPass::AfterAndAgain(counter)
            }
        };
    }

    /// The next page of parked rows to load, when there is room: a partition, and the counter
    /// after which to go on.
    pub fn parked_to_load(&self) -> Option<(u32, Option<CounterKey>)> {
        if self.pending.len() > self.limits.pending / 2 {
            return None;
        }
        let after_turn = self.loaded.map_or(0, |last| last.saturating_add(1));
        self.partitions
            .range(after_turn..)
            .chain(self.partitions.range(..after_turn))
            .find_map(|(partition, state)| match &state.parked {
                ParkedPass::Loaded => None,
                ParkedPass::Due => Some((*partition, None)),
                ParkedPass::After(counter) | ParkedPass::AfterAndAgain(counter) => {
                    Some((*partition, Some(counter.clone())))
                }
            })
    }

    /// A page of parked rows was loaded; it was the last one when it is shorter than asked.
    pub fn on_parked_loaded(&mut self, partition: u32, rows: &[Parked], asked: usize) {
        let more = rows
            .last()
            .filter(|_| rows.len() == asked)
            .map(|row| row.counter.clone());
        self.loaded = Some(partition);
        let state = self.partition(partition);
        state.parked = match (more, std::mem::take(&mut state.parked)) {
            (Some(counter), ParkedPass::AfterAndAgain(_)) => ParkedPass::AfterAndAgain(counter),
            (Some(counter), _) => ParkedPass::After(counter),
            (None, ParkedPass::AfterAndAgain(_)) => ParkedPass::Due,
            (None, _) => ParkedPass::Loaded,
        };
        for row in rows {
            self.pending.unpark(partition, row);
        }
    }
}
