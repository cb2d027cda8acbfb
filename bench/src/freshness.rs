//! From the acknowledgement of an add until the count is complete through it.

use crate::{
    http::{Client, Failure, now},
    report::{self, latencies},
    server::Place,
};
use hdrhistogram::Histogram;
use std::time::{Duration, Instant};

pub(crate) const COUNTERS: u64 = 10_000;
pub(crate) const PER_SECOND: u64 = 5_000;
const ADDERS: u64 = 16;
pub(crate) const PROBES: u64 = 32;
const ACCEPT_LIMIT: Duration = Duration::from_secs(5);

pub(crate) fn measure(place: &Place, lasts: Duration) -> Result<(), Failure> {
    report::subject("Freshness: 10,000 active counters, 5,000 adds a second");
    let server = place.serve()?;
    let before = server.cpu()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    // Long enough that every counter is active before the probes look.
    let lasts = lasts.max(Duration::from_secs(30));
    let until = Instant::now() + lasts;
    let waited = runtime.block_on(async {
        for adder in 0..ADDERS {
            let client = Client::connect(&server.http).await?;
            tokio::spawn(keep_adding(client, adder, until));
        }
        tokio::time::sleep(Duration::from_secs(8)).await;
        let mut probes = Vec::new();
        for probe in 0..PROBES {
            let client = Client::connect(&server.http).await?;
            probes.push(tokio::spawn(keep_probing(client, probe, until)));
        }
        let mut waited = latencies();
        for probe in probes {
            waited.add(probe.await??)?;
        }
        Ok::<_, Failure>(waited)
    })?;
    let adds = PER_SECOND * lasts.as_secs();
    report::figure("probes", &waited.len().to_string(), "");
    report::latency(
        "complete after the acknowledgement",
        &waited,
        "p99 < 6 s (accept limit + 1 s)",
    );
    report::cpu(
        "quipu, server's CPU for an add at this pace",
        server.cpu()?.saturating_sub(before),
        adds,
    );
    Ok(())
}

fn add(counter: u64, token: &str) -> (String, String) {
    let path = format!("/v1/namespaces/default/counters/c{counter}:add");
    let body = format!(
        r#"{{"delta":1,"idempotency_token":{{"token":"{token}","generation_time":"{}"}}}}"#,
        now()
    );
    (path, body)
}

async fn keep_adding(mut client: Client, adder: u64, until: Instant) -> Result<(), Failure> {
    let mut pace = tokio::time::interval(Duration::from_secs(1) * 16 / 5_000);
    let mut number = adder;
    while Instant::now() < until {
        pace.tick().await;
        let (path, body) = add(number % COUNTERS, &format!("a{number}"));
        client.call("POST", &path, body).await?;
        number += ADDERS;
    }
    Ok(())
}

/// Adds, then reads until the count is complete through the add.
pub(crate) async fn keep_probing(
    mut client: Client,
    probe: u64,
    until: Instant,
) -> Result<Histogram<u64>, Failure> {
    let mut waited = latencies();
    let mut round = 0;
    while Instant::now() + ACCEPT_LIMIT < until {
        let counter = (probe * 311 + round * 17) % COUNTERS;
        let event_time = now();
        let (path, body) = add(counter, &format!("p{probe}-{round}"));
        client.call("POST", &path, body).await?;
        let acknowledged = Instant::now();
        let path = format!("/v1/namespaces/default/counters/c{counter}");
        loop {
            let answer = client.call("GET", &path, String::new()).await?;
            let answer: serde_json::Value = serde_json::from_slice(&answer)?;
            let through = answer["complete_through"]
                .as_str()
                .ok_or("no complete_through")?;
            if through.parse::<jiff::Timestamp>()? >= event_time.parse::<jiff::Timestamp>()? {
                break;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        waited.record(u64::try_from(acknowledged.elapsed().as_micros())?)?;
        round += 1;
    }
    Ok(waited)
}
