//! Parking and loading signals in the store, and other work of the second hand.

use super::{Worker, names};
use metrics::counter;
use quipu_adapters::ports::{Cache, Consumer, EventStore, Parked, Producer, RollupStore};
use std::collections::BTreeMap;

const PARKED_PAGE: usize = 2_000;
/// Signals over the memory budget that may wait for the store to take them.
const MOST_OVERFLOW: usize = 10_000;

impl<K: Consumer, L: Producer, E: EventStore, R: RollupStore, C: Cache> Worker<K, L, E, R, C> {
    pub(super) async fn keep_house(&mut self) {
        self.observe();
        self.machine.forget_deleted(&self.policy);
        self.park_overdue().await;
        self.park_overflow().await;
        self.machine.make_room(&self.closed);
        self.load_parked().await;
    }

    /// Parks what waits for long, and notes in the counters' own rows what they wait for.
    async fn park_overdue(&mut self) {
        let rows = self.machine.to_park(self.ports.clock.now());
        if rows.is_empty() {
            return;
        }
        let waiting = rows.values().flatten();
        let writes = waiting.map(|row| (row.counter.clone(), row.last_write));
        let noted = self.ports.stores.rollups.note_writes(writes.collect());
        if let Err(error) = noted.await {
            self.troubles.park.failed(&error);
        } else if self.park(&rows).await {
            self.machine.on_parked(&rows);
        }
    }

    /// Parks what memory has no room for. While that fails no more is read: a store that is away
    /// must not make memory grow.
    pub(super) async fn park_overflow(&mut self) {
        let rows = self.machine.overflow();
        if self.park(&rows).await {
            self.machine.on_overflow_parked();
        }
        let holds = self.machine.overflow_len() > MOST_OVERFLOW;
        if holds || self.holds_signals {
            for (partition, _) in self.machine.committed() {
                if holds {
                    self.consumer.pause(partition);
                } else {
                    self.consumer.resume(partition);
                }
            }
        }
        self.holds_signals = holds;
    }

    /// Stores parked rows. Returns whether all were.
    async fn park(&mut self, rows: &BTreeMap<u32, Vec<Parked>>) -> bool {
        let rollups = &self.ports.stores.rollups;
        for (partition, rows) in rows {
            counter!(names::PARKED).increment(rows.len() as u64);
            if let Err(error) = rollups.park(*partition, rows.clone()).await {
                self.troubles.park.failed(&error);
                return false;
            }
            self.troubles.park.succeeded();
        }
        true
    }

    pub(super) async fn load_parked(&mut self) {
        while let Some((partition, after)) = self.machine.parked_to_load() {
            let rollups = &self.ports.stores.rollups;
            match rollups.parked(partition, after.as_ref(), PARKED_PAGE).await {
                Ok(rows) => {
                    self.troubles.load.succeeded();
                    self.machine.on_parked_loaded(partition, &rows, PARKED_PAGE);
                }
                Err(error) => {
                    self.troubles.load.failed(&error);
                    return;
                }
            }
            self.look_for_ripe = true;
        }
    }
}
