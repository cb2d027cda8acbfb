//! What the worker says of how far it has come.

use super::{Worker, names};
use metrics::gauge;
use quipu_adapters::{
    ends::Offsets,
    ports::{Cache, Consumer, EventStore, Producer, RollupStore},
};

impl<K: Consumer, L: Producer, E: EventStore, R: RollupStore, C: Cache> Worker<K, L, E, R, C> {
    pub(super) fn observe(&mut self) {
        let waiting = u32::try_from(self.machine.pending()).unwrap_or(u32::MAX);
        gauge!(names::PENDING).set(f64::from(waiting));
        gauge!(names::OLDEST_PENDING).set(self.machine.longest_wait(&self.closed).as_secs_f64());
        let low = self.ports.watermarks.low();
        let age = self.ports.clock.now().since(low);
        gauge!(names::LOW_WATERMARK_AGE).set(age.as_secs_f64());
        self.ends.ask(&self.consumer);
    }

    #[expect(clippy::cast_precision_loss, reason = "a rounded lag says the same")]
    pub(super) fn on_ends(&mut self, ends: &Offsets) {
        for (partition, committed) in self.machine.committed() {
            let Some(end) = ends.get(&partition) else {
                continue;
            };
            let lag = end.saturating_sub(committed);
            gauge!(names::LAG_RECORDS, "partition" => partition.to_string()).set(lag as f64);
        }
    }
}
