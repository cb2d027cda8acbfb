//! How a batcher gathers adds, and how many it holds.

use crate::batch::BATCH_MOST;
use std::time::Duration;

/// How a batcher gathers adds, and how many it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatcherOptions {
    /// The most adds in one call; at most 1,000, which is the default.
    pub batch_items: usize,
    /// The most bytes of names, tokens and keys in one call; 1 MiB by default.
    pub batch_bytes: usize,
    /// How long an add may wait for others to share its call; 5 ms by default. It must be far below
    /// the namespace's accept limit.
    pub linger: Duration,
    /// The most adds that are accepted and not settled; 100,000 by default.
    pub pending_items: usize,
    /// The most bytes of them; 32 MiB by default.
    pub pending_bytes: usize,
    /// The most calls under way; 8 by default.
    pub calls: usize,
}

impl Default for BatcherOptions {
    fn default() -> Self {
        Self {
            batch_items: BATCH_MOST,
            batch_bytes: 1 << 20,
            linger: Duration::from_millis(5),
            pending_items: 100_000,
            pending_bytes: 32 << 20,
            calls: 8,
        }
    }
}

impl BatcherOptions {
    /// The same, within what calls and semaphores can hold, and never nothing.
    pub(crate) fn within_limits(self) -> Self {
        let most = u32::MAX as usize >> 4;
        Self {
            batch_items: self.batch_items.clamp(1, BATCH_MOST),
            batch_bytes: self.batch_bytes.clamp(1, 3 << 20),
            pending_items: self.pending_items.clamp(1, most),
            pending_bytes: self.pending_bytes.clamp(1, most),
            calls: self.calls.max(1),
            ..self
        }
    }
}
