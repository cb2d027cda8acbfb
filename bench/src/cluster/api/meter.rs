//! Runs a load, and prints what it did and what it cost.

use super::load::{self, Done};
use crate::{
    cluster::costs::{Moment, Processes},
    http::Failure,
    report::{self, thousands},
};
use std::time::{Duration, Instant};

/// How long each load runs before it is measured.
pub(super) const WARM: Duration = Duration::from_secs(1);

/// Servers that have just started compile themselves for a while. They are quiet once all together
/// use less than this in a second.
const QUIET: Duration = Duration::from_millis(400);
/// But that is waited for no longer than this.
const PATIENCE: Duration = Duration::from_secs(30);

/// Who pays for the loads, and how long they last.
pub(super) struct Meter {
    pub(super) processes: Processes,
    pub(super) lasts: Duration,
}

impl Meter {
    /// Waits until the servers have little to do, so that no load pays for what was before it.
    async fn wait_for_quiet(&self) -> Result<(), Failure> {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            let before = self.processes.now()?;
            tokio::time::sleep(Duration::from_secs(1)).await;
            if self.processes.used_by_all(&before, &self.processes.now()?) < QUIET {
                return Ok(());
            }
        }
        report::figure("the servers were not quiet after", "30 s", "");
        Ok(())
    }

    /// Keeps so many calls under way, each of which carries so many adds.
    pub(super) async fn saturate<F: Future<Output = Result<(), Failure>>>(
        &self,
        what: &str,
        (at_once, together): (usize, u32),
        target: &str,
        call: impl Fn(u64) -> F,
    ) -> Result<(), Failure> {
        self.wait_for_quiet().await?;
        load::saturate(at_once, WARM, &call).await?;
        let before = self.processes.now()?;
        let done = load::saturate(at_once, self.lasts, &call).await?;
        let after = self.processes.now()?;
        let Done {
            calls,
            took,
            latencies,
        } = done;
        let count = calls * u64::from(together);
        report::rate(&format!("{what}, {at_once} under way"), count, took, target);
        report::latency("    latency", &latencies, "");
        self.report_cpu(&before, &after, count);
        Ok(())
    }

    /// Makes so many calls a second.
    pub(super) async fn keep_rate<F: Future<Output = Result<(), Failure>>>(
        &self,
        what: &str,
        per_second: u32,
        target: &str,
        call: impl Fn(u64) -> F,
    ) -> Result<(), Failure> {
        self.wait_for_quiet().await?;
        load::keep_rate(per_second, WARM, &call).await?;
        let before = self.processes.now()?;
        let done = load::keep_rate(per_second, self.lasts, &call).await?;
        let after = self.processes.now()?;
        let what = format!("{what}, {} /s", thousands(per_second.into()));
        report::latency(&what, &done.latencies, target);
        let late = done.took.saturating_sub(self.lasts);
        if late > WARM {
            let late = format!("{late:.1?} after its last call");
            report::figure("    not kept: answered", &late, "");
        }
        self.report_cpu(&before, &after, done.calls);
        Ok(())
    }

    /// Prints what everybody used for each of `count` calls or adds.
    pub(super) fn report_cpu(&self, before: &Moment, after: &Moment, count: u64) {
        self.processes
            .report_together("    CPU", (before, after), count);
    }
}
