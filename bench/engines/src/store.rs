//! The event store: fill it, then open it again.

use std::path::Path;
use std::time::Instant;

use clap::Args;

use crate::engine::{self, Kind, Outcome, Settings};
use crate::measure;
use crate::rows::{self, Rng, Rows};

#[derive(Args)]
pub(crate) struct Fill {
    #[arg(long, default_value_t = 5_000_000)]
    rows: u64,
    #[arg(long, default_value_t = 5_000)]
    batch: u64,
    #[arg(long, default_value_t = 10_000)]
    counters: u64,
    /// Stop as a crash would, without closing
    #[arg(long)]
    crash: bool,
}

pub(crate) fn write(kind: Kind, dir: &Path, settings: &Settings, fill: &Fill) -> Outcome<()> {
    let engine = engine::open(kind, dir, settings)?;
    let mut rows = Rows::new(fill.counters);
    let mut commits = Vec::new();
    let (start, cpu) = (Instant::now(), measure::cpu()?);
    for _ in 0..fill.rows / fill.batch {
        let batch = rows.batch(fill.batch);
        let begun = Instant::now();
        engine.put_all(batch)?;
        commits.push(begun.elapsed());
    }
    let elapsed = start.elapsed();
    println!(
        "write: {} rows/s, commit {}, peak {} MiB",
        u128::from(fill.rows) * 1000 / elapsed.as_millis().max(1),
        measure::percentiles(commits),
        measure::peak_memory_mb()?
    );
    if fill.crash {
        std::process::abort();
    }
    let unsettled = measure::disk_bytes(dir)?;
    engine.settle()?;
    let used = measure::cpu()?.saturating_sub(cpu);
    println!(
        "settled after {} s: cpu {} ns/row",
        start.elapsed().as_secs(),
        used.as_nanos() / u128::from(fill.rows)
    );
    drop(engine);
    println!(
        "disk: {} B/row before settling, {} after closing",
        unsettled / fill.rows,
        measure::disk_bytes(dir)? / fill.rows
    );
    Ok(())
}

pub(crate) fn read(kind: Kind, dir: &Path, settings: &Settings, counters: u64) -> Outcome<()> {
    measure::evict(dir)?;
    let start = Instant::now();
    let engine = engine::open(kind, dir, settings)?;
    println!("open: {} ms", start.elapsed().as_millis());
    let early = Rows::new(counters).batch(1000);
    let mut rng = Rng(7);
    let picks: Vec<u64> = (0..1000).map(|_| rng.below(counters)).collect();
    for pass in ["cold", "warm"] {
        let (mut gets, mut scans, mut found) = (Vec::new(), Vec::new(), 0);
        for (key, _) in &early {
            let begun = Instant::now();
            if !engine.get(key)? {
                return Err("a key that was written is missing".into());
            }
            gets.push(begun.elapsed());
        }
        for &counter in &picks {
            let begun = Instant::now();
            found += engine.scan(&rows::counter_prefix(counter))?;
            scans.push(begun.elapsed());
        }
        println!("{pass} get: {}", measure::percentiles(gets));
        println!(
            "{pass} scan of {found} rows: {}",
            measure::percentiles(scans)
        );
    }
    println!("peak {} MiB", measure::peak_memory_mb()?);
    Ok(())
}
