//! What an operator may decide of a partition of the log: pure in what is known of it.

use quipu_adapters::{kafka::admin::PartitionState, ports::Committed};
use quipu_core::{clock_guard::ClockGuard, time::Micros};
use quipu_schemas::timestamp::to_rfc3339;
use std::ops::RangeInclusive;

/// Whether a group may go on at a frontier, and what follows from it; otherwise what is wrong with
/// it and what to do.
pub(super) fn check_frontier(
    state: &PartitionState,
    to: Committed,
    now: Micros,
) -> Result<Vec<String>, String> {
    if state.members > 0 {
        return Err(format!(
            "{} ingests read this partition's topic: stop every one first. One that was killed \
             counts until its session ends, some seconds later",
            state.members
        ));
    }
    let PartitionState { beginning, end, .. } = *state;
    if !(beginning..=end).contains(&to.next_offset) {
        return Err(format!(
            "the partition has offsets {beginning} to {end}: choose --offset from these"
        ));
    }
    if to.effective_time > now + ClockGuard::TOLERANCE {
        return Err(format!(
            "the effective time lies ahead of this machine's clock, which shows {}: nothing would \
             be decided until it comes",
            to_rfc3339(now)
        ));
    }
    for known in known(state) {
        check_order(known, to, end)?;
    }
    Ok(consequences(state, to))
}

/// What is known of how far the partition was decided.
fn known(state: &PartitionState) -> impl Iterator<Item = Committed> {
    let committed = state.committed.and_then(|(next_offset, effective_time)| {
        Some(Committed {
            next_offset,
            effective_time: effective_time?,
        })
    });
    committed.into_iter().chain(state.watermark)
}

/// Effective time rises with offsets, and never goes back for what is decided anew: windows may be
/// closed by it (R12). A log that has lost its end, or was made again, gives offsets anew.
fn check_order(known: Committed, to: Committed, end: u64) -> Result<(), String> {
    let time = to_rfc3339(known.effective_time);
    let offset = known.next_offset;
    let is_decided = to.next_offset < offset && offset <= end;
    if is_decided && to.effective_time > known.effective_time {
        return Err(format!(
            "the effective time at offset {offset} was {time}, so at an earlier offset it cannot \
             have been later: records would be decided in another way than before"
        ));
    }
    if !is_decided && to.effective_time < known.effective_time {
        return Err(format!(
            "the effective time was {time} at offset {offset} already, and windows are closed by \
             it: choose that, or later"
        ));
    }
    Ok(())
}

fn consequences(state: &PartitionState, to: Committed) -> Vec<String> {
    let committed = state.committed.map(|(next_offset, _)| next_offset);
    // What a log that was made again has was not decided yet.
    let committed = committed.filter(|next_offset| *next_offset <= state.end);
    let next = committed.unwrap_or(state.beginning).max(state.beginning);
    let to = to.next_offset;
    let mut follows = Vec::new();
    if to > next {
        let last = to - 1;
        follows.push(format!("records {next} to {last} will never be counted"));
    }
    if committed.is_some() && to < next {
        let last = next - 1;
        follows.push(format!(
            "records {to} to {last} are decided again, alike only if the effective time at {to} \
             was the one that is given"
        ));
    }
    follows
}

