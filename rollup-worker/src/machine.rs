//! The rollup machine: which counters are aggregated when, which signals are finished, what is
//! parked; without IO. The driver in `run.rs` and a simulator run the same code.

mod parking;

use crate::pending::{Mark, Pace, PendingSet, Settled, SignalAt};
use parking::ParkedPass;
use quipu_adapters::ports::Parked;
use quipu_core::{
    batch::BatchSizer,
    event::{CounterKey, NamespaceId},
    marks::SignalMarks,
    policy::{Cardinality, PolicyBook},
    pressure::{Evidence, Pressure},
    time::Micros,
    window,
};
use quipu_schemas::signal::CheckedSignal;
use std::{collections::BTreeMap, time::Duration};

/// Bounds of the machine's memory and work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Counters kept in memory; signals of more are parked.
    pub pending: usize,
    /// Counters that circulate although they have converged.
    pub circulating: usize,
    /// Signals that are not finished after this long are parked (R17).
    pub park_after: Duration,
    /// A batch that takes longer shows that the stores are loaded.
    pub batch_target: Duration,
    /// The smallest and the largest batch.
    pub batch_sizes: (usize, usize),
}

/// How far a counter was rolled up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rolled {
    /// Every event up to this time is in its checkpoint.
    pub through: Micros,
    /// The newest write that the store knew of.
    pub noted: Option<Micros>,
}

/// Rolled up or parked, but not yet known to be durable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finished {
    signals: Vec<SignalAt>,
    parked: Vec<(u32, Parked)>,
    /// Which taking over of each partition it belongs to.
    epochs: BTreeMap<u32, u64>,
}

/// What may be done once finished work is durable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Durable {
    /// Offsets to commit, by signal partition.
    pub commits: BTreeMap<u32, u64>,
    /// Parked rows that can go, by signal partition.
    pub unpark: BTreeMap<u32, Vec<Parked>>,
}

#[derive(Debug)]
struct Partition {
    marks: SignalMarks,
    committed: u64,
    parked: ParkedPass,
    epoch: u64,
}

/// The state of all signal partitions that this worker owns.
#[derive(Debug)]
pub struct Machine {
    limits: Limits,
    partitions: BTreeMap<u32, Partition>,
    /// Partitions taken over so far.
    epochs: u64,
    pending: PendingSet,
    overflow: Vec<(SignalAt, Parked)>,
    /// The partition whose parked rows were loaded last: the others come before it.
    loaded: Option<u32>,
    finished: Finished,
    sizer: BatchSizer,
    pressure: Pressure,
}

impl Machine {
    /// A machine that owns nothing yet.
    pub fn new(limits: Limits) -> Self {
        let (smallest, largest) = limits.batch_sizes;
        Self {
            limits,
            partitions: BTreeMap::new(),
            epochs: 0,
            pending: PendingSet::default(),
            overflow: Vec::new(),
            loaded: None,
            finished: Finished::default(),
            sizer: BatchSizer::new(smallest, largest),
            pressure: Pressure::new(),
        }
    }

    /// Takes over a signal partition: its committed offset, and the rows parked before.
    pub fn assign(&mut self, partition: u32, committed: u64) {
        let marks = SignalMarks::new(committed);
        self.epochs += 1;
        let state = Partition {
            marks,
            committed,
            parked: ParkedPass::Due,
            epoch: self.epochs,
        };
        self.partitions.insert(partition, state);
    }

    /// Gives signal partitions up. Whoever owns them next reads from what was committed.
    pub fn revoke(&mut self, partitions: &[u32]) {
        let revoked = |partition: u32| partitions.contains(&partition);
        self.pending.revoke(partitions);
        self.overflow.retain(|(at, _)| !revoked(at.partition));
        self.finished.signals.retain(|at| !revoked(at.partition));
        self.finished
            .parked
            .retain(|(partition, _)| !revoked(*partition));
        self.partitions.retain(|partition, _| !revoked(*partition));
    }

