//! The log: group commits, alone and next to a busy event store.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;

use crate::engine::{self, Engine, Kind, Outcome, Settings};
use crate::lsm::{self, Fjall};
use crate::measure;
use crate::rows::{self, Rng, Rows};

#[derive(Args)]
pub(crate) struct Contention {
    /// Keep the log in the event store's database (one journal) instead of its own
    #[arg(long)]
    shared: bool,
    #[arg(long, default_value_t = 10_000)]
    commits: u64,
    /// Most rows the event store takes per second (0: as many as it can)
    #[arg(long, default_value_t = 0)]
    rows_per_second: u64,
}

pub(crate) fn log(kind: Kind, dir: &Path, settings: &Settings, commits: u64) -> Outcome<()> {
    let engine = engine::open(kind, dir, settings)?;
    append(engine.as_ref(), commits)?;
    engine.settle()?;
    drop(engine);
    println!("disk: {} B/commit", measure::disk_bytes(dir)? / commits);
    Ok(())
}

pub(crate) fn contend(dir: &Path, settings: &Settings, how: &Contention) -> Outcome<()> {
    let store_db = lsm::open(&dir.join("store"), settings)?;
    let store = Fjall::new(&store_db, "rows", settings)?;
    let mut log_settings = settings.clone();
    log_settings.no_sync = false;
    let log_db = if how.shared {
        store_db
    } else {
        lsm::open(&dir.join("log"), settings)?
    };
    let log = Fjall::new(&log_db, "log", &log_settings)?;
    let (stop, stored) = (AtomicBool::new(false), AtomicU64::new(0));
    let start = Instant::now();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| -> Outcome<()> {
            let mut rows = Rows::new(10_000);
            while !stop.load(Ordering::Relaxed) {
                store.put_all(rows.batch(5_000))?;
                let total = stored.fetch_add(5_000, Ordering::Relaxed) + 5_000;
                if let Some(due_ms) = (total * 1000).checked_div(how.rows_per_second) {
                    let due = Duration::from_millis(due_ms);
                    std::thread::sleep(due.saturating_sub(start.elapsed()));
                }
            }
            Ok(())
        });
        let appended = append(&log, how.commits);
        stop.store(true, Ordering::Relaxed);
        appended.and(writer.join().map_err(|_| "the store's writer panicked")?)
    })?;
    let millis = start.elapsed().as_millis().max(1);
    println!(
        "store: {} rows/s",
        u128::from(stored.into_inner()) * 1000 / millis
    );
    Ok(())
}

fn append(log: &dyn Engine, commits: u64) -> Outcome<()> {
    let mut rng = Rng(11);
    let mut latencies = Vec::new();
    let start = Instant::now();
    for commit in 0..commits {
        let record = rows::log_record(&mut rng, commit * 64);
        let begun = Instant::now();
        log.put_all(vec![record])?;
        latencies.push(begun.elapsed());
    }
    println!(
        "log: {} commits/s, {}, peak {} MiB",
        u128::from(commits) * 1000 / start.elapsed().as_millis().max(1),
        measure::percentiles(latencies),
        measure::peak_memory_mb()?
    );
    Ok(())
}
