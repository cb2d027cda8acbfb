//! The board of watermarks in one process: ingest publishes, rollup workers and gateways read.

use quipu_core::{time::Micros, watermark::Watermarks};
use std::sync::Arc;
use tokio::sync::watch;

/// The newest watermarks that this process knows of. Cheap to clone; all clones are one board.
#[derive(Clone, Debug)]
pub struct WatermarkBoard {
    watermarks: Arc<watch::Sender<Watermarks>>,
}

impl WatermarkBoard {
    /// A board that starts from the registered partitions' committed effective times.
    pub fn new(watermarks: Watermarks) -> Self {
        Self {
            watermarks: Arc::new(watch::Sender::new(watermarks)),
        }
    }

    /// Publishes a partition's watermark (R12). An older truth changes nothing.
    pub fn publish(&self, partition: u32, watermark: Micros) {
        self.watermarks
            .send_if_modified(|known| known.advance(partition, watermark));
    }

    /// The low watermark now; [`Micros::MIN`] while nothing may close.
    pub fn low(&self) -> Micros {
        self.watermarks.borrow().low().unwrap_or(Micros::MIN)
    }

    /// Follows the board.
    pub fn subscribe(&self) -> watch::Receiver<Watermarks> {
        self.watermarks.subscribe()
    }
}
