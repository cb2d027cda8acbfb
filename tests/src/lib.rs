//! What the tests of the whole share.

#[cfg(feature = "cluster")]
pub mod faults;
pub mod sim;
