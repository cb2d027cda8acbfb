//! A server hangs under load: memory must stay bounded, and every count be right afterwards.

mod load;
mod retries;
mod settled;
mod tally;

use super::{
    costs::{peaks_while, report_peaks},
    installation::Installation,
};
use crate::{
    http::Failure,
    report::{self, thousands},
};
use load::Load;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};
use tally::Totals;
use tokio::time::sleep;

/// Long enough that every counter is active before the server hangs.
const WARM: Duration = Duration::from_secs(15);
/// How long the load goes on afterwards.
const AFTER: Duration = Duration::from_secs(20);

/// A process that neither runs nor ends: connections to it stay open, and nothing answers. It goes
/// on when this is dropped.
struct Hanging(Pid);

impl Hanging {
    fn new(process: u32) -> Result<Self, Failure> {
        let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| format!("{process} is no number of a process"))?;
        kill_process(pid, Signal::STOP).map_err(io::Error::from)?;
        Ok(Self(pid))
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        if let Err(error) = kill_process(self.0, Signal::CONT) {
            eprintln!("quipu-bench: a server still hangs: {error}");
        }
    }
}

pub(super) async fn measure(
    installation: &Installation<'_>,
    (server, process): (&str, u32),
    lasts: Duration,
) -> Result<(), Failure> {
    let seconds = lasts.as_secs();
    report::subject(&format!(
        "Outage: {server} hangs for {seconds} s under 5,000 adds a second to 10,000 counters"
    ));
    let started = installation.start_roles("LOW").await?;
    let (gateway, roles) = (&started.gateway, started.all());
    let load = Arc::new(Load::new(&gateway.http));
    let until = Instant::now() + WARM + lasts + AFTER;
    let running = tokio::spawn(Arc::clone(&load).run(until));

    let ((), before) = peaks_while(&roles, sleep(WARM)).await?;
    let totals_before = load.tally().totals;
    let hanging = Hanging::new(process)?;
    let ((), during) = peaks_while(&roles, sleep(lasts)).await?;
    let totals_during = load.tally().totals - totals_before;
    load.tally().first_accepted = None;
    drop(hanging);
    let resumed = Instant::now();
    let settling = async {
        running.await??;
        settled::wait(&load).await?;
        Ok::<_, Failure>(resumed.elapsed())
    };
    let (settling, after) = peaks_while(&roles, settling).await?;

    let stretches = [("before", before), ("during", during), ("after", after)];
    report_peaks(&roles, &stretches);
    report_totals("before", &totals_before);
    report_totals("during", &totals_during);
    let totals_after = load.tally().totals - totals_before - totals_during;
    report_totals("after", &totals_after);
    report_recovery(&load, resumed, settling?)?;
    report_outcomes(&load).await
}

fn report_recovery(load: &Load, resumed: Instant, settled: Duration) -> Result<(), Failure> {
    let accepted = load.tally().first_accepted;
    let accepted = accepted.ok_or("no add was accepted afterwards")?;
    let accepted = accepted.saturating_duration_since(resumed);
    report::figure("first add accepted after", &format!("{accepted:.2?}"), "");
    let what = format!("counts right after, {} s of load included", AFTER.as_secs());
    report::figure(&what, &format!("{settled:.2?}"), "");
    Ok(())
}

/// Learns of some counters what became of all adds to them, and compares again.
async fn report_outcomes(load: &Arc<Load>) -> Result<(), Failure> {
    let resolved = retries::resolve(load).await?;
    let [counted, refused] = [resolved.counted, resolved.refused].map(thousands);
    report::figure(
        "unknown adds when retried: counted, refused",
        &format!("{counted} | {refused}"),
        "",
    );
    let settled = settled::wait(load).await?;
    let [exact, within] = [settled.exact, settled.within].map(thousands);
    report::figure(
        "counts: exact, within adds still unknown",
        &format!("{exact} | {within}"),
        "",
    );
    Ok(())
}

fn report_totals(stretch: &str, totals: &Totals) {
    let [accepted, refused, unknown] =
        [totals.accepted, totals.refused, totals.unknown].map(thousands);
    report::figure(
        &format!("adds {stretch}: accepted, refused, unknown"),
        &format!("{accepted} | {refused} | {unknown}"),
        "",
    );
    let [read, unread] = [totals.read, totals.unread].map(thousands);
    report::figure(
        &format!("reads {stretch}: answered, failed"),
        &format!("{read} | {unread}"),
        "",
    );
}
