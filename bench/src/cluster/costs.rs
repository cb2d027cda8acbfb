//! What processes use between two moments.

use super::{installation::Installation, stack::Stack};
use crate::{
    http::{Failure, own_cpu},
    process, report,
    server::Server,
};
use std::{pin::pin, time::Duration};

/// The processes whose CPU time is counted.
pub(super) struct Processes(Vec<(&'static str, u32)>);

/// CPU time of each process so far, and of this one at the end.
pub(super) struct Moment(Vec<Duration>);

/// What a role may use at the most.
const MEMORY_TARGET: &str = "256 MiB";

impl Processes {
    /// The servers of a stack, and roles.
    pub(super) fn of(
        installation: &Installation<'_>,
        roles: &[(&'static str, &Server)],
    ) -> Result<Self, Failure> {
        let stack: &Stack = installation.stack;
        let mut all = stack.processes()?;
        all.extend(roles.iter().map(|(name, role)| (*name, role.id())));
        Ok(Self(all))
    }

    /// What they have used so far.
    pub(super) fn now(&self) -> Result<Moment, Failure> {
        let mut used = Vec::with_capacity(self.0.len() + 1);
        for (name, id) in &self.0 {
            let cpu = process::cpu(*id).map_err(|error| format!("{name} ended: {error}"))?;
            used.push(cpu);
        }
        used.push(own_cpu());
        Ok(Moment(used))
    }

    /// Prints what each used between two moments for each of `count` things.
    pub(super) fn report(&self, what: &str, moments: (&Moment, &Moment), count: u64) {
        let (before, after) = moments;
        let names = self.0.iter().map(|(name, _)| *name).chain(["this bench"]);
        for ((name, before), after) in names.zip(&before.0).zip(&after.0) {
            let used = after.saturating_sub(*before);
            report::cpu(&format!("CPU, {what}, {name}"), used, count);
        }
    }
}

/// Prints the peak memory of roles.
pub(super) fn report_memory(roles: &[(&'static str, &Server)]) -> Result<(), Failure> {
    for (name, role) in roles {
        let peak = format!("{} MiB", role.memory("VmHWM")?);
        let target = format!("< {MEMORY_TARGET}");
        report::figure(&format!("peak memory, {name}"), &peak, &target);
    }
    Ok(())
}

/// The most memory that each role is seen to use, once a second, while something goes on; and what
/// came of that.
pub(super) async fn peaks_while<T>(
    roles: &[(&'static str, &Server)],
    work: impl Future<Output = T>,
) -> Result<(T, Vec<u64>), Failure> {
    let mut work = pin!(work);
    let mut peaks = vec![0; roles.len()];
    let mut pace = tokio::time::interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            done = &mut work => return Ok((done, peaks)),
            _ = pace.tick() => {
                for (peak, (name, role)) in peaks.iter_mut().zip(roles) {
                    let now = role.memory("VmRSS");
                    *peak = now.map_err(|error| format!("{name} ended: {error}"))?.max(*peak);
                }
            }
        }
    }
}

/// Prints the peaks of one stretch after another.
pub(super) fn report_peaks(
    roles: &[(&'static str, &Server)],
    stretches: &[(&'static str, Vec<u64>)],
) {
    for (at, (name, _)) in roles.iter().enumerate() {
        for (stretch, peaks) in stretches {
            let peak = format!("{} MiB", peaks[at]);
            let target = format!("< {MEMORY_TARGET}");
            report::figure(&format!("peak memory {stretch}, {name}"), &peak, &target);
        }
    }
}
