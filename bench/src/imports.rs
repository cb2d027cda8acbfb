//! Importing a file: durable adds as fast as they come.

use crate::{
    http::{Client, Failure},
    peers::postgres::{self, Postgres},
    report::{self, per_second, thousands},
    server::{Place, Server},
};
use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
    time::{Duration, Instant},
};

/// How rows spread over counters.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// Each of so many counters is as likely, in a scattered order.
    Uniform(u64),
    /// Every row has a counter of its own.
    Distinct,
}

/// Writes `row,counter` rows.
pub(crate) fn write_csv(path: &Path, rows: u64, shape: Shape) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    writeln!(out, "row,counter")?;
    for row in 0..rows {
        let counter = match shape {
            Shape::Uniform(counters) => row.wrapping_mul(0x9E37_79B9_7F4A_7C15) % counters,
            Shape::Distinct => row,
        };
        writeln!(out, "{row},{counter}")?;
    }
    out.flush()
}

pub(crate) fn measure(place: &Place, rows: u64) -> Result<(), Failure> {
    const COUNTERS: u64 = 10_000;
    report::subject(&format!(
        "Import of {} rows into 10,000 counters",
        thousands(rows)
    ));
    let file = place.directory.join("rows.csv");
    write_csv(&file, rows, Shape::Uniform(COUNTERS))?;
    let server = place.serve()?;
    let before = server.cpu()?;
    let began = Instant::now();
    import(place, &server, &file)?;
    let took = began.elapsed();
    report::rate(
        "quipu, adds acknowledged and durable",
        rows,
        took,
        "200,000 /s",
    );
    let complete = wait_until_complete(&server, COUNTERS, rows)?;
    report::figure(
        "quipu, every count complete after the last ack",
        &format!("{complete:?}"),
        "",
    );
    report::cpu(
        "quipu, server's CPU for an event, all stages",
        server.cpu()?.saturating_sub(before),
        rows,
    );
    report::figure(
        "quipu, peak memory",
        &format!("{} MiB", server.memory("VmHWM")?),
        "",
    );
    drop(server);

    let peer = Postgres::start(&place.directory)?;
    let load = postgres::batches(&peer, 500, rows.min(1_000_000), COUNTERS)?;
    let rate = per_second(load.calls, load.took);
    let figure = format!("{} /s", thousands(rate));
    report::figure(
        "PostgreSQL, same de-duplication, batches of 500",
        &figure,
        "",
    );
    Ok(())
}

/// Imports a file of [`write_csv`].
pub(crate) fn import(place: &Place, server: &Server, file: &Path) -> io::Result<String> {
    let file = file.to_string_lossy();
    place.client(server, &["import", &file, "--counter", "c{counter}"])
}

/// Waits until every row of all imports so far was folded into a checkpoint, and returns how long
/// that took; then checks that the counters hold every row.
pub(crate) fn wait_until_complete(
    server: &Server,
    counters: u64,
    rows: u64,
) -> Result<Duration, Failure> {
    const PATIENCE: Duration = Duration::from_mins(5);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let began = Instant::now();
    runtime.block_on(async {
        let mut client = Client::connect(&server.http).await?;
        while folded(&mut client).await? < rows {
            if began.elapsed() > PATIENCE {
                return Err("the counts were not complete in time".into());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let complete = began.elapsed();
        check_sum(&server.http, counters, rows).await?;
        Ok(complete)
    })
}

/// Events that the server's rollups have folded since it started.
async fn folded(client: &mut Client) -> Result<u64, Failure> {
    let metrics = client.call("GET", "/metrics", String::new()).await?;
    let metrics = String::from_utf8_lossy(&metrics).into_owned();
    let folded = metrics
        .lines()
        .find_map(|line| line.strip_prefix("quipu_rollup_events_folded_total "));
    Ok(folded.map_or(Ok(0), str::parse)?)
}

/// Checks that the counters of an import hold every row once. The last checkpoints may still be
/// on their way to the cache.
pub(crate) async fn check_sum(host: &str, counters: u64, rows: u64) -> Result<(), Failure> {
    let mut total = sum(host, counters).await?;
    if total < rows {
        tokio::time::sleep(Duration::from_secs(2)).await;
        total = sum(host, counters).await?;
    }
    if total == rows {
        return Ok(());
    }
    Err(format!("the counts sum to {total} instead of {rows}").into())
}

/// The sum of all counters of an import.
async fn sum(host: &str, counters: u64) -> Result<u64, Failure> {
    const READERS: u64 = 32;
    let mut readers = Vec::new();
    for reader in 0..READERS {
        let mut client = Client::connect(host).await?;
        readers.push(tokio::spawn(async move {
            let mut total = 0;
            for counter in (reader..counters).step_by(usize::try_from(READERS)?) {
                let path = format!("/v1/namespaces/default/counters/c{counter}");
                let answer = client.call("GET", &path, String::new()).await?;
                let answer: serde_json::Value = serde_json::from_slice(&answer)?;
                let count = answer["count"]
                    .as_str()
                    .and_then(|count| count.parse::<u64>().ok());
                total += count.ok_or("a count is no number")?;
            }
            Ok::<_, Failure>(total)
        }));
    }
    let mut total = 0;
    for reader in readers {
        total += reader.await??;
    }
    Ok(total)
}
