//! The ingest machine: every decision of the role, without IO. Time, policy and records come in
//! as values; the driver in `run.rs` and a simulator run the same code.

use crate::{
    batch::{Batch, DeadLetter, DecidedRange},
    refusals::{NearlyAllRefused, RecentVerdicts},
};
use bytes::Bytes;
use quipu_adapters::ports::{Assignment, Body, Committed, Record, Stamp};
use quipu_core::{
    acknowledge::accepted_throughout,
    caps::CappedRanges,
    clock_guard::ClockGuard,
    effective::EffectiveTime,
    event::{CounterKey, EventRow, LogPosition, StoredEvent},
    ledger::OffsetLedger,
    policy::{PolicyBook, Refusal},
    time::Micros,
};
use quipu_schemas::{
    event::{self, CheckedEvent, EventError},
    timestamp::to_rfc3339,
};
use std::{collections::BTreeMap, time::Duration};

/// Why a partition cannot go on deciding yet. Stopping is not deciding (R3, R5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stall {
    /// A record is stamped further ahead of this machine's clock than clocks drift.
    #[error(
        "a record's append time {append_time} is ahead of this machine's clock {now}; waiting \
         for the clock to catch up"
    )]
    StampAhead {
        /// The record's append time.
        append_time: Micros,
        /// This machine's clock.
        now: Micros,
        /// The effective time before it.
        effective: Micros,
    },
    /// The policy is not known to be valid that far.
    #[error("the policy is valid through {valid_through}, a record is effective at {effective}")]
    PolicyBehind {
        /// How far the policy may be relied on.
        valid_through: Micros,
        /// The record's effective time.
        effective: Micros,
    },
    /// Nearly everything before was refused. Only an operator can mend that.
    #[error("{}% of the last records were refused, the last as {}", .0.percent, .0.reason)]
    NearlyAllRefused(NearlyAllRefused),
}

/// A partition that stopped before the record at `offset`: read from there again later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stalled {
    /// The first undecided offset.
    pub offset: u64,
    /// Why.
    pub reason: Stall,
}

impl Stalled {
    /// What an operator can do where waiting does not help (R3).
    pub fn remedy(&self, partition: u32) -> Option<String> {
        let Stall::StampAhead { effective, .. } = self.reason else {
            return None;
        };
        let (offset, time) = (self.offset, to_rfc3339(effective));
        Some(format!(
            "if it was the broker's clock that was wrong, set that right, then: quipu admin \
             cap-time --partition {partition} --from {offset} --time {time}"
        ))
    }
}

/// What is true now for deciding.
#[derive(Clone, Copy, Debug)]
pub struct Present<'a> {
    /// This machine's clock.
    pub now: Micros,
    /// Every namespace's policy.
    pub policy: &'a PolicyBook,
}

#[derive(Debug)]
struct Partition {
    /// At the read position; the ledger notes it at the frontier.
    effective: EffectiveTime,
    ledger: OffsetLedger<Micros>,
    epoch: u64,
    verdicts: RecentVerdicts,
}

/// The state of all partitions that this ingest owns.
#[derive(Debug)]
pub struct Machine {
    topic: String,
    most_refused_percent: u32,
    append_guard: Duration,
    partitions: BTreeMap<u32, Partition>,
    /// Partitions taken over so far.
    epochs: u64,
}

impl Machine {
    /// A machine that owns nothing yet and reads `topic`. It stops before a record when more than
    /// `most_refused_percent` of those before were refused as no events of this topic; 100 for
    /// never. `append_guard` is the one that gateways acknowledge by (R7).
    pub fn new(topic: &str, most_refused_percent: u32, append_guard: Duration) -> Self {
        Self {
            topic: topic.to_owned(),
            most_refused_percent,
            append_guard,
            partitions: BTreeMap::new(),
            epochs: 0,
        }
    }

    /// Takes over a partition, from its committed frontier on (R2).
    pub fn assign(&mut self, assignment: Assignment) {
        let Committed {
            next_offset,
            effective_time,
        } = assignment.start;
        self.epochs += 1;
        let partition = Partition {
            effective: EffectiveTime::resume(effective_time),
            ledger: OffsetLedger::new(next_offset, effective_time),
            epoch: self.epochs,
            verdicts: RecentVerdicts::new(self.most_refused_percent),
        };
        self.partitions.insert(assignment.partition, partition);
    }

