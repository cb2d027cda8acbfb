//! Giving signal partitions up: what was rolled up for them is made durable and committed, then
//! they are handed back. Batches pause for that moment; signals of the others are read on.

use super::{Worker, names};
use metrics::gauge;
use quipu_adapters::ports::{Cache, Consumer, EventStore, Producer, RollupStore};
use std::{collections::BTreeSet, time::Duration};
use tokio::time::Instant;

/// Partitions are handed back after this long, whatever is under way: whoever owns them next reads
/// their signals again.
const HAND_BACK: Duration = Duration::from_secs(10);

/// Revoked partitions that are not handed back yet.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    partitions: BTreeSet<u32>,
    until: Option<Instant>,
}

impl Leaving {
    pub(super) fn add(&mut self, partitions: Vec<u32>) {
        self.partitions.extend(partitions);
        self.until.get_or_insert_with(|| Instant::now() + HAND_BACK);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }
}

impl<K: Consumer, L: Producer, E: EventStore, R: RollupStore, C: Cache> Worker<K, L, E, R, C> {
    /// Partitions are gone: nothing of them is this worker's to commit.
    pub(super) fn on_lost(&mut self, partitions: &[u32]) {
        tracing::warn!(
            ?partitions,
            "the worker lost signal partitions; others read them again"
        );
        self.give_up(partitions);
    }

    /// Hands revoked partitions back once all that was finished is committed, or time is up.
    pub(super) fn hand_back(&mut self) {
        let Some(until) = self.leaving.until else {
            return;
        };
        let settled = self.batch.is_none()
            && self.sync.is_none()
            && !self.machine.has_finished()
            && self.commits.is_empty();
        if settled || until <= Instant::now() {
            let partitions: Vec<u32> = self.leaving.partitions.iter().copied().collect();
            self.give_up(&partitions);
            self.consumer.release(partitions);
        }
    }

    fn give_up(&mut self, partitions: &[u32]) {
        self.machine.revoke(partitions);
        for partition in partitions {
            self.commits.forget(*partition);
            gauge!(names::LAG_RECORDS, "partition" => partition.to_string()).set(0.0);
            self.leaving.partitions.remove(partition);
        }
        if self.leaving.is_empty() {
            self.leaving = Leaving::default();
        }
    }
}
