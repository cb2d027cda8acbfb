//! Reads of rolled-up counts.

use crate::{
    http::{Failure, closed_loop, own_cpu},
    imports::{Shape, write_csv},
    report,
    server::Place,
};
use std::time::Duration;

const CLIENTS: u64 = 32;
const COUNTERS: u64 = 10_000;

pub(crate) fn measure(place: &Place, lasts: Duration) -> Result<(), Failure> {
    report::subject("Reads, 32 clients over HTTP/JSON, 10,000 counters");
    let file = place.directory.join("counters.csv");
    write_csv(&file, 100_000, Shape::Uniform(COUNTERS))?;
    let server = place.serve()?;
    let file = file.to_string_lossy().into_owned();
    place.client(&server, &["import", &file, "--counter", "c{counter}"])?;
    // The windows close, so that reads find counts.
    std::thread::sleep(Duration::from_secs(7));
    let (server_before, own_before) = (server.cpu()?, own_cpu());
    let load = closed_loop(&server.http, CLIENTS, lasts, |client, number| {
        let counter = (client * 7_919 + number * 31) % COUNTERS;
        (
            "GET",
            format!("/v1/namespaces/default/counters/c{counter}"),
            String::new(),
        )
    })?;
    report::rate("quipu, reads", load.calls, load.took, "40,000 /s");
    report::latency("quipu, latency", &load.latencies, "p99 < 2 ms");
    report::cpu(
        "quipu, server's CPU for a read",
        server.cpu()?.saturating_sub(server_before),
        load.calls,
    );
    report::cpu(
        "load generator's CPU for a read",
        own_cpu().saturating_sub(own_before),
        load.calls,
    );
    Ok(())
}
