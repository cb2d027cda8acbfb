//! Compares `fjall` and `redb` on the two write patterns of Quipu's one-process mode.
//!
//! `write` fills an event store, `read` opens it again in a fresh process, `log` measures
//! group commit, and `contend` measures it next to a busy event store.

mod btree;
mod engine;
mod log;
mod lsm;
mod measure;
mod rows;
mod store;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use engine::{Kind, Outcome, Settings};
use log::Contention;
use store::Fill;

#[derive(Parser)]
struct Cli {
    /// Directory the engine keeps its files in
    #[arg(long, global = true, default_value = "engines-data")]
    dir: PathBuf,
    #[command(flatten)]
    settings: Settings,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Insert events in synced batches
    Write {
        #[arg(long)]
        engine: Kind,
        #[command(flatten)]
        fill: Fill,
    },
    /// Open what `write` left, from a cold page cache, then scan and get
    Read {
        #[arg(long)]
        engine: Kind,
        #[arg(long, default_value_t = 10_000)]
        counters: u64,
    },
    /// Group commit: one key per 64 records, synced
    Log {
        #[arg(long)]
        engine: Kind,
        #[arg(long, default_value_t = 10_000)]
        commits: u64,
    },
    /// fjall: the log while an event store is written to
    Contend(Contention),
}

fn main() -> Outcome<()> {
    let Cli {
        dir,
        settings,
        command,
    } = Cli::parse();
    match command {
        Command::Write { engine, fill } => store::write(engine, &dir, &settings, &fill),
        Command::Read { engine, counters } => store::read(engine, &dir, &settings, counters),
        Command::Log { engine, commits } => log::log(engine, &dir, &settings, commits),
        Command::Contend(how) => log::contend(&dir, &settings, &how),
    }
}