    /// Whether nothing that was decided of a partition is under way.
    pub fn is_drained(&self, partition: u32) -> bool {
        let state = self.partitions.get(&partition);
        state.is_none_or(|state| state.ledger.is_empty())
    }

    /// Gives a partition up. Work under way for it is finished by whoever owns it next.
    pub fn revoke(&mut self, partition: u32) {
        self.partitions.remove(&partition);
    }

    /// Decides records of a partition, in order, into a batch. The verdict on each is pure in its
    /// append time, its bytes and the policy's history, so that a replay decides the same (R1).
    ///
    /// # Panics
    /// When the partition is not assigned.
    pub fn decide(
        &mut self,
        present: Present<'_>,
        partition: u32,
        records: Vec<Record>,
        batch: &mut Batch,
    ) -> Result<(), Stalled> {
        let state = self
            .partitions
            .get_mut(&partition)
            .expect("records of an owned partition");
        let Some(first) = records.first().map(|record| record.offset) else {
            return Ok(());
        };
        let rules = Rules {
            topic: &self.topic,
            caps: present.policy.caps(&self.topic),
            append_guard: self.append_guard,
            policy: present.policy,
        };
        let mut next = first;
        let mut stalled = Ok(());
        for record in records {
            let stamp = rules.stamp(partition, &record);
            let allowed = match state.verdicts.too_many() {
                Some(refused) => Err(Stall::NearlyAllRefused(refused)),
                None => may_decide(present, state.effective.get(), stamp),
            };
            if let Err(reason) = allowed {
                stalled = Err(Stalled {
                    offset: record.offset,
                    reason,
                });
                break;
            }
            next = record.offset + 1;
            rules.decide(partition, state, record, batch);
        }
        if next > first {
            state.ledger.track(first, next, state.effective.get());
            let epoch = state.epoch;
            batch.ranges.push(DecidedRange {
                partition,
                first,
                epoch,
            });
        }
        stalled
    }

    /// A batch is durable, rows, dead letters and signals. Returns the frontiers that moved:
    /// to be committed, then published as watermarks (R12).
    pub fn finish(&mut self, ranges: &[DecidedRange]) -> BTreeMap<u32, Committed> {
        let mut moved = BTreeMap::new();
        for range in ranges {
            // The frontier of a partition that was given up is no longer this ingest's to move,
            // not even when it owns the partition again.
            let state = self.partitions.get_mut(&range.partition);
            let Some(state) = state.filter(|state| state.epoch == range.epoch) else {
                continue;
            };
            if state.ledger.finish(range.first) {
                let (next_offset, effective_time) = state.ledger.frontier();
                let frontier = Committed {
                    next_offset,
                    effective_time: *effective_time,
                };
                moved.insert(range.partition, frontier);
            }
        }
        moved
    }

    /// Goes back to the frontiers after the store lost writes (R11). Returns where each partition
    /// is to be read again; whatever was under way must be forgotten.
    pub fn rewind(&mut self) -> Vec<(u32, u64)> {
        let mut positions = Vec::with_capacity(self.partitions.len());
        for (partition, state) in &mut self.partitions {
            let (next_offset, effective_time) = state.ledger.frontier();
            let effective_time = *effective_time;
            self.epochs += 1;
            *state = Partition {
                effective: EffectiveTime::resume(effective_time),
                ledger: OffsetLedger::new(next_offset, effective_time),
                epoch: self.epochs,
                verdicts: RecentVerdicts::new(self.most_refused_percent),
            };
            positions.push((*partition, next_offset));
        }
        positions
    }

    /// The effective time at each partition's read position.
    pub fn effective_times(&self) -> impl Iterator<Item = (u32, Micros)> {
        self.partitions
            .iter()
            .map(|(partition, state)| (*partition, state.effective.get()))
    }

    /// Each partition's frontier: what comes before it is decided and durable.
    pub fn frontiers(&self) -> impl Iterator<Item = (u32, Committed)> {
        self.partitions.iter().map(|(partition, state)| {
            let (next_offset, effective_time) = state.ledger.frontier();
            let frontier = Committed {
                next_offset,
                effective_time: *effective_time,
            };
            (*partition, frontier)
        })
    }

