//! A deterministic simulator of the production machines.
//!
//! One seeded loop polls one process at a time and strikes with faults in between; time is a
//! number. The processes run the production code: ingest's machine and `make_durable`, the rollup
//! machine, `aggregate` and the sweep, and the gateway's decisions. The world round them is
//! simulated, and each part of it states its fault model. After every effect the invariants of
//! the exactness rules are checked against the log itself.

mod appends;
mod bug;
mod client;
mod consumer;
mod faults;
mod growth;
mod ingest;
mod oracle;
mod plan;
mod port;
mod reads;
mod rng;
mod schedule;
mod trace;
mod verdict;
mod worker;
mod world;

pub use bug::Bug;
pub use plan::Plan;
pub use schedule::{Outcome, run};