/// Whether the append times of some records may be capped; otherwise what is wrong with that.
pub(super) fn check_cap(
    state: &PartitionState,
    offsets: &RangeInclusive<u64>,
    time: Micros,
    now: Micros,
) -> Result<(), String> {
    let (from, through) = (*offsets.start(), *offsets.end());
    let PartitionState { beginning, end, .. } = *state;
    let committed = state.committed.map(|(next_offset, _)| next_offset);
    let undecided = committed.unwrap_or(beginning).max(beginning);
    if from < undecided {
        return Err(format!(
            "what lies before offset {undecided} is decided: begin with --from {undecided}"
        ));
    }
    if from >= end || through >= end {
        return Err(format!(
            "the partition's newest record is before offset {end}: only records that are there can \
             be capped"
        ));
    }
    if through < from {
        return Err(format!("--through {through} is before --from {from}"));
    }
    if time > now {
        let now = to_rfc3339(now);
        return Err(format!(
            "--time lies ahead of this machine's clock, which shows {now}; records were appended \
             before"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_000_000_000;

    fn at(next_offset: u64, micros: i64) -> Committed {
        Committed {
            next_offset,
            effective_time: Micros::new(micros),
        }
    }

    /// Decided up to 50, at time 500.
    const STATE: PartitionState = PartitionState {
        beginning: 10,
        end: 100,
        committed: Some((50, Some(Micros::new(500)))),
        watermark: None,
        members: 0,
    };

    fn refusal(state: &PartitionState, to: Committed) -> String {
        check_frontier(state, to, Micros::new(NOW)).expect_err("refused")
    }

    fn follows(state: &PartitionState, to: Committed) -> String {
        let follows = check_frontier(state, to, Micros::new(NOW));
        follows.expect("allowed").join("; ")
    }

    #[test]
    fn nothing_is_decided_for_a_group_that_runs() {
        let state = PartitionState {
            members: 2,
            ..STATE
        };
        assert!(refusal(&state, at(50, 500)).starts_with("2 ingests read"));
    }

    #[test]
    fn an_offset_that_is_not_there_and_a_time_that_has_not_come_are_refused() {
        for offset in [9, 101] {
            let said = refusal(&STATE, at(offset, 500));
            assert!(said.contains("offsets 10 to 100"), "{said}");
        }
        assert_eq!(follows(&STATE, at(50, NOW + 2_000_000)), "");
        let said = refusal(&STATE, at(50, NOW + 2_000_001));
        assert!(said.contains("ahead of this machine's clock"), "{said}");
    }

    #[test]
    fn effective_time_never_goes_back_nor_rises_before_what_was_decided() {
        assert!(refusal(&STATE, at(60, 499)).contains("windows are closed"));
        assert!(refusal(&STATE, at(50, 499)).contains("windows are closed"));
        assert!(refusal(&STATE, at(49, 501)).contains("cannot have been later"));
        assert_eq!(follows(&STATE, at(50, 500)), "");
        let watermark = Some(at(50, 500));
        let committed = None;
        let state = PartitionState {
            watermark,
            committed,
            ..STATE
        };
        assert!(refusal(&state, at(60, 499)).contains("windows are closed"));
    }

    #[test]
    fn a_log_that_was_made_again_goes_on_at_no_earlier_time() {
        let state = PartitionState {
            beginning: 0,
            end: 5,
            ..STATE
        };
        assert!(refusal(&state, at(0, 499)).contains("windows are closed"));
        assert_eq!(follows(&state, at(0, 500)), "");
    }

    #[test]
    fn it_is_told_what_is_skipped_and_what_is_read_again() {
        let said = follows(&STATE, at(60, 700));
        assert_eq!(said, "records 50 to 59 will never be counted");
        let said = follows(&STATE, at(40, 300));
        assert!(
            said.starts_with("records 40 to 49 are decided again"),
            "{said}"
        );
        let lost = PartitionState {
            committed: Some((3, None)),
            ..STATE
        };
        let said = follows(&lost, at(10, 300));
        assert_eq!(said, "", "what was lost before is not there to be skipped");
    }

    #[test]
    fn only_undecided_records_that_are_there_are_capped_at_a_time_that_has_come() {
        let check = |offsets: RangeInclusive<u64>, time| {
            check_cap(&STATE, &offsets, Micros::new(time), Micros::new(NOW))
        };
        assert_eq!(check(50..=99, NOW), Ok(()));
        for (offsets, time, said) in [
            (49..=99, NOW, "begin with --from 50"),
            (50..=100, NOW, "newest record is before offset 100"),
            (100..=100, NOW, "newest record is before offset 100"),
            (
                RangeInclusive::new(60, 59),
                NOW,
                "--through 59 is before --from 60",
            ),
            (50..=50, NOW + 1, "--time lies ahead"),
        ] {
            let refused = check(offsets, time).expect_err("refused");
            assert!(refused.contains(said), "{refused}");
        }
        let empty = PartitionState {
            committed: None,
            beginning: 0,
            end: 0,
            ..STATE
        };
        let none = check_cap(&empty, &(0..=0), Micros::new(1), Micros::new(NOW));
        assert!(none.is_err(), "there is no record");
    }
}
