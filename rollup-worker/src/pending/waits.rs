//! For how long counters wait, for people to see.

use super::PendingSet;
use quipu_core::{event::NamespaceId, time::Micros};
use std::{collections::BTreeMap, time::Duration};

/// Counters that a stale read asked for are due at no time in particular, long before this.
const A_TIME_OF_WRITES: Micros = Micros::new(0);

impl PendingSet {
    /// For how long the counter that waits longest has been ripe, in the log's time; zero when none
    /// is.
    pub fn longest_wait(&self, closed: &BTreeMap<NamespaceId, Micros>) -> Duration {
        let waits = closed.iter().filter_map(|(namespace, closed)| {
            let mut due = self.ripe.get(namespace)?.iter().map(|(at, _)| *at);
            let oldest = due.find(|at| *at > A_TIME_OF_WRITES)?;
            Some(closed.since(oldest))
        });
        waits.max().unwrap_or_default()
    }
}
