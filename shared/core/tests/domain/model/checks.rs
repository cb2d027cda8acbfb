//! The model's workers, and what is checked once everything has come to rest.

use super::{
    Fault, INITIAL, TICK, Violation, World,
    ingest::{horizon_of_now, judge, same},
};
use crate::at;
use quipu_core::{
    aggregate::{Count, OrderedFold},
    checkpoint::Checkpoint,
    effective::EffectiveTime,
    event::NamespaceId,
    window::{self, Window},
};
use std::collections::BTreeMap;

impl World {
    pub(super) fn roll_up(&mut self, worker: usize) -> Result<(), Violation> {
        let low = match self.fault {
            Some(Fault::NewestPartition) => self.watermarks.iter().map(|(_, time)| time).max(),
            _ => self.watermarks.low(),
        };
        let low = low.expect("there are partitions");
        self.evaluated = self.evaluated.max(low);
        for life in self.history.lives() {
            let closed = match self.fault {
                Some(Fault::HorizonGoesBack) => horizon_of_now(life, low),
                _ => window::closed(life, low),
            };
            let published = self.closed.insert(life.id(), closed);
            if published.is_some_and(|before| closed < before) {
                return Err(Violation::WentBack);
            }
            let base = self.workers[worker].get(&life.id()).copied();
            let base = base.unwrap_or_else(|| Checkpoint::origin(life.origin()));
            let Some(window) = window::to_aggregate(base.last_rollup, closed) else {
                continue;
            };
            let rolled = Checkpoint {
                count: self.fold(base.count, life.id(), window),
                last_rollup: window.through,
                ..base
            };
            if !rolled.supersedes(&base) {
                return Err(Violation::WentBack);
            }
            self.workers[worker].insert(life.id(), rolled);
            self.seen.push((life.id(), rolled));
        }
        Ok(())
    }

    fn fold(&self, base: Count, id: NamespaceId, window: Window) -> Count {
        let inclusive = self.fault == Some(Fault::InclusiveStart);
        let mut fold = OrderedFold::from(base);
        for ((owner, key), event) in &self.rows {
            let time = key.event_time;
            if *owner == id && (window.contains(time) || inclusive && time == window.after) {
                fold.push(key, event.mutation);
            }
        }
        fold.count()
    }

    /// All is read and finished, ticks move every watermark past all events, both workers go on.
    pub(super) fn come_to_rest(&mut self) -> Result<(), Violation> {
        for partition in 0..self.partitions.len() {
            self.decide(partition, usize::MAX / 2)?;
            while !self.partitions[partition].under_way.is_empty() {
                self.finish(partition, 0)?;
            }
            if self.partitions[partition].records.len() as u64
                != self.partitions[partition].ledger.frontier().0
            {
                return Err(Violation::Lost);
            }
            let id = u32::try_from(partition).expect("few partitions");
            self.watermarks.advance(id, at(TICK));
        }
        self.roll_up(0)?;
        self.roll_up(1)
    }

    /// R1, R5: everything read again from the beginning, with all the policy that there is now,
    /// is decided as it was; and of what was accepted the first copy is stored (R8).
    pub(super) fn check_replays(&self) -> Result<(), Violation> {
        let mut winners = BTreeMap::new();
        for (index, partition) in self.partitions.iter().enumerate() {
            let mut effective = EffectiveTime::resume(INITIAL);
            for (offset, record) in (0_u64..).zip(&partition.records) {
                if self.fault == Some(Fault::RawAppendTime) {
                    effective = EffectiveTime::resume(record.append_time);
                }
                let time = effective.observe(record.append_time);
                let verdict = judge(&self.history, self.fault, time, record.key.event_time);
                let decided = self.verdicts.get(&(index, offset)).ok_or(Violation::Lost)?;
                if !same(decided, &verdict) {
                    return Err(Violation::VerdictChanged);
                }
                if let Ok(id) = verdict {
                    let winner = winners.entry((id, record.key.clone()));
                    let copy = (time, index, offset, record.mutation);
                    let winner = winner.or_insert(copy);
                    *winner = copy.min(*winner);
                }
            }
        }
        if winners.len() != self.rows.len() {
            return Err(Violation::Lost);
        }
        let stored = winners.iter().all(|(identity, (.., mutation))| {
            let row = self.rows.get(identity);
            row.is_some_and(|row| row.mutation == *mutation)
        });
        stored.then_some(()).ok_or(Violation::WrongCopy)
    }

    /// R14: every checkpoint that was ever visible is still the fold of all events up to its
    /// time, and at rest both workers have counted everything.
    pub(super) fn check_checkpoints(&self) -> Result<(), Violation> {
        for (id, checkpoint) in &self.seen {
            let mut fold = OrderedFold::from(Count::ZERO);
            for ((owner, key), event) in &self.rows {
                if owner == id && key.event_time <= checkpoint.last_rollup {
                    fold.push(key, event.mutation);
                }
            }
            if fold.count() != checkpoint.count {
                return Err(Violation::CheckpointUntrue);
            }
        }
        for worker in &self.workers {
            for (id, key) in self.rows.keys() {
                let rolled = worker.get(id).ok_or(Violation::Lost)?;
                if rolled.last_rollup < key.event_time {
                    return Err(Violation::Lost);
                }
            }
        }
        Ok(())
    }
}
