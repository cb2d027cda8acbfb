//! What a process has used, as the system tells.

use std::{fs, io, time::Duration};

/// CPU time of all threads of a process so far, in user and kernel mode.
pub(crate) fn cpu(id: u32) -> io::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat"))?;
    // The command's name, in parentheses, may hold spaces; utime and stime are the 14th and
    // 15th field, the 12th and 13th behind it, in ticks of 10 ms.
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
    let total = ticks(11).zip(ticks(12)).map(|(user, system)| user + system);
    let total = total.ok_or_else(|| io::Error::other("cannot read /proc/PID/stat"))?;
    Ok(Duration::from_millis(total * 10))
}

/// A line of `/proc/PID/status`, in MiB.
pub(crate) fn memory(id: u32, field: &str) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|rest| rest.trim_start_matches(':').trim().split(' ').next());
    let kib = kib.and_then(|kib| kib.parse::<u64>().ok());
    kib.map(|kib| kib / 1024)
        .ok_or_else(|| io::Error::other(format!("no {field} in status")))
}
