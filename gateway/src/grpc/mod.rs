//! gRPC: the same calls, with google.rpc.Status and its details.

mod add_stream;
mod convert;
mod flow;
mod health;
mod service;
mod status;

pub(crate) use health::Probe;
pub(crate) use service::CounterService;
pub(crate) use status::status;
