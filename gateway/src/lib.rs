//! The gateway role: the calls that clients make, over HTTP/JSON and gRPC, on one port.
//!
//! What is ACCEPTED is decided by the log's own append time, with the same horizon as ingest's
//! (R4, R7). [`machine`] decides, without IO; [`Gateway`] drives it over the ports; `http` and
//! `grpc` only translate.
//!
//! Must not know: how events are stored, how counts are rolled up, and which logs and stores stand
//! behind the ports.

mod best_effort;
mod call;
pub mod failure;
mod gateway;
mod grpc;
mod http;
pub mod machine;
mod metrics;
mod mutate;
mod namespaces;
mod read;
pub mod router;
pub mod serve;
mod signals;

use quipu_adapters::metrics::gateway as names;

pub use call::{
    Applied, Count, EventToken, MAX_BATCH_ITEMS, MAX_BODY_BYTES, MutationRequest, Status,
    TokenRequest,
};
pub use failure::Failure;
pub use gateway::{Gateway, Ports, Settings};
pub use read::EventOutcome;
pub use router::{Probes, router};
pub use serve::{Limits, serve};

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
