//! The client of a Quipu server: what an answer means, when to ask again, and with which token.
//!
//! It knows nothing of commands, files or terminals.

pub(crate) mod connection;
pub(crate) mod http;
pub(crate) mod retry;
pub(crate) mod token;
pub(crate) mod verdict;
