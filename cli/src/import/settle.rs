//! What the answer to a batch means for each of its adds. Pure.

use super::plan::{Note, Plan};
use quipu_client::{Applied, Failure};
use quipu_core::time::Micros;
use std::ops::Range;

/// An add to send: its place in its block, its number, and the generation time of its attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pick {
    /// The place in the block.
    pub(crate) place: usize,
    /// The number of the add.
    pub(crate) add: u64,
    /// The generation time.
    pub(crate) time: Micros,
}

/// What follows from a batch's verdicts.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    /// To note in the journal; losing it costs only a repetition.
    pub(crate) notes: Vec<Note>,
    /// How many adds were accepted.
    pub(crate) accepted: u64,
    /// How many had been applied by an earlier attempt.
    pub(crate) already_applied: u64,
    /// Refused as late, for good: they need another attempt.
    pub(crate) late: Vec<Pick>,
    /// Not settled: the same attempt must be sent again.
    pub(crate) again: Vec<Pick>,
    /// Why the ones to send again failed; one reason stands for all.
    pub(crate) unsettled: Option<Failure>,
    /// Refused as malformed, and why.
    pub(crate) refused: Vec<(Pick, String)>,
    /// Why the import cannot go on.
    pub(crate) stop: Option<Failure>,
    /// The adds that it cannot go on with.
    pub(crate) stopped: Vec<Pick>,
}

/// Takes up the verdicts on a batch, one for each pick.
pub(crate) fn settle(
    plan: &mut Plan,
    picks: &[Pick],
    verdicts: impl IntoIterator<Item = Result<Applied, Failure>>,
) -> Settled {
    let mut settled = Settled::default();
    let mut finished: Option<Range<u64>> = None;
    let mut finish = |plan: &mut Plan, notes: &mut Vec<Note>, add: u64| match &mut finished {
        Some(range) if range.end == add => range.end += 1,
        other => {
            if let Some(range) = other.replace(add..add + 1) {
                notes.extend(plan.finish(range));
            }
        }
    };
    for (pick, verdict) in picks.iter().copied().zip(verdicts) {
        match verdict {
            Ok(applied) => {
                match applied {
                    Applied::Accepted | Applied::Published => settled.accepted += 1,
                    Applied::AlreadyApplied => settled.already_applied += 1,
                }
                finish(plan, &mut settled.notes, pick.add);
            }
            Err(Failure::Late(_)) => settled.late.push(pick),
            Err(failure @ (Failure::Unsettled { .. } | Failure::Unreachable { .. })) => {
                settled.again.push(pick);
                keep_longest_wait(&mut settled.unsettled, failure);
            }
            Err(failure) if failure.is_malformed_item() => {
                let reason = failure.to_string();
                settled.notes.push(Note::Refused {
                    add: pick.add,
                    reason: reason.clone(),
                });
                settled.refused.push((pick, reason));
                finish(plan, &mut settled.notes, pick.add);
            }
            Err(failure) => {
                settled.stop.get_or_insert(failure);
                settled.stopped.push(pick);
            }
        }
    }
    if let Some(range) = finished {
        settled.notes.extend(plan.finish(range));
    }
    settled
}

fn keep_longest_wait(kept: &mut Option<Failure>, failure: Failure) {
    let longer = |kept: &Failure| kept.retry_after() < failure.retry_after();
    if kept.as_ref().is_none_or(longer) {
        *kept = Some(failure);
    }
}

/// Ranges in order, those that touch as one.
pub(crate) fn joined(ranges: impl IntoIterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => joined.push(range),
        }
    }
    joined
}