    /// The effective time of the slowest frontier; `None` without partitions.
    pub fn oldest_frontier(&self) -> Option<Micros> {
        self.frontiers()
            .map(|(_, frontier)| frontier.effective_time)
            .min()
    }
}

fn may_decide(present: Present<'_>, effective: Micros, stamp: Stamp) -> Result<(), Stall> {
    // A record that the log did not stamp moves no time: it is refused, whatever it shows.
    let Stamp::Log(append_time) = stamp else {
        return Ok(());
    };
    if append_time > present.now + ClockGuard::TOLERANCE {
        return Err(Stall::StampAhead {
            append_time,
            now: present.now,
            effective,
        });
    }
    let effective = effective.max(append_time);
    let valid_through = present.policy.valid_through();
    if effective > valid_through {
        return Err(Stall::PolicyBehind {
            valid_through,
            effective,
        });
    }
    Ok(())
}

/// What verdicts depend on besides the record and its partition.
struct Rules<'a> {
    topic: &'a str,
    caps: &'a CappedRanges,
    append_guard: Duration,
    policy: &'a PolicyBook,
}

impl Rules<'_> {
    /// A record's stamp as it is decided by: an operator may have capped it (R3).
    fn stamp(&self, partition: u32, record: &Record) -> Stamp {
        let capped = |time| self.caps.append_time(partition, record.offset, time);
        match record.stamp {
            Stamp::Log(append_time) => Stamp::Log(capped(append_time)),
            worthless @ Stamp::Producer(_) => worthless,
        }
    }

    fn decide(&self, partition: u32, state: &mut Partition, record: Record, batch: &mut Batch) {
        let (Stamp::Log(shown) | Stamp::Producer(shown)) = record.stamp;
        let verdict = match (self.stamp(partition, &record), &record.body) {
            (Stamp::Log(append_time), Body::Tick) => {
                state.effective.observe(append_time);
                return;
            }
            (Stamp::Producer(_), Body::Tick | Body::Data { .. }) => Err(Refusal::NotLogStamped),
            (Stamp::Log(append_time), Body::Data { value, headers }) => {
                let effective_time = state.effective.observe(append_time);
                let source = LogPosition {
                    effective_time,
                    partition,
                    offset: record.offset,
                };
                decode(value, headers)
                    .map_err(Refusal::from)
                    .and_then(|event| self.judge(source, shown, event, batch))
            }
        };
        state.verdicts.note(verdict.as_ref().err());
        match verdict {
            Ok(row) => batch.accept(row),
            Err(refusal) => batch.dead_letters.push(DeadLetter {
                partition,
                offset: record.offset,
                timestamp: shown,
                refusal,
                body: record.body,
            }),
        }
    }

    fn judge(
        &self,
        source: LogPosition,
        // As gateways saw it, not capped.
        append_time: Micros,
        event: CheckedEvent,
        batch: &mut Batch,
    ) -> Result<EventRow, Refusal> {
        let history = self
            .policy
            .history(event.namespace.as_str())
            .ok_or(Refusal::UnknownNamespace)?;
        if history.topic() != self.topic {
            return Err(Refusal::WrongTopic);
        }
        let (effective_time, event_time) = (source.effective_time, event.key.event_time);
        let verdict = history.decide(effective_time, event_time);
        let latest = append_time + self.append_guard;
        // Only a log whose clock went back by more than the guard can bring this about.
        if verdict.is_err()
            && effective_time > latest
            && accepted_throughout(history, append_time, latest, event_time).is_some()
        {
            batch.acknowledged_and_refused += 1;
        }
        let counter = CounterKey {
            namespace: verdict?,
            name: event.counter,
        };
        let event = StoredEvent {
            key: event.key,
            mutation: event.mutation,
            source,
        };
        Ok(EventRow { counter, event })
    }
}

/// Protobuf, unless a header says that it is JSON.
fn decode(value: &[u8], headers: &[(String, Bytes)]) -> Result<CheckedEvent, EventError> {
    let content_type = headers
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    match content_type {
        Some((_, value_type)) if event::is_json(value_type) => event::decode_json(value),
        _ => event::decode(value),
    }
}
