//! Dynamic batch sizes: they follow the load and the number of pending counters.

use crate::pressure::Evidence;

/// Chooses how many counters the next batch takes.
#[derive(Clone, Debug)]
pub struct BatchSizer {
    smallest: usize,
    largest: usize,
    limit: usize,
}

impl BatchSizer {
    /// Batches between these sizes.
    ///
    /// # Panics
    /// When `smallest` is zero or over `largest`.
    pub fn new(smallest: usize, largest: usize) -> Self {
        assert!(
            0 < smallest && smallest <= largest,
            "batch sizes must be 0 < smallest <= largest"
        );
        Self {
            smallest,
            largest,
            limit: smallest,
        }
    }

    /// Learns from a batch that was as large as it might be. Small batches prove nothing about
    /// larger ones.
    pub fn learn(&mut self, size: usize, evidence: Evidence) {
        let next = match evidence {
            Evidence::Fast if size < self.limit => self.limit,
            Evidence::Fast => self.limit.saturating_add(self.smallest),
            Evidence::Slow => self.limit / 4 * 3,
            Evidence::Failed => self.limit / 2,
        };
        self.limit = next.clamp(self.smallest, self.largest);
    }

    /// The size of the next batch when `pending` counters wait.
    pub fn next(&self, pending: usize) -> usize {
        pending.min(self.limit)
    }
}
