//! The board of watermarks in one process: ingest publishes, rollup workers and gateways read.
//! Between processes, tasks carry what one board shows to the others.

use crate::ports::Committed;
use quipu_core::{time::Micros, watermark::Watermarks};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::watch;

/// The newest watermarks that this process knows of. Cheap to clone; all clones are one board.
#[derive(Clone, Debug)]
pub struct WatermarkBoard {
    watermarks: Arc<watch::Sender<Watermarks>>,
    /// What was published here, with offsets, for whoever carries it to other processes.
    frontiers: Arc<watch::Sender<BTreeMap<u32, Committed>>>,
    /// Where the low watermark stands while it must not move.
    held: Arc<Mutex<Option<Micros>>>,
}

impl WatermarkBoard {
    /// A board that starts from the registered partitions' committed effective times.
    pub fn new(watermarks: Watermarks) -> Self {
        Self {
            watermarks: Arc::new(watch::Sender::new(watermarks)),
            frontiers: Arc::default(),
            held: Arc::default(),
        }
    }

    /// Adds partitions that were registered, each with its initial effective time (R12).
    pub fn register(&self, partitions: impl IntoIterator<Item = (u32, Micros)>) {
        self.watermarks.send_if_modified(|known| {
            let new = partitions
                .into_iter()
                .map(|(id, at)| known.register(id, at));
            new.fold(false, |any, new| any | new)
        });
    }

    /// Stops closing: the low watermark stays where it is until [`Self::release`] (R12). Held
    /// while a partition exists that nobody registered.
    pub fn hold(&self) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.get_or_insert_with(|| self.newest_low());
    }

    /// Goes on closing after [`Self::hold`].
    pub fn release(&self) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.take().is_some() {
            self.watermarks.send_modify(|_| {});
        }
    }

    fn newest_low(&self) -> Micros {
        self.watermarks.borrow().low().unwrap_or(Micros::MIN)
    }

    /// Publishes the frontier that a partition was committed to (R12): its effective time is the
    /// partition's watermark. An older truth changes nothing.
    pub fn publish(&self, partition: u32, frontier: Committed) {
        self.watermarks
            .send_if_modified(|known| known.advance(partition, frontier.effective_time));
        self.frontiers.send_if_modified(|known| {
            let before = known.insert(partition, frontier);
            let newest = before.filter(|before| before.next_offset > frontier.next_offset);
            if let Some(newest) = newest {
                known.insert(partition, newest);
            }
            newest.is_none() && before != Some(frontier)
        });
    }

    /// The low watermark now; [`Micros::MIN`] while nothing may close.
    pub fn low(&self) -> Micros {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.unwrap_or_else(|| self.newest_low())
    }

    /// Follows the board.
    pub fn subscribe(&self) -> watch::Receiver<Watermarks> {
        self.watermarks.subscribe()
    }

    /// Follows the frontiers published here, by partition.
    pub fn frontiers(&self) -> watch::Receiver<BTreeMap<u32, Committed>> {
        self.frontiers.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(next_offset: u64, micros: i64) -> Committed {
        Committed {
            next_offset,
            effective_time: Micros::new(micros),
        }
    }

    #[test]
    fn an_older_truth_changes_nothing() {
        let board = WatermarkBoard::new(Watermarks::new([(0, Micros::new(1))]));
        board.publish(0, at(5, 50));
        board.publish(0, at(4, 40));
        assert_eq!(board.low(), Micros::new(50));
        assert_eq!(board.frontiers().borrow()[&0], at(5, 50));
    }

    #[test]
    fn a_held_board_closes_nothing_until_it_is_released() {
        let board = WatermarkBoard::new(Watermarks::new([(0, Micros::new(1))]));
        board.publish(0, at(1, 10));
        board.hold();
        board.publish(0, at(2, 20));
        assert_eq!(board.low(), Micros::new(10));
        let mut followed = board.subscribe();
        followed.mark_unchanged();
        board.release();
        assert_eq!(board.low(), Micros::new(20));
        assert!(
            followed.has_changed().expect("the board lives"),
            "whoever waits is told"
        );
    }

    #[test]
    fn a_registered_partition_holds_the_low_watermark_at_its_beginning() {
        let board = WatermarkBoard::new(Watermarks::new([(0, Micros::new(90))]));
        board.register([(0, Micros::new(5)), (1, Micros::new(30))]);
        assert_eq!(board.low(), Micros::new(30));
    }
}
