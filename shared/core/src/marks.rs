//! The frontier of a signal partition: signals coalesce, so only the oldest unfinished one of each
//! counter is remembered (R17).

use std::collections::BTreeSet;

/// Unfinished signal offsets of one partition.
///
/// Invariant: the frontier never passes an offset that was opened and not closed.
#[derive(Clone, Debug, Default)]
pub struct SignalMarks {
    open: BTreeSet<u64>,
    read_to: u64,
}

impl SignalMarks {
    /// A partition that is read from a committed offset on.
    pub fn new(committed: u64) -> Self {
        Self {
            open: BTreeSet::new(),
            read_to: committed,
        }
    }

    /// Notes that all offsets before `next` were read.
    pub fn read(&mut self, next: u64) {
        self.read_to = self.read_to.max(next);
    }

    /// Holds the frontier at `offset`.
    pub fn open(&mut self, offset: u64) {
        assert!(
            self.open.insert(offset),
            "signal offset {offset} was opened twice"
        );
    }

    /// Lets the frontier pass `offset`.
    ///
    /// # Panics
    /// When it was not open.
    pub fn close(&mut self, offset: u64) {
        assert!(
            self.open.remove(&offset),
            "signal offset {offset} was not open"
        );
    }

    /// Everything before this offset is finished.
    pub fn frontier(&self) -> u64 {
        self.open.first().copied().unwrap_or(self.read_to)
    }

    /// How many offsets are open.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether no offset is open.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}
