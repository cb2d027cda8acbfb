//! The domain of Quipu as pure functions and small state machines.
//!
//! Nothing here does IO, reads a clock or draws a random number: time comes in as a value, so
//! that production, the simulator and a replay decide alike. Rules are cited by their numbers
//! in `docs/exactness.md` (R1, R2, …).

pub mod acknowledge;
pub mod aggregate;
pub mod batch;
pub mod caps;
pub mod checkpoint;
pub mod clock_guard;
pub mod effective;
pub mod event;
pub mod key;
pub mod ledger;
pub mod marks;
pub mod name;
pub mod policy;
pub mod pressure;
pub mod quota;
pub mod slice;
pub mod time;
pub mod watermark;
pub mod window;
