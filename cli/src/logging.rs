//! Logs, on standard error.

use quipu_adapters::config::{LogFormat, TelemetrySection};
use std::{
    env,
    io::{self, IsTerminal},
};
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

/// The libraries of which only warnings concern anybody: they tell of every file and connection.
const QUIET: &str = "fjall=warn,lsm_tree=warn,fred=off,scylla=off,rdkafka=warn,librdkafka=warn";

/// Starts the log of a command that has no configuration.
pub(crate) fn start(level: LevelFilter) {
    let section = TelemetrySection {
        log: level.to_string(),
        ..TelemetrySection::default()
    };
    start_as(&section, 0);
}

/// Starts the log of a role. `verbose` counts how often more was asked for on the command line.
pub(crate) fn start_as(section: &TelemetrySection, verbose: u8) {
    let log = match verbose {
        0 => section.log.as_str(),
        _ => "debug",
    };
    let default = format!("{QUIET},{log}");
    let filter = env::var("QUIPU_LOG").unwrap_or(default);
    let builder = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::builder().parse_lossy(filter))
        .with_writer(io::stderr)
        // A file or a pipe would get the colours as bytes.
        .with_ansi(io::stderr().is_terminal());
    match section.log_format {
        LogFormat::Text => builder.compact().init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
}
