//! `quipu get`.

use super::{
    exit::{Exit, Failed},
    print,
};
use crate::{
    args::GetArgs,
    client::{connection::Connection, retry::Attempts, verdict::Failure},
};
use quipu_adapters::clock::Clock;
use quipu_schemas::{timestamp, v1};
use serde_json::json;

/// Reads a counter.
pub(crate) async fn run(args: GetArgs) -> Result<Exit, Failed> {
    let clock = Clock::system();
    let server = &args.server;
    let mut connection =
        Connection::new(&server.server).map_err(|error| Failed::new(Exit::Usage, error))?;
    let mut attempts = Attempts::new(clock.read().steady, server.timeout);
    let request = v1::GetCountRequest {
        namespace: args.counter.namespace.clone(),
        counter_name: args.counter.counter.clone(),
    };
    let call = connection.call(&mut attempts, &clock, async |mut client| {
        client.get_count(request.clone()).await
    });
    let answer = call.await.map_err(|call| match call.failure {
        // A read changes nothing, so nothing is unknown when it fails.
        Failure::Unsettled { .. } => {
            Failed::of_failure(Exit::Unreachable, &call.failure, &server.server)
        }
        _ => Failed::of_call(&call, &server.server),
    })?;
    let v1::GetCountResponse {
        count,
        complete_through,
        approximate,
    } = answer.into_inner();
    let through = complete_through
        .and_then(|time| timestamp::from_proto(&time).ok())
        .map(timestamp::to_rfc3339);
    if server.json {
        let mut shown = json!({
            "namespace": args.counter.namespace,
            "counter_name": args.counter.counter,
            "count": count.to_string(),
            "complete_through": through,
        });
        if approximate {
            shown["approximate"] = true.into();
        }
        print(&shown)?;
    } else if approximate {
        print(&format_args!("{count} (approximate)"))?;
    } else {
        let through = through.as_deref().unwrap_or("no known time");
        print(&format_args!("{count} (complete through {through})"))?;
    }
    Ok(Exit::Done)
}
