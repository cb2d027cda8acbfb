//! Ticks: in a partition at its end, the log's own clock moves the watermark (R13).

use quipu_core::time::Micros;
use std::{collections::BTreeSet, time::Duration};

/// How often partitions at their end get a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickSettings {
    /// While counters may wait for their windows to close.
    pub active: Duration,
    /// While nothing has been written for `idle_after`.
    pub idle: Duration,
    /// How long after the last write the idle pace begins. Longer than usual accept limits, so
    /// that their windows close at the active pace.
    pub idle_after: Duration,
}

/// Decides which partitions need a tick.
#[derive(Debug)]
pub struct Ticks {
    settings: TickSettings,
    at_end: BTreeSet<u32>,
    last_write: Micros,
    last_tick: Micros,
}

impl Ticks {
    /// Starts at the active pace: what was written before the start may still wait.
    pub fn new(settings: TickSettings, now: Micros) -> Self {
        Self {
            settings,
            at_end: BTreeSet::new(),
            last_write: now,
            last_tick: Micros::MIN,
        }
    }

    /// A partition was read to its end.
    pub fn at_end(&mut self, partition: u32) {
        self.at_end.insert(partition);
    }

    /// A partition brought records, or is no longer owned: it is not known to be at its end.
    pub fn not_at_end(&mut self, partition: u32) {
        self.at_end.remove(&partition);
    }

    /// Something other than a tick was read.
    pub fn wrote(&mut self, now: Micros) {
        self.last_write = self.last_write.max(now);
    }

    /// The partitions that get a tick now: those at their end, once an interval.
    pub fn due(&mut self, now: Micros) -> Vec<u32> {
        let active = now.since(self.last_write) < self.settings.idle_after;
        let interval = if active {
            self.settings.active
        } else {
            self.settings.idle
        };
        // A clock that stepped back would silence the ticks until it caught up.
        let stepped_back = self.last_tick > now;
        if self.at_end.is_empty() || (now.since(self.last_tick) < interval && !stepped_back) {
            return Vec::new();
        }
        self.last_tick = now;
        self.at_end.iter().copied().collect()
    }
}
