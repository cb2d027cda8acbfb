//! A small model of the whole system under R1 to R14, in one thread and without IO: partitions
//! with append clocks that step back, ingest that decides, finishes in any order, dies and reads
//! again from what it committed, limits that change, a namespace that is deleted and made again,
//! and two workers that aggregate closed windows at different moments.
//!
//! It decides with the functions of the core. A [`Fault`] replaces one of them by a plausible
//! mistake, to show that the checks would notice it. Not modelled: lost writes, signals, slices.

mod checks;
mod ingest;

use crate::at;
use quipu_core::{
    checkpoint::Checkpoint,
    effective::EffectiveTime,
    event::{EventKey, Mutation, NamespaceId, StoredEvent},
    ledger::OffsetLedger,
    policy::{Cardinality, Incarnation, Limits, NamespaceHistory, Refusal, RollupSettings},
    time::Micros,
    watermark::Watermarks,
};
use std::{collections::BTreeMap, time::Duration};

/// Something that happens.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// The broker's clock goes on, and it appends an event to a partition, whose own clock is off.
    Append {
        partition: usize,
        passed: i64,
        skew: i64,
        age: i64,
        token: u8,
        mutation: Mutation,
    },
    /// A client tries one of the last events again, perhaps with another delta.
    Retry {
        partition: usize,
        passed: i64,
        which: usize,
        mutation: Mutation,
    },
    /// Ingest decides the next records of a partition, in order.
    Decide { partition: usize, records: usize },
    /// One batch under way becomes durable, commits and moves the watermark.
    Finish { partition: usize, which: usize },
    /// Ingest dies and starts again from what it committed.
    Restart { partition: usize },
    /// The limits change, effective after all that was ever evaluated.
    Change { ahead: i64, limits: Limits },
    /// The namespace is deleted, and made again a little later.
    Recreate {
        ahead: i64,
        gap: i64,
        limits: Limits,
    },
    /// A worker aggregates what is closed.
    Rollup { worker: usize },
}

/// A plausible mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// An event at the horizon is accepted: `>=` in place of `>` (R4).
    AcceptsAtHorizon,
    /// Acceptance by the record's append time in place of the running maximum (R1).
    RawAppendTime,
    /// A restart forgets the effective time of the committed frontier (R2).
    ForgetsEffectiveTime,
    /// The horizon of the limits in force, not the running maximum (R4).
    HorizonGoesBack,
    /// A change takes effect at a time that was evaluated already (R5).
    ChangesThePast,
    /// Windows close by the newest partition in place of the oldest (R12).
    NewestPartition,
    /// The watermark shows the read position in place of the committed frontier (R12).
    WatermarkOfReadPosition,
    /// A window takes the moment that it starts after, too (R14).
    InclusiveStart,
    /// Of two copies of one identity the one that is written last stays (R8).
    LastCopyWins,
}

/// What must never be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Violation {
    /// An event was accepted into a window that was published as closed.
    ClosedWindowGrew,
    /// A published closed time, or a checkpoint, went back.
    WentBack,
    /// A record was decided differently a second time.
    VerdictChanged,
    /// A checkpoint was not, or did not stay, the ordered fold of the events up to its time.
    CheckpointUntrue,
    /// Of several copies of one event, another than the first one is stored.
    WrongCopy,
    /// A record without a verdict, or an accepted event without a row, after all was read.
    Lost,
}

#[derive(Clone, Debug)]
struct Record {
    append_time: Micros,
    key: EventKey,
    mutation: Mutation,
}

#[derive(Debug)]
struct Partition {
    records: Vec<Record>,
    read: usize,
    effective: EffectiveTime,
    ledger: OffsetLedger<Micros>,
    under_way: Vec<(u64, Vec<(NamespaceId, StoredEvent)>)>,
}

type Verdict = Result<NamespaceId, Refusal>;

/// The whole system.
#[derive(Debug)]
pub(crate) struct World {
    fault: Option<Fault>,
    broker: i64,
    history: NamespaceHistory,
    partitions: Vec<Partition>,
    watermarks: Watermarks,
    /// The newest effective time that anything was decided or closed by.
    evaluated: Micros,
    verdicts: BTreeMap<(usize, u64), Verdict>,
    rows: BTreeMap<(NamespaceId, EventKey), StoredEvent>,
    closed: BTreeMap<NamespaceId, Micros>,
    workers: [BTreeMap<NamespaceId, Checkpoint>; 2],
    seen: Vec<(NamespaceId, Checkpoint)>,
}

