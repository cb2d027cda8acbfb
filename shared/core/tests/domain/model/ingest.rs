//! The model's ingest: decides in order, finishes in any order, dies, reads again.

use super::{Fault, INITIAL, Record, Verdict, Violation, World};
use quipu_core::{
    effective::EffectiveTime,
    event::{LogPosition, StoredEvent},
    ledger::OffsetLedger,
    policy::{Incarnation, NamespaceHistory, Refusal},
    time::Micros,
};

impl World {
    pub(super) fn decide(&mut self, partition: usize, records: usize) -> Result<(), Violation> {
        let (fault, first) = (self.fault, self.partitions[partition].read);
        let next = (first + records).min(self.partitions[partition].records.len());
        let mut rows = Vec::new();
        for offset in first..next {
            let state = &mut self.partitions[partition];
            let Record {
                append_time,
                key,
                mutation,
            } = state.records[offset].clone();
            if fault == Some(Fault::RawAppendTime) {
                state.effective = EffectiveTime::resume(append_time);
            }
            let effective_time = state.effective.observe(append_time);
            self.evaluated = self.evaluated.max(effective_time);
            let verdict = judge(&self.history, fault, effective_time, key.event_time);
            let offset = offset as u64;
            if let Ok(id) = verdict {
                // Also on a second reading: its window cannot be closed, since the watermark
                // did not pass it.
                if self
                    .closed
                    .get(&id)
                    .is_some_and(|closed| key.event_time <= *closed)
                {
                    return Err(Violation::ClosedWindowGrew);
                }
                let partition = u32::try_from(partition).expect("few partitions");
                let source = LogPosition {
                    effective_time,
                    partition,
                    offset,
                };
                rows.push((
                    id,
                    StoredEvent {
                        key,
                        mutation,
                        source,
                    },
                ));
            }
            let before = self.verdicts.insert((partition, offset), verdict.clone());
            if before.is_some_and(|before| !same(&before, &verdict)) {
                return Err(Violation::VerdictChanged);
            }
        }
        if next > first {
            let state = &mut self.partitions[partition];
            state.read = next;
            state
                .ledger
                .track(first as u64, next as u64, state.effective.get());
            state.under_way.push((first as u64, rows));
            if fault == Some(Fault::WatermarkOfReadPosition) {
                let id = u32::try_from(partition).expect("few partitions");
                self.watermarks.advance(id, state.effective.get());
            }
        }
        Ok(())
    }

    pub(super) fn finish(&mut self, partition: usize, which: usize) -> Result<(), Violation> {
        let state = &mut self.partitions[partition];
        if state.under_way.is_empty() {
            return Ok(());
        }
        let (first, rows) = state.under_way.remove(which % state.under_way.len());
        for (id, event) in rows {
            // The store is written before the watermark moves: a row that comes into a window
            // that is closed by now is one that the watermark passed too early.
            if self
                .closed
                .get(&id)
                .is_some_and(|closed| event.key.event_time <= *closed)
            {
                return Err(Violation::ClosedWindowGrew);
            }
            let row = self
                .rows
                .entry((id, event.key.clone()))
                .or_insert_with(|| event.clone());
            if event.source < row.source || self.fault == Some(Fault::LastCopyWins) {
                *row = event;
            }
        }
        if state.ledger.finish(first) {
            let id = u32::try_from(partition).expect("few partitions");
            self.watermarks.advance(id, *state.ledger.frontier().1);
        }
        Ok(())
    }

    pub(super) fn restart(&mut self, partition: usize) {
        let state = &mut self.partitions[partition];
        let (next_offset, noted) = state.ledger.frontier();
        let noted = match self.fault {
            Some(Fault::ForgetsEffectiveTime) => INITIAL,
            _ => *noted,
        };
        state.read = usize::try_from(next_offset).expect("few records");
        state.effective = EffectiveTime::resume(noted);
        state.ledger = OffsetLedger::new(next_offset, noted);
        state.under_way.clear();
    }
}

pub(super) fn judge(
    history: &NamespaceHistory,
    fault: Option<Fault>,
    effective: Micros,
    event_time: Micros,
) -> Verdict {
    let life = history.at(effective);
    match (fault, history.decide(effective, event_time), life) {
        (Some(Fault::AcceptsAtHorizon), Err(Refusal::Late { horizon }), Some(life))
            if horizon == event_time =>
        {
            Ok(life.id())
        }
        (Some(Fault::HorizonGoesBack), Err(Refusal::Late { .. }), Some(life))
            if event_time > horizon_of_now(life, effective) =>
        {
            Ok(life.id())
        }
        (_, verdict, _) => verdict,
    }
}

pub(super) fn horizon_of_now(life: &Incarnation, t: Micros) -> Micros {
    t.max(life.created_at()) - life.limits_at(t).accept_limit
}

/// The same verdict; the numbers in a refusal only explain it.
pub(super) fn same(one: &Verdict, other: &Verdict) -> bool {
    match (one, other) {
        (Ok(one), Ok(other)) => one == other,
        (Err(one), Err(other)) => one.reason() == other.reason(),
        _ => false,
    }
}
