//! The binary against a server that answers as a script says.

mod config;
mod import;
mod reads;
mod server;
mod verbs;

use std::{
    path::Path,
    process::{Command, Output},
};

/// The binary, for a server.
pub(crate) fn quipu(server: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
    command
        .args(arguments)
        .env("QUIPU_SERVER", server)
        .env_remove("QUIPU_LOG");
    command
}

/// Its exit code and what it said.
pub(crate) fn ended(output: &Output) -> (i32, String) {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    (
        output.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

/// The January flights, with their true counts in the README beside them.
pub(crate) fn flights() -> &'static Path {
    Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../tests/data/flights-2013-01.csv.gz"
    ))
}
