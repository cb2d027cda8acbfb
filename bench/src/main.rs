//! `quipu-bench`: what an event, a call and a counter cost, measured on the release binary, with a
//! peer beside it in the same run.

mod adds;
#[cfg(feature = "cluster")]
mod cluster;
mod freshness;
mod gets;
mod http;
mod imports;
mod peers;
mod process;
mod report;
mod restarts;
mod server;

use clap::{Parser, ValueEnum};
use std::{path::PathBuf, process::ExitCode, time::Duration};

/// Measures the one-process server, or the distributed system. Build what is measured first:
/// `cargo build --release`, with `--features cluster` for the distributed system
#[derive(Debug, Parser)]
struct Args {
    /// What to measure, in this order; everything of the one-process server when left out
    #[arg(value_enum)]
    what: Vec<Subject>,
    /// The release binary of the server
    #[arg(long, default_value = "target/release/quipu")]
    quipu: PathBuf,
    /// A disk to measure on; data is made below it and removed afterwards
    #[arg(long, default_value = "target")]
    disk: PathBuf,
    /// How long each load of single calls runs, or each outage lasts, in seconds; 10 or 600 when
    /// left out
    #[arg(long)]
    seconds: Option<u64>,
    /// Rows of the imported file
    #[arg(long, default_value_t = 2_000_000)]
    rows: u64,
    /// Events that are drained
    #[cfg(feature = "cluster")]
    #[arg(long, default_value_t = 2_000_000)]
    events: u64,
    /// The directory of a stack that runs already, as given to `scripts/stack --dir`; left out, one
    /// is started for the measurement and ended after it
    #[cfg(feature = "cluster")]
    #[arg(long)]
    stack: Option<PathBuf>,
    /// What runs beside the gateway while calls of the API are measured
    #[cfg(feature = "cluster")]
    #[arg(long, value_enum, default_value_t = cluster::Beside::Nothing)]
    beside: cluster::Beside,
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
    /// Events that wait in Kafka, until they are durable and until all counts are exact; counter
    /// columns of Cassandra beside it
    #[cfg(feature = "cluster")]
    Drain,
    /// Calls of a gateway over gRPC: reads, single adds, batches, streams and best-effort adds, as
    /// many as are answered and at a rate; Redis, Cassandra and Kafka beside it
    #[cfg(feature = "cluster")]
    Api,
    /// From an acknowledgement until the count is complete, in the distributed system
    #[cfg(feature = "cluster")]
    ClusterFreshness,
    /// Memory under load while Redis, Cassandra or Kafka hangs, each in turn, and whether every
    /// count is right afterwards
    #[cfg(feature = "cluster")]
    Outage,
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
    let lasts = Duration::from_secs(args.seconds.unwrap_or(10));
    #[cfg(feature = "cluster")]
    let cluster = || cluster::Cluster::new(args.quipu.clone(), args.stack.as_deref(), &args.disk);
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
            #[cfg(feature = "cluster")]
            Subject::Drain => {
                let cluster = cluster()?;
                for shape in cluster::SHAPES {
                    cluster.drain(args.events, shape)?;
                }
            }
            #[cfg(feature = "cluster")]
            Subject::Api => cluster()?.api(lasts, args.beside)?,
            #[cfg(feature = "cluster")]
            Subject::ClusterFreshness => cluster()?.freshness(lasts)?,
            #[cfg(feature = "cluster")]
            Subject::Outage => {
                cluster()?.outages(Duration::from_secs(args.seconds.unwrap_or(600)))?;
            }
        }
    }
    Ok(())
}
