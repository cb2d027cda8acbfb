//! The gateway role: the calls that clients make, over HTTP/JSON and gRPC, on one port.
//!
//! What is ACCEPTED is decided by the log's own append time, with the same horizon as ingest's
//! (R4, R7). [`machine`] decides, without IO; [`Gateway`] drives it over the ports, one
//! for each cluster that is [`Served`]; `http` and `grpc` only translate.
//!
//! Must not know: how events are stored, how counts are rolled up, and which logs and stores stand
//! behind the ports.

pub mod accurate;
mod add_and_get;
pub mod auth;
mod batch_get;
mod best_effort;
mod call;
mod clusters;
pub mod deadline;
pub mod failure;
mod freshness;
mod gateway;
mod grpc;
mod http;
mod list;
pub mod machine;
mod metrics;
mod mutate;
mod namespaces;
mod quota;
mod read;
pub mod reload;
pub mod router;
pub mod serve;
mod served;
mod signals;
pub mod tls;

use quipu_adapters::metrics::gateway as names;

pub use accurate::ScanBounds;
pub use auth::{Access, authenticated};
pub use call::{
    AddedCount, Applied, Count, EventToken, MAX_BATCH_ITEMS, MAX_BODY_BYTES, MutationRequest,
    Status, TokenRequest,
};
pub use deadline::Deadline;
pub use failure::Failure;
pub use gateway::{Gateway, Ports, Settings};
pub use list::{Counters, MAX_PAGE_SIZE};
pub use read::EventOutcome;
pub use router::{Probes, router};
pub use serve::{Limits, serve};
pub use served::{Members, Served};
pub use tls::Transport;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
