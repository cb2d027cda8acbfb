//! What the kernel says about this process and its directory.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Advice, fadvise};

use crate::engine::Outcome;

/// User and system time of the whole process.
pub(crate) fn cpu() -> Outcome<Duration> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let after_name = stat.rsplit_once(')').ok_or("unexpected stat line")?.1;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    Ok(Duration::from_micros(
        ticks * 1_000_000 / rustix::param::clock_ticks_per_second(),
    ))
}

/// Peak resident memory, in MiB.
pub(crate) fn peak_memory_mb() -> Outcome<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let field = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(field.ok_or("no VmHWM")?.parse::<u64>()? / 1024)
}

/// Bytes allocated on disk under a directory: a sparse file counts only what it holds.
pub(crate) fn disk_bytes(dir: &Path) -> Outcome<u64> {
    use std::os::unix::fs::MetadataExt;
    walk(dir, &|path| Ok(fs::metadata(path)?.blocks() * 512))
}

/// Drops the directory's files from the page cache, so that reads come from the disk.
pub(crate) fn evict(dir: &Path) -> Outcome<()> {
    walk(dir, &|path| {
        let file = fs::File::open(path)?;
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
        Ok(0)
    })?;
    Ok(())
}

fn walk(dir: &Path, visit: &dyn Fn(&Path) -> Outcome<u64>) -> Outcome<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        sum += if path.is_dir() {
            walk(&path, visit)?
        } else {
            visit(&path)?
        };
    }
    Ok(sum)
}

/// "p50 12 p99 34 max 56 us"
pub(crate) fn percentiles(mut samples: Vec<Duration>) -> String {
    samples.sort_unstable();
    let at = |percent: usize| {
        let index = (samples.len() * percent / 100).min(samples.len().saturating_sub(1));
        samples.get(index).map_or(0, Duration::as_micros)
    };
    format!("p50 {} p99 {} max {} us", at(50), at(99), at(100))
}
