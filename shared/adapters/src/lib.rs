//! Everything that touches the world. The roles know only the traits in [`ports`]; which
//! implementation stands behind one is the binary's choice.

pub mod clock;
pub mod embedded;
pub mod memory;
pub mod ports;
pub mod retry;
pub mod watermarks;
