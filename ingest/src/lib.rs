//! The ingest role: reads the events topic, decides every record, stores what is accepted,
//! dead-letters what is not, signals the counters, and only then commits and moves the watermark.
//!
//! Must not know: how counts are rolled up or read, and which stores stand behind the ports.

pub mod batch;
pub mod machine;
mod process;
pub mod refusals;
mod run;
pub mod ticks;

use quipu_adapters::metrics::ingest as names;

pub use process::{IngestError, Processed, make_durable};
pub use run::{Ports, Settings, run};
