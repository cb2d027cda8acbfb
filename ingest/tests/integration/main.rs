//! The whole role on a real node, under clocks that do what clocks do.

mod acknowledged;
mod brokers;
mod capped;
mod clock;
mod downtime;
mod failing;
mod fixtures;
mod handover;
