//! Processes that are watched, signalled and ended.

use quipu_certify::Failure;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;

/// Sends a signal to a process.
pub(super) fn tell(process: u32, signal: Signal) -> Result<(), Failure> {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| Failure::new(format!("{process} is no number of a process")))?;
    kill_process(pid, signal)
        .map_err(|error| Failure::new(format!("process {process} cannot be signalled: {error}")))
}

/// Whether a process is there, and no mere remainder that its parent has not taken notice of.
pub(super) fn is_alive(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The command's name, in parentheses, may hold anything; the state follows.
    let state = stat.rsplit(')').next().unwrap_or_default().trim_start();
    !state.is_empty() && !state.starts_with('Z')
}

/// A process that stands still: it goes on when this is dropped, whatever happened meanwhile.
pub(super) struct Frozen(u32);

impl Frozen {
    pub(super) fn new(process: u32) -> Result<Self, Failure> {
        tell(process, Signal::STOP)?;
        Ok(Self(process))
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        if let Err(error) = tell(self.0, Signal::CONT) {
            eprintln!("quipu-faults: {error}");
        }
    }
}

/// A line of `/proc/PID/status`, in bytes; nothing of a process that is gone.
pub(super) fn memory(process: u32, field: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kib = line.trim_start_matches(':').trim().split(' ').next()?;
    kib.parse::<u64>().ok().map(|kib| kib * 1_024)
}
