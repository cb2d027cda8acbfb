//! Single adds, each synced to disk before its answer.

use crate::{
    http::{Failure, closed_loop, now, own_cpu},
    peers::postgres::{self, Postgres},
    report,
    server::Place,
};
use std::time::Duration;

const CLIENTS: u64 = 64;
const COUNTERS: u64 = 1_000;

pub(crate) fn measure(place: &Place, lasts: Duration) -> Result<(), Failure> {
    report::subject("Single adds, 64 clients over HTTP/JSON, each synced before its answer");
    let server = place.serve()?;
    let (server_before, own_before) = (server.cpu()?, own_cpu());
    let load = closed_loop(&server.http, CLIENTS, lasts, |client, number| {
        let counter = (client * 31 + number) % COUNTERS;
        let body = format!(
            r#"{{"delta":1,"idempotency_token":{{"token":"{client}-{number}","generation_time":"{}"}}}}"#,
            now()
        );
        (
            "POST",
            format!("/v1/namespaces/default/counters/bench-{counter}:add"),
            body,
        )
    })?;
    report::rate("quipu, adds", load.calls, load.took, "20,000 /s");
    report::latency("quipu, latency", &load.latencies, "p99 < 10 ms");
    report::cpu(
        "quipu, server's CPU for an add, ingest included",
        server.cpu()?.saturating_sub(server_before),
        load.calls,
    );
    report::cpu(
        "load generator's CPU for an add",
        own_cpu().saturating_sub(own_before),
        load.calls,
    );
    drop(server);

    let peer = Postgres::start(&place.directory)?;
    let load = postgres::single_statements(&peer, 16, lasts)?;
    report::rate(
        "PostgreSQL, insert-if-new + upsert, 16 clients",
        load.calls,
        load.took,
        "",
    );
    report::latency("PostgreSQL, latency", &load.latencies, "");
    Ok(())
}
