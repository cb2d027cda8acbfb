//! Parking and loading signals in the store, and other work of the second hand.

use super::{Worker, names};
use metrics::counter;
use quipu_adapters::ports::{Cache, Consumer, EventStore, Parked, Producer, RollupStore};
use std::collections::BTreeMap;

const PARKED_PAGE: usize = 2_000;

impl<K: Consumer, L: Producer, E: EventStore, R: RollupStore, C: Cache> Worker<K, L, E, R, C> {
    pub(super) async fn keep_house(&mut self) {
        self.observe();
        self.machine.forget_deleted(&self.policy);
        let rows = self.machine.to_park(self.ports.clock.now());
        if self.park(&rows).await {
            self.machine.on_parked(&rows);
        }
        self.machine.make_room(&self.closed);
        self.load_parked().await;
    }

    pub(super) async fn park_overflow(&mut self) {
        let rows = self.machine.overflow();
        if self.park(&rows).await {
            self.machine.on_overflow_parked();
        }
    }

    /// Stores parked rows with the last writes that they stand for. Returns whether all were.
    async fn park(&mut self, rows: &BTreeMap<u32, Vec<Parked>>) -> bool {
        let rollups = &self.ports.stores.rollups;
        for (partition, rows) in rows {
            let writes = rows
                .iter()
                .map(|row| (row.counter.clone(), row.last_write))
                .collect();
            counter!(names::PARKED).increment(rows.len() as u64);
            let noted = rollups.note_writes(writes).await;
            let parked = rollups.park(*partition, rows.clone()).await;
            if let Err(error) = noted.and(parked) {
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
