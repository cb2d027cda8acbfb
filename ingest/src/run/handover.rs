//! Giving partitions up: what was decided of them is made durable and committed, then they are
//! handed back, while the others go on.

use super::Ingest;
use quipu_adapters::ports::{Committed, Consumer, EventStore, Producer};
use std::{collections::BTreeMap, time::Duration};
use tokio::time::Instant;

use crate::process::IngestError;

/// A partition is handed back after this long, however much of it is under way: whoever owns it
/// next decides that again, alike.
const HAND_BACK: Duration = Duration::from_secs(10);

impl<C: Consumer, L: Producer, E: EventStore> Ingest<C, L, E> {
    /// Partitions are to be handed back, and bring no more records.
    pub(super) fn on_revoked(&mut self, partitions: Vec<u32>) {
        self.seal();
        let until = Instant::now() + HAND_BACK;
        for partition in partitions {
            self.ticks.not_at_end(partition);
            self.stalled.remove(&partition);
            self.leaving.insert(partition, until);
        }
    }

    /// Partitions are gone: nothing of them is this ingest's to commit.
    pub(super) fn on_lost(&mut self, partitions: &[u32]) {
        tracing::warn!(
            ?partitions,
            "ingest lost partitions; others decide them again, alike"
        );
        for partition in partitions {
            self.give_up(*partition);
        }
    }

    /// Hands back the revoked partitions of which nothing is under way, and those whose time is up.
    pub(super) fn hand_back(&mut self) {
        let now = Instant::now();
        let settled =
            |partition| self.machine.is_drained(partition) && self.commits.is_settled(partition);
        let ready = self.leaving.iter();
        let ready = ready.filter(|(partition, until)| settled(**partition) || **until <= now);
        let ready: Vec<u32> = ready.map(|(partition, _)| *partition).collect();
        if ready.is_empty() {
            return;
        }
        for partition in &ready {
            if !settled(*partition) {
                tracing::warn!(partition, "handing a partition back with batches under way");
            }
        }
        for partition in &ready {
            self.give_up(*partition);
        }
        self.consumer.release(ready);
    }

    fn give_up(&mut self, partition: u32) {
        self.machine.revoke(partition);
        self.ticks.not_at_end(partition);
        self.stalled.remove(&partition);
        self.commits.forget(partition);
        self.leaving.remove(&partition);
        self.observe_no_more(partition);
    }

    /// R12: what is committed is published as watermarks, and nothing else.
    pub(super) fn on_committed(&mut self, frontiers: BTreeMap<u32, Committed>) {
        for (partition, frontier) in frontiers {
            self.ports.watermarks.publish(partition, frontier);
            self.published.insert(partition, frontier.effective_time);
        }
    }

    /// Finishes what is under way, and commits it.
    pub(super) async fn drain(&mut self) -> Result<(), IngestError> {
        use futures::StreamExt;
        self.seal();
        while let Some(processed) = self.in_flight.next().await {
            self.on_processed(processed?);
        }
        loop {
            self.commits.start(&mut self.consumer);
            if self.commits.is_empty() {
                return Ok(());
            }
            let committed = self.commits.done().await?;
            self.on_committed(committed);
        }
    }
}
