//! Whole processes: the binary that users run, killed and stopped and fed with anything.

mod bad_input;
mod best_effort;
mod client;
#[cfg(feature = "cluster")]
mod cluster;
mod crash;
mod deploy;
mod docs;
mod files;
mod fuzz;
mod http;
mod import;
mod judge;
mod ledger;
mod modes;
mod namespaces;
mod observed;
mod openapi;
mod policy;
mod process;
mod python;
mod security;
mod serve;
mod stack;
