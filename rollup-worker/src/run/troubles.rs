//! What is tried again every second or more often: of failures that go on, few are told.

use quipu_adapters::retry::Backoff;

#[derive(Debug)]
pub(super) struct Troubles {
    pub(super) sync: Backoff,
    pub(super) park: Backoff,
    pub(super) load: Backoff,
}

impl Default for Troubles {
    fn default() -> Self {
        Self {
            sync: Backoff::new("make checkpoints durable"),
            park: Backoff::new("park signals"),
            load: Backoff::new("load parked signals"),
        }
    }
}
