//! Liveness: whether each partition makes progress. Pure: time comes in as values.
//!
//! A partition is stuck when there is work on it which is not committed, and nothing was committed
//! for long although all that it depends on answers. A dependency that is away never makes a
//! process unhealthy: to start it anew would mend nothing.

use std::{collections::BTreeMap, time::Duration};

/// How far partitions have come.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    partitions: BTreeMap<u32, Partition>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Partition {
    /// The first offset that was not brought yet.
    brought: u64,
    committed: u64,
    /// How long nothing was committed, while there was work and everything answered.
    idle: Duration,
}

impl Progress {
    /// A partition is read from an offset on.
    pub(super) fn assigned(&mut self, partition: u32, next_offset: u64) {
        let state = Partition {
            brought: next_offset,
            committed: next_offset,
            idle: Duration::ZERO,
        };
        self.partitions.insert(partition, state);
    }

    /// A partition is somebody else's now.
    pub(super) fn gone(&mut self, partition: u32) {
        self.partitions.remove(&partition);
    }

    /// Records up to before this offset were brought.
    pub(super) fn brought(&mut self, partition: u32, next_offset: u64) {
        if let Some(state) = self.partitions.get_mut(&partition) {
            state.brought = state.brought.max(next_offset);
        }
    }

    /// Everything before this offset is finished.
    pub(super) fn committed(&mut self, partition: u32, next_offset: u64) {
        if let Some(state) = self.partitions.get_mut(&partition)
            && next_offset > state.committed
        {
            state.committed = next_offset;
            state.idle = Duration::ZERO;
        }
    }

    /// Time passed while everything answered, or did not.
    pub(super) fn passed(&mut self, time: Duration, answers: Result<(), &str>) {
        for state in self.partitions.values_mut() {
            let works = state.committed < state.brought && answers.is_ok();
            state.idle = if works {
                state.idle + time
            } else {
                Duration::ZERO
            };
        }
    }

    /// Why the process is not alive, if it is not.
    pub(super) fn check(&self, stuck_after: Duration) -> Result<(), String> {
        let stuck = |state: &Partition| state.idle >= stuck_after;
        match self.partitions.iter().find(|(_, state)| stuck(state)) {
            None => Ok(()),
            Some((partition, state)) => Err(format!(
                "partition {partition} is stuck before offset {}: nothing was finished for {:?}",
                state.committed, state.idle
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STUCK: Duration = Duration::from_mins(5);
    const MINUTE: Duration = Duration::from_mins(1);

    fn with_work() -> Progress {
        let mut progress = Progress::default();
        progress.assigned(3, 10);
        progress.brought(3, 12);
        progress
    }

    #[test]
    fn a_partition_with_work_that_nothing_finishes_is_stuck() {
        let mut progress = with_work();
        for _ in 0..4 {
            progress.passed(MINUTE, Ok(()));
            assert_eq!(progress.check(STUCK), Ok(()));
        }
        progress.passed(MINUTE, Ok(()));
        let why = progress.check(STUCK).unwrap_err();
        assert!(
            why.contains("partition 3 is stuck before offset 10"),
            "{why}"
        );
        progress.committed(3, 11);
        assert_eq!(progress.check(STUCK), Ok(()));
    }

    #[test]
    fn one_stuck_partition_is_seen_though_another_makes_progress() {
        let mut progress = with_work();
        progress.assigned(4, 0);
        for offset in 1..=5 {
            progress.brought(4, offset + 1);
            progress.committed(4, offset);
            progress.passed(MINUTE, Ok(()));
        }
        assert!(progress.check(STUCK).unwrap_err().contains("partition 3"));
    }

    #[test]
    fn a_partition_without_work_is_not_stuck() {
        let mut progress = with_work();
        progress.committed(3, 12);
        progress.passed(10 * MINUTE, Ok(()));
        assert_eq!(progress.check(STUCK), Ok(()));
    }

    #[test]
    fn what_is_away_makes_nothing_stuck() {
        let mut progress = with_work();
        progress.passed(4 * MINUTE, Ok(()));
        progress.passed(100 * MINUTE, Err("Kafka"));
        progress.passed(4 * MINUTE, Ok(()));
        assert_eq!(progress.check(STUCK), Ok(()));
    }

    #[test]
    fn a_partition_that_went_away_is_forgotten() {
        let mut progress = with_work();
        progress.gone(3);
        progress.passed(10 * MINUTE, Ok(()));
        progress.committed(3, 99);
        assert_eq!(progress.check(STUCK), Ok(()));
    }
}
