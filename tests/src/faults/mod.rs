//! The fault suite: the roles as processes on a real Kafka, Cassandra and Redis, which are killed,
//! frozen and lied to while a producer keeps a ledger.

mod case;
mod cases;
mod chaos;
mod leftovers;
mod memory;
mod processes;
mod proxy;
mod roles;
mod run;
mod stack;

pub use case::{Action, Case, Step, Target};
pub use cases::all;
pub use run::{Options, run};
pub use stack::{Addresses, Stack};
