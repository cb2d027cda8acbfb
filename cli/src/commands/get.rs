//! `quipu get`.

use super::{
    connect::client,
    exit::{Exit, Failed},
    print,
};
use crate::args::GetArgs;
use quipu_client::{Count, Precision};
use quipu_schemas::timestamp;
use serde_json::json;

/// Reads a counter.
pub(crate) async fn run(args: GetArgs) -> Result<Exit, Failed> {
    let server = &args.server;
    let read = client(server)?
        .get(&args.counter.namespace, &args.counter.counter)
        .await;
    let Count {
        count,
        complete_through,
        precision,
    } = read.map_err(|error| Failed::of_call(&error, &server.server))?;
    let through = complete_through.map(timestamp::to_rfc3339);
    let approximate = precision == Precision::Approximate;
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
