//! The cache of checkpoints that reads are answered from.

use super::StoreError;
use quipu_core::{checkpoint::Checkpoint, event::CounterKey};

/// A cache that may lose anything at any time, and never goes back.
pub trait Cache: Clone + Send + Sync + 'static {
    /// The cached checkpoint of a counter, if there is one.
    fn get(
        &self,
        counter: &CounterKey,
    ) -> impl Future<Output = Result<Option<Checkpoint>, StoreError>> + Send;

    /// Sets checkpoints that supersede what is cached, each in one atomic step (R15).
    fn set_if_newer(
        &self,
        checkpoints: Vec<(CounterKey, Checkpoint)>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
}
