//! `quipu-bench`: what an event, a call and a counter cost, measured on the release binary of the
//! one-process server, with PostgreSQL beside it in the same run.

mod adds;
mod freshness;
mod gets;
mod http;
mod imports;
mod peers;
mod report;
mod restarts;
mod server;

use clap::{Parser, ValueEnum};
use std::{path::PathBuf, process::ExitCode, time::Duration};

/// Measures the one-process server. Build it first: `cargo build --release`
#[derive(Debug, Parser)]
struct Args {
    /// What to measure, in this order; everything when left out
    #[arg(value_enum)]
    what: Vec<Subject>,
    /// The release binary of the server
    #[arg(long, default_value = "target/release/quipu")]
    quipu: PathBuf,
    /// A disk to measure on; data is made below it and removed afterwards
    #[arg(long, default_value = "target")]
    disk: PathBuf,
    /// How long each load of single calls runs, in seconds
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Rows of the imported file
    #[arg(long, default_value_t = 2_000_000)]
    rows: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Subject {
    /// Import a file; PostgreSQL with the same de-duplication beside it
    Import,
    /// Single adds from 64 clients; PostgreSQL beside it
    Add,
    /// Reads from 32 clients
    Get,
    /// From an acknowledgement until the count is complete, at 10,000 active counters
    Freshness,
    /// Memory with 1,000,000 counters, bytes on disk, and restart with 10,000,000 events
    Scale,
}

fn main() -> ExitCode {
    let args = Args::parse();
    report::start();
    match measure(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quipu-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(args: &Args) -> Result<(), http::Failure> {
    let all = [
        Subject::Import,
        Subject::Add,
        Subject::Get,
        Subject::Freshness,
        Subject::Scale,
    ];
    let subjects = if args.what.is_empty() {
        &all[..]
    } else {
        &args.what[..]
    };
    let lasts = Duration::from_secs(args.seconds);
    for subject in subjects {
        let directory = tempfile::Builder::new()
            .prefix("bench-")
            .tempdir_in(&args.disk)?;
        let place = server::Place {
            quipu: args.quipu.clone(),
            directory: directory.path().into(),
        };
        match subject {
            Subject::Import => imports::measure(&place, args.rows)?,
            Subject::Add => adds::measure(&place, lasts)?,
            Subject::Get => gets::measure(&place, lasts)?,
            Subject::Freshness => freshness::measure(&place, lasts)?,
            Subject::Scale => restarts::measure(&place)?,
        }
    }
    Ok(())
}
