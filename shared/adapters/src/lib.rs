//! Everything that touches the world. The roles know only the traits in [`ports`]; which
//! implementation stands behind one is the binary's choice.

pub mod background;
#[cfg(feature = "cluster")]
pub mod cassandra;
pub mod clock;
pub mod commits;
pub mod config;
pub mod embedded;
pub mod ends;
#[cfg(feature = "cluster")]
pub mod finding;
#[cfg(feature = "cluster")]
pub mod kafka;
pub mod listing;
pub mod memory;
pub mod metered;
pub mod metrics;
pub mod ports;
#[cfg(feature = "cluster")]
pub mod redis;
pub mod retry;
pub mod starts;
pub mod watermarks;
