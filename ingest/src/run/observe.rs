//! What ingest says of how far its partitions have come.

use super::Ingest;
use crate::names;
use metrics::gauge;
use quipu_adapters::{
    ends::Offsets,
    ports::{Consumer, EventStore, Producer},
};

impl<C: Consumer, L: Producer, E: EventStore> Ingest<C, L, E> {
    /// Ages grow by themselves: a partition that is stuck must not look as it did when it moved.
    pub(super) fn observe(&mut self) {
        let now = self.ports.clock.now();
        for (partition, frontier) in self.machine.frontiers() {
            let lag = now.since(frontier.effective_time);
            gauge!(names::LAG_SECONDS, "partition" => partition.to_string()).set(lag.as_secs_f64());
        }
        for (partition, watermark) in &self.published {
            let age = now.since(*watermark);
            gauge!(names::WATERMARK_AGE, "partition" => partition.to_string())
                .set(age.as_secs_f64());
        }
        self.ends.ask(&self.consumer);
    }

    #[expect(clippy::cast_precision_loss, reason = "a rounded lag says the same")]
    pub(super) fn on_ends(&mut self, ends: &Offsets) {
        for (partition, frontier) in self.machine.frontiers() {
            let Some(end) = ends.get(&partition) else {
                continue;
            };
            let lag = end.saturating_sub(frontier.next_offset);
            gauge!(names::LAG_RECORDS, "partition" => partition.to_string()).set(lag as f64);
        }
    }

    /// Whoever owns the partition next says how far it is.
    pub(super) fn observe_no_more(&mut self, partition: u32) {
        self.published.remove(&partition);
        for name in [names::LAG_RECORDS, names::LAG_SECONDS, names::WATERMARK_AGE] {
            gauge!(name, "partition" => partition.to_string()).set(0.0);
        }
    }
}
