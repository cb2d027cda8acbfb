//! Imports of files: every row is counted exactly once, whatever is killed when.
//!
//! A thread reads the file into blocks of adds; one task notes in the journal what it is about to
//! send, sends it, and notes what was confirmed. What must be sent is decided in [`plan`] alone,
//! which does no IO.

pub(crate) mod block;
pub(crate) mod identity;
pub(crate) mod journal;
pub(crate) mod plan;
pub(crate) mod progress;
pub(crate) mod reader;
pub(crate) mod report;
pub(crate) mod send;
pub(crate) mod settle;
pub(crate) mod source;
pub(crate) mod stopped;
pub(crate) mod target;
pub(crate) mod template;
mod window;

#[cfg(test)]
mod plan_tests;
