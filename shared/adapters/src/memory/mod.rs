//! Everything in memory, for tests and the simulator. Each file says at its head which faults it
//! can show and which it cannot.

mod cache;
mod event_store;
mod log;
mod rollup_store;

pub use cache::MemoryCache;
pub use event_store::MemoryEventStore;
pub use log::{MemoryConsumer, MemoryLog};
pub use rollup_store::MemoryRollupStore;

use std::sync::{Mutex, MutexGuard, PoisonError};

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
