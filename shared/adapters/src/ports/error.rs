//! Store errors, told apart by what the caller does about them.

use quipu_core::slice::SliceId;

/// A store could not do what was asked. A failed read is an error, never "no events" (R15).
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// Try again: the store could not be reached, was overloaded, or timed out. A write may or
    /// may not have been applied.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// Wait and try again: the slice exists or will, but is not visible here yet (R19).
    #[error("time slice {0:?} is not ready yet")]
    SliceNotReady(SliceId),
    /// Stop: what is stored contradicts an invariant or cannot be read.
    #[error("the store is damaged: {0}")]
    Damaged(String),
}