    /// Takes a signal. Returns whether it coalesced into one that waits already.
    ///
    /// # Panics
    /// When the partition is not assigned.
    pub fn on_signal(
        &mut self,
        now: Micros,
        at: SignalAt,
        signal: CheckedSignal,
        policy: &PolicyBook,
    ) -> bool {
        self.skip(at);
        // A namespace that this copy of the policy does not know yet was just created: its
        // signals wait until it does.
        let settings = policy.rollup(signal.counter.namespace);
        let coalesce = settings.map_or(Duration::ZERO, |settings| settings.coalesce);
        let over_budget = self.pending.len() >= self.limits.pending;
        if over_budget && !self.pending.contains(&signal.counter) {
            // A stale read asks again; only a write must not be forgotten.
            if let Some(last_write) = signal.last_write {
                self.open(at);
                self.overflow.push((
                    at,
                    Parked {
                        counter: signal.counter,
                        last_write,
                    },
                ));
            }
            return false;
        }
        let write = signal.last_write.unwrap_or(Micros::MIN);
        let mark = Mark {
            at,
            first_write: write,
            last_write: write,
            opened: now,
        };
        let opened = self.pending.signal(&signal.counter, mark, coalesce);
        if opened {
            self.open(at);
        }
        !opened
    }

    /// Passes a signal that asks for nothing, such as one that cannot be read.
    ///
    /// # Panics
    /// When the partition is not assigned.
    pub fn skip(&mut self, at: SignalAt) {
        self.partition(at.partition).marks.read(at.offset + 1);
    }

    /// The next batch of counters whose windows have closed; empty when none has.
    pub fn next_batch(&mut self, closed: &BTreeMap<NamespaceId, Micros>) -> Vec<CounterKey> {
        let size = self.sizer.next(self.pending.len());
        self.pending.take_ripe(closed, size)
    }

    /// A batch ended. A counter without a result failed, and is tried again.
    pub fn on_batch(
        &mut self,
        results: Vec<(CounterKey, Option<Rolled>)>,
        took: Duration,
        policy: &PolicyBook,
    ) {
        let failed = results.iter().any(|(_, rolled)| rolled.is_none());
        let evidence = match (failed, took > self.limits.batch_target) {
            (true, _) => Evidence::Failed,
            (false, true) => Evidence::Slow,
            (false, false) => Evidence::Fast,
        };
        self.sizer.learn(results.len(), evidence);
        self.pressure.learn(evidence);
        for (counter, rolled) in results {
            match rolled {
                Some(rolled) => {
                    let pace = self.pace(counter.namespace, policy);
                    let Rolled { through, noted } = rolled;
                    let settled = self.pending.settle(&counter, through, noted, pace);
                    self.finished.add(settled);
                }
                None => self.pending.put_back(&counter),
            }
        }
    }

    /// How long to pause before the next batch, after one that took so long.
    pub fn pause(&self, last_batch: Duration) -> Duration {
        self.pressure.pause(last_batch)
    }

    /// Batches a second that back-pressure allows now.
    pub fn pressure(&self) -> f64 {
        self.pressure.per_second()
    }

    /// The newest time that a counter is known to be rolled up through.
    pub fn rolled_through(&self, counter: &CounterKey) -> Micros {
        self.pending.rolled_through(counter)
    }

    /// Counters in memory.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// For how long the counter that waits longest could have been rolled up, in the log's time.
    pub fn longest_wait(&self, closed: &BTreeMap<NamespaceId, Micros>) -> Duration {
        self.pending.longest_wait(closed)
    }

    /// The offset that each signal partition was last committed to.
    pub fn committed(&self) -> impl Iterator<Item = (u32, u64)> {
        self.partitions
            .iter()
            .map(|(partition, state)| (*partition, state.committed))
    }

    /// Forgets what waits for namespaces that were deleted.
    pub fn forget_deleted(&mut self, policy: &PolicyBook) {
        for settled in self
            .pending
            .forget(|namespace| !is_deleted(policy, namespace))
        {
            self.finished.add(settled);
        }
    }

    /// Everything that is finished but not yet known to be durable; the caller syncs the store
    /// and tells [`Self::on_durable`]. `None` when there is nothing.
    pub fn begin_sync(&mut self) -> Option<Finished> {
        if !self.has_finished() {
            return None;
        }
        let mut finished = std::mem::take(&mut self.finished);
        let epochs = self.partitions.iter().map(|(id, state)| (*id, state.epoch));
        finished.epochs = epochs.collect();
        Some(finished)
    }

