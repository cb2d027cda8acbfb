//! From the acknowledgement of an add until the count is complete through it.

use super::{
    batch::{self, TOGETHER},
    costs::{Processes, report_memory},
    installation::Installation,
};
use crate::{
    freshness::{PER_SECOND, PROBES, keep_probing},
    http::{Client, Failure},
    report::{self, latencies},
};
use jiff::Timestamp;
use std::time::{Duration, Instant};

const ADDERS: u64 = 10;
/// Long enough that every counter is active before the probes look.
const WARM: Duration = Duration::from_secs(12);

pub(super) async fn measure(
    installation: &Installation<'_>,
    lasts: Duration,
) -> Result<(), Failure> {
    report::subject(
        "Freshness of the distributed system: 10,000 active counters, 5,000 adds a second",
    );
    let started = installation.start_roles("LOW").await?;
    let (gateway, roles) = (&started.gateway, started.all());
    let processes = Processes::of(installation, &roles)?;
    let before = processes.now()?;
    let lasts = lasts.max(Duration::from_mins(1));
    let began = Instant::now();
    let until = began + lasts;
    let mut adders = Vec::new();
    for adder in 0..ADDERS {
        let client = Client::connect(&gateway.http).await?;
        adders.push(tokio::spawn(keep_adding(client, adder, until)));
    }
    tokio::time::sleep(WARM).await;
    let mut probes = Vec::new();
    for probe in 0..PROBES {
        let client = Client::connect(&gateway.http).await?;
        probes.push(tokio::spawn(keep_probing(client, probe, until)));
    }
    let mut waited = latencies();
    for probe in probes {
        waited.add(probe.await??)?;
    }
    let mut added = 0;
    for adder in adders {
        added += adder.await??;
    }
    report::rate("adds", added, began.elapsed(), "5,000 /s");
    report::figure("probes", &waited.len().to_string(), "");
    report::latency(
        "complete after the acknowledgement",
        &waited,
        "p99 < 10 s (accept limit + sync wait + 3 s)",
    );
    processes.report("an add at this pace", (&before, &processes.now()?), added);
    report_memory(&roles)
}

/// Returns how many adds were accepted.
async fn keep_adding(mut client: Client, adder: u64, until: Instant) -> Result<u64, Failure> {
    let millis = 1_000 * ADDERS * TOGETHER / PER_SECOND;
    let mut pace = tokio::time::interval(Duration::from_millis(millis));
    let path = batch::path();
    let mut round = 0;
    while Instant::now() < until {
        pace.tick().await;
        let body = batch::body(round * ADDERS + adder, Timestamp::now());
        let answer = client.call("POST", &path, body).await?;
        let answer = String::from_utf8_lossy(&answer);
        if answer.matches(r#""ACCEPTED""#).count() != usize::try_from(TOGETHER)? {
            return Err(format!("not every add was accepted: {answer}").into());
        }
        round += 1;
    }
    Ok(round * TOGETHER)
}
