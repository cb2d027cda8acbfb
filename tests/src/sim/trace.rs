//! What happened, as a hash of everything and the last lines.

use std::{collections::VecDeque, fmt};
use xxhash_rust::xxh3::Xxh3Default;

/// The trace of one run.
pub(super) struct Trace {
    hash: Xxh3Default,
    lines: u64,
    tail: VecDeque<String>,
}

const TAIL: usize = 20_000;

impl Trace {
    /// An empty trace.
    pub(super) fn new() -> Self {
        Self {
            hash: Xxh3Default::new(),
            lines: 0,
            tail: VecDeque::with_capacity(TAIL),
        }
    }

    /// Notes a line.
    pub(super) fn note(&mut self, line: &str) {
        self.hash.update(line.as_bytes());
        self.hash.update(b"\n");
        self.lines += 1;
        if self.tail.len() == TAIL {
            self.tail.pop_front();
        }
        self.tail.push_back(line.to_owned());
    }

    /// The hash of all lines.
    pub(super) fn digest(&self) -> u64 {
        self.hash.digest()
    }

    /// How many lines there are.
    pub(super) fn lines(&self) -> u64 {
        self.lines
    }

    /// The last lines.
    pub(super) fn tail(&self) -> Vec<String> {
        self.tail.iter().cloned().collect()
    }
}

impl Default for Trace {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace")
            .field("lines", &self.lines)
            .finish_non_exhaustive()
    }
}
