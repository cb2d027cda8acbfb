//! The contiguous offset ledger: work completes in any order, only the contiguous frontier is
//! committed. Modelled on PostHog's `partition_offset_ledger.rs`.

use std::collections::BTreeMap;

#[derive(Clone, Debug)]
struct Range<N> {
    next: u64,
    finished: bool,
    note: N,
}

/// Ranges of offsets under way in one partition.
///
/// Invariant: the frontier never passes a range that was tracked and not finished.
#[derive(Clone, Debug)]
pub struct OffsetLedger<N> {
    ranges: BTreeMap<u64, Range<N>>,
    frontier: u64,
    note: N,
}

impl<N: Clone> OffsetLedger<N> {
    /// A ledger whose frontier starts at a committed offset, with what was noted there.
    pub fn new(frontier: u64, note: N) -> Self {
        Self {
            ranges: BTreeMap::new(),
            frontier,
            note,
        }
    }

    /// Starts the range `[first, next)`; `note` is what holds once all up to `next` is finished.
    /// Offsets between ranges (gaps in the log) belong to the range that follows.
    ///
    /// # Panics
    /// When the range is empty, or does not come after all ranges before it.
    pub fn track(&mut self, first: u64, next: u64, note: N) {
        let end = self
            .ranges
            .last_key_value()
            .map_or(self.frontier, |(_, range)| range.next);
        assert!(
            first >= end && next > first,
            "range {first}..{next} must follow offset {end}"
        );
        self.ranges.insert(
            first,
            Range {
                next,
                finished: false,
                note,
            },
        );
    }

    /// Finishes the range that starts at `first`. Returns whether the frontier moved.
    ///
    /// # Panics
    /// When no such range is under way: finishing twice would hide a lost one.
    pub fn finish(&mut self, first: u64) -> bool {
        let range = self
            .ranges
            .get_mut(&first)
            .expect("only a tracked range can be finished");
        assert!(!range.finished, "range at {first} was finished twice");
        range.finished = true;
        let before = self.frontier;
        while let Some(entry) = self
            .ranges
            .first_entry()
            .filter(|entry| entry.get().finished)
        {
            let range = entry.remove();
            self.frontier = range.next;
            self.note = range.note;
        }
        self.frontier > before
    }

    /// The next offset to commit: everything before it is finished; and what was noted there.
    pub fn frontier(&self) -> (u64, &N) {
        (self.frontier, &self.note)
    }

    /// How many ranges are under way or wait for an earlier one.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}