    /// Whether anything is finished of which no sync has begun.
    pub fn has_finished(&self) -> bool {
        self.finished != Finished::default()
    }

    /// Finished work is durable (R17).
    pub fn on_durable(&mut self, finished: Finished) -> Durable {
        let finished = self.still_owned(finished);
        let mut durable = Durable::default();
        for at in finished.signals {
            self.partition(at.partition).marks.close(at.offset);
        }
        for (partition, row) in finished.parked {
            durable.unpark.entry(partition).or_default().push(row);
        }
        durable.commits = self.frontiers();
        durable
    }

    /// Goes back to the committed offsets after the store lost writes. Returns where each
    /// partition is to be read again.
    pub fn rewind(&mut self) -> Vec<(u32, u64)> {
        self.pending.clear();
        self.overflow.clear();
        self.finished = Finished::default();
        let positions: Vec<_> = self.committed().collect();
        for (partition, committed) in &positions {
            self.assign(*partition, *committed);
        }
        positions
    }

    /// The store could not be synced: the same work is synced next time.
    pub fn sync_failed(&mut self, finished: Finished) {
        let finished = self.still_owned(finished);
        self.finished.signals.extend(finished.signals);
        self.finished.parked.extend(finished.parked);
    }

    /// Without what belongs to partitions that were given up meanwhile, even if they are owned
    /// again: their signals are read anew.
    fn still_owned(&self, mut finished: Finished) -> Finished {
        let epochs = std::mem::take(&mut finished.epochs);
        let owned = |partition: u32| {
            let state = self.partitions.get(&partition);
            state.is_some_and(|state| epochs.get(&partition) == Some(&state.epoch))
        };
        finished.signals.retain(|at| owned(at.partition));
        finished.parked.retain(|(partition, _)| owned(*partition));
        finished
    }

    fn frontiers(&mut self) -> BTreeMap<u32, u64> {
        let mut moved = BTreeMap::new();
        for (partition, state) in &mut self.partitions {
            let frontier = state.marks.frontier();
            if frontier > state.committed {
                state.committed = frontier;
                moved.insert(*partition, frontier);
            }
        }
        moved
    }

    fn pace(&self, namespace: NamespaceId, policy: &PolicyBook) -> Pace {
        let Some(settings) = policy
            .rollup(namespace)
            .filter(|_| !is_deleted(policy, namespace))
        else {
            return Pace {
                coalesce: Duration::ZERO,
                circulation: None,
            };
        };
        let idle = self.pending.idle();
        let circulates = settings.cardinality == Cardinality::Low && idle < self.limits.circulating;
        let circulation = circulates.then(|| settings.coalesce.max(circulation(idle)));
        Pace {
            coalesce: settings.coalesce,
            circulation,
        }
    }

    fn open(&mut self, at: SignalAt) {
        self.partition(at.partition).marks.open(at.offset);
    }

    fn partition(&mut self, partition: u32) -> &mut Partition {
        self.partitions
            .get_mut(&partition)
            .expect("a signal of an assigned partition")
    }
}

impl Finished {
    fn add(&mut self, settled: Settled) {
        self.signals.extend(settled.signals);
        self.parked.extend(settled.parked);
    }
}

/// Converged counters circulate once a second, but at most 1,000 of them a second in all: idle
/// counters must not keep a processor busy.
fn circulation(idle: usize) -> Duration {
    const PER_SECOND: u32 = 1_000;
    let idle = u32::try_from(idle).unwrap_or(u32::MAX);
    (Duration::from_secs(1) * idle / PER_SECOND).max(Duration::from_secs(1))
}

fn is_deleted(policy: &PolicyBook, namespace: NamespaceId) -> bool {
    policy
        .incarnation(namespace)
        .is_some_and(|(_, life)| life.deleted_at().is_some())
}

/// How far each living namespace is closed (R14). Nothing closes beyond what the policy is known
/// to be valid for (R5).
pub fn closed_times(policy: &PolicyBook, low_watermark: Micros) -> BTreeMap<NamespaceId, Micros> {
    if low_watermark > policy.valid_through() {
        return BTreeMap::new();
    }
    let living = policy.iter().filter_map(|(_, history)| history.current());
    living
        .map(|life| (life.id(), window::closed(life, low_watermark)))
        .collect()
}
