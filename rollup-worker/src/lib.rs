//! The rollup role: coalesces signals into a set of counters, aggregates their closed windows in
//! dynamic batches, writes checkpoints to the rollup store and then the cache, and heals by a
//! sweep whatever no signal told it.
//!
//! Must not know: how events are accepted or written, and which stores stand behind the ports.

pub mod aggregate;
pub mod machine;
pub mod pending;
mod run;
pub mod sweep;

use quipu_adapters::metrics::rollup as names;

pub use run::{Ports, RollupError, Settings, run};
