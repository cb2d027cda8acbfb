//! Making room: parked counters whose windows close late leave memory, since their rows are stored.

use super::PendingSet;
use quipu_core::{
    event::{CounterKey, NamespaceId},
    time::Micros,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

impl PendingSet {
    /// Lets up to `most` counters go that only wait for their parked rows to close, and longer
    /// than `soon`; the longest wait first. Returns the signal partitions whose rows must be
    /// loaded again.
    pub fn let_go(
        &mut self,
        most: usize,
        closed: &BTreeMap<NamespaceId, Micros>,
        soon: Duration,
    ) -> BTreeSet<u32> {
        let waiting = self.counters.iter().filter_map(|(counter, entry)| {
            let only_parked = entry.marks.is_empty() && !entry.in_flight;
            let (partition, _) = entry.parked.filter(|_| only_parked)?;
            let wait = entry.ripe_at.since(*closed.get(&counter.namespace)?);
            (wait > soon).then(|| (wait, counter.clone(), partition))
        });
        let mut waiting: Vec<(Duration, CounterKey, u32)> = waiting.collect();
        waiting.sort_unstable_by(|a, b| b.cmp(a));
        waiting.truncate(most);
        let let_go = waiting.into_iter().map(|(_, counter, partition)| {
            self.unschedule(&counter);
            self.remove(&counter);
            partition
        });
        let_go.collect()
    }
}
