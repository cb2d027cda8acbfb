//! What each command does, from its arguments to its exit code.

pub(crate) mod cluster;
pub(crate) mod config;
pub(crate) mod connect;
mod documents;
pub(crate) mod exit;
pub(crate) mod get;
pub(crate) mod import;
pub(crate) mod key;
pub(crate) mod list;
pub(crate) mod mutate;
pub(crate) mod namespace;

use std::{fmt::Display, io};

/// Prints to standard output, which may be a pipe that was closed.
pub(crate) fn print(text: &impl Display) -> Result<(), exit::Failed> {
    use io::Write;
    writeln!(io::stdout(), "{text}").map_err(|error| {
        exit::Failed::new(
            exit::Exit::Internal,
            format!("cannot write to standard output: {error}"),
        )
    })
}