const INITIAL: Micros = Micros::new(0);
/// A record that stands for the ticks that follow all events, once it is quiet (R13).
const TICK: i64 = 1_000_000;

impl World {
    pub(crate) fn new(partitions: usize, limits: Limits, fault: Option<Fault>) -> Self {
        let rollup = RollupSettings {
            coalesce: Duration::ZERO,
            cardinality: Cardinality::Low,
        };
        let life = Incarnation::new(NamespaceId(1), at(10), limits);
        let partition = || Partition {
            records: Vec::new(),
            read: 0,
            effective: EffectiveTime::resume(INITIAL),
            ledger: OffsetLedger::new(0, INITIAL),
            under_way: Vec::new(),
        };
        Self {
            fault,
            broker: 0,
            history: NamespaceHistory::new("events", rollup, life),
            partitions: (0..partitions).map(|_| partition()).collect(),
            watermarks: Watermarks::new((0..).take(partitions).map(|id| (id, INITIAL))),
            evaluated: INITIAL,
            verdicts: BTreeMap::new(),
            rows: BTreeMap::new(),
            closed: BTreeMap::new(),
            workers: [BTreeMap::new(), BTreeMap::new()],
            seen: Vec::new(),
        }
    }

    /// Runs a schedule, then lets everything come to rest and checks what must hold then.
    pub(crate) fn run(mut self, steps: &[Step]) -> Result<Coverage, Violation> {
        for step in steps {
            self.step(step)?;
        }
        self.come_to_rest()?;
        self.check_replays()?;
        self.check_checkpoints()?;
        Ok(self.coverage())
    }

    fn step(&mut self, step: &Step) -> Result<(), Violation> {
        let count = self.partitions.len();
        match step {
            Step::Append {
                partition,
                passed,
                skew,
                age,
                token,
                mutation,
            } => {
                self.broker += passed;
                let append_time = at(self.broker + skew);
                let token = format!("t{token}");
                let key = crate::event_key(append_time.get() - age, &token, "");
                let record = Record {
                    append_time,
                    key,
                    mutation: *mutation,
                };
                self.partitions[partition % count].records.push(record);
            }
            Step::Retry {
                partition,
                passed,
                which,
                mutation,
            } => {
                self.broker += passed;
                let append_time = at(self.broker);
                let recent = self
                    .partitions
                    .iter()
                    .flat_map(|it| it.records.iter().rev().take(3));
                let recent: Vec<_> = recent.map(|record| record.key.clone()).collect();
                if let Some(key) = recent.get(which % recent.len().max(1)) {
                    let record = Record {
                        append_time,
                        key: key.clone(),
                        mutation: *mutation,
                    };
                    self.partitions[partition % count].records.push(record);
                }
            }
            Step::Decide { partition, records } => self.decide(partition % count, *records)?,
            Step::Finish { partition, which } => self.finish(partition % count, *which)?,
            Step::Restart { partition } => self.restart(partition % count),
            Step::Change { ahead, limits } => {
                let from = self.next_change(*ahead);
                self.history
                    .newest_mut()
                    .change(from, *limits)
                    .expect("changes are in order");
            }
            Step::Recreate { ahead, gap, limits } => {
                let deleted = self.next_change(*ahead);
                let newest = self.history.newest_mut();
                newest.delete(deleted).expect("changes are in order");
                let id = NamespaceId(newest.id().0 + 1);
                let life = Incarnation::new(id, at(deleted.get() + gap), *limits);
                self.history.recreate(life).expect("it was deleted");
            }
            Step::Rollup { worker } => self.roll_up(worker % 2)?,
        }
        Ok(())
    }

    /// R5: after every change, and after all that any role has evaluated.
    fn next_change(&self, ahead: i64) -> Micros {
        let newest = self.history.lives().last().expect("never empty");
        let last = newest.versions().last().expect("never empty").from;
        let base = if self.fault == Some(Fault::ChangesThePast) {
            last
        } else {
            last.max(self.evaluated)
        };
        at(base.get() + ahead).max(last.succ())
    }

    fn coverage(&self) -> Coverage {
        let accepted = self
            .verdicts
            .values()
            .filter(|verdict| verdict.is_ok())
            .count();
        Coverage {
            accepted,
            refused: self.verdicts.len() - accepted,
            copies: accepted - self.rows.len(),
            checkpoints: self.seen.len(),
        }
    }
}

/// What a schedule came to, to see that schedules are not empty.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Coverage {
    pub(crate) accepted: usize,
    pub(crate) refused: usize,
    pub(crate) copies: usize,
    pub(crate) checkpoints: usize,
}
