//! Events that wait in the log: how fast they become durable, and how soon all counts are exact.

use super::{
    costs::{Processes, report_memory},
    counts::Counts,
    events::{Shape, counter},
    installation::Installation,
    publish::{Published, publish},
    watermarks::Watermarks,
};
use crate::{
    http::{Client, Failure},
    peers::counter_columns,
    report::{self, thousands},
    server::Server,
};
use std::time::{Duration, Instant};

const PEER_LASTS: Duration = Duration::from_secs(20);

pub(super) async fn measure(
    installation: &Installation<'_>,
    events: u64,
    shape: Shape,
) -> Result<(), Failure> {
    let (spread, cardinality, target) = match shape {
        Shape::Zipf(_) => ("Zipf 1.0", "LOW", "60,000 /s"),
        Shape::Uniform(_) => ("uniform", "HIGH", "30,000 /s"),
    };
    report::subject(&format!(
        "Drain of {} events over {} counters, {spread}",
        thousands(events),
        thousands(u64::from(shape.counters())),
    ));
    let cassandra = counter_columns::connect(&installation.stack.cassandra).await?;
    peer(installation, &cassandra, shape).await?;

    installation.set_up()?;
    let gateway = installation.start("gateway")?;
    installation.make_namespace(&gateway, cardinality).await?;
    let counts = Counts::open(installation, &cassandra).await?;
    let watermarks = Watermarks::follow(installation)?;
    let worker = installation.start("rollup-worker")?;
    let published = publish(installation, events, shape)?;
    report::rate("published by one client", events, published.took, "");

    let began = Instant::now();
    let ingest = installation.start("ingest")?;
    let roles = [
        ("gateway", &gateway),
        ("ingest", &ingest),
        ("rollup-worker", &worker),
    ];
    let processes = Processes::of(installation, &roles)?;
    let before = processes.now()?;
    watermarks.wait_until(&published.ends)?;
    let drained = began.elapsed();
    let between = processes.now()?;
    report::rate("quipu, from the log to durable", events, drained, target);
    check_accepted(&ingest).await?;
    counts.wait_until_exact(&published.counts).await?;
    let exact = began.elapsed().saturating_sub(drained);
    let after = processes.now()?;
    report_rollups(&published, exact);
    processes.report("an event until it is durable", (&before, &between), events);
    processes.report("an event's rollup after that", (&between, &after), events);
    report_memory(&roles)
}

async fn peer(
    installation: &Installation<'_>,
    cassandra: &scylla::client::session::Session,
    shape: Shape,
) -> Result<(), Failure> {
    let keyspace = installation.topic("peer");
    let mut draw = shape.draw();
    let draw = || counter(draw());
    let (added, took) = counter_columns::add(cassandra, &keyspace, PEER_LASTS, draw).await?;
    report::rate("Cassandra, counter columns, 256 at once", added, took, "");
    Ok(())
}

/// Every event was young enough for the log, so none may be refused.
async fn check_accepted(ingest: &Server) -> Result<(), Failure> {
    let mut client = Client::connect(&ingest.http).await?;
    let metrics = client.call("GET", "/metrics", String::new()).await?;
    let metrics = String::from_utf8_lossy(&metrics).into_owned();
    let refused = |line: &&str| line.starts_with("quipu_ingest_events_dead_lettered_total{");
    match metrics.lines().find(refused) {
        Some(line) => Err(format!("events were refused: {line}").into()),
        None => Ok(()),
    }
}

fn report_rollups(published: &Published, took: Duration) {
    let written = published.counts.iter().filter(|count| **count > 0).count();
    let written = u64::try_from(written).unwrap_or(u64::MAX);
    let seconds = format!("{}.{:02} s", took.as_secs(), took.subsec_millis() / 10);
    let what = format!(
        "every one of {} counts in Redis exact after",
        thousands(written)
    );
    report::figure(&what, &seconds, "");
}
