//! What processes use between two moments.

use super::{installation::Installation, stack::Stack};
use crate::{
    http::{Failure, own_cpu},
    process, report,
    server::Server,
};
use std::{fmt::Write, pin::pin, time::Duration};

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

    /// The same in one line, of those that used any.
    pub(super) fn report_together(
        &self,
        what: &str,
        (before, after): (&Moment, &Moment),
        count: u64,
    ) {
        let mut all = String::new();
        for (name, used) in self.used(before, after) {
            let hundredths = used.as_nanos() / 10 / u128::from(count.max(1));
            if hundredths > 0 {
                let (whole, part) = (hundredths / 100, hundredths % 100);
                write!(all, " | {name} {whole}.{part:02}").expect("text can be written");
            }
        }
        report::figure(what, all.trim_start_matches(" | "), "");
    }

    /// What all used together between two moments.
    pub(super) fn used_by_all(&self, before: &Moment, after: &Moment) -> Duration {
        self.used(before, after).map(|(_, used)| used).sum()
    }

    fn used(&self, before: &Moment, after: &Moment) -> impl Iterator<Item = (&str, Duration)> {
        let names = self.0.iter().map(|(name, _)| *name).chain(["this bench"]);
        let used = before.0.iter().zip(&after.0);
        names.zip(used.map(|(before, after)| after.saturating_sub(*before)))
    }

    /// Prints what each used between two moments for each of `count` things.
    pub(super) fn report(&self, what: &str, moments: (&Moment, &Moment), count: u64) {
        for (name, used) in self.used(moments.0, moments.1) {
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
