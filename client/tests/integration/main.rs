//! The client against a server that answers as a script says, and against the real one.

mod batcher;
mod calls;
mod hedges;
#[cfg(feature = "kafka")]
mod kafka;
mod kinds;
mod reads;
mod scripted;
mod server;
mod stream;
