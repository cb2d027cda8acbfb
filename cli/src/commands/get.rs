//! `quipu get`.

use super::{
    connect::client,
    exit::{Exit, Failed},
    print,
};
use crate::args::GetArgs;
use futures::{StreamExt, stream};
use quipu_client::{Client, Count, Error, Failure, Precision};
use quipu_schemas::timestamp;
use serde_json::json;

/// Counters that are waited for at the same time.
const WAITS: usize = 16;

/// Reads counters, prints each that can be read, and tells of the others.
pub(crate) async fn run(args: GetArgs) -> Result<Exit, Failed> {
    let server = &args.server.server;
    let counts = read(&client(&args.server)?, &args).await;
    let counts = counts.map_err(|error| Failed::of_call(&error, server))?;
    let mut ended = Exit::Done;
    for (counter, count) in args.counters.iter().zip(counts) {
        match count {
            Ok(count) => show(&args, counter, count)?,
            Err(failure) => {
                let exit = tell(&args, counter, failure);
                if ended == Exit::Done {
                    ended = exit;
                }
            }
        }
    }
    Ok(ended)
}

/// The count of each counter. The failure of a single one is that of the call.
async fn read(client: &Client, args: &GetArgs) -> Result<Vec<Result<Count, Failure>>, Error> {
    let namespace = &args.namespace;
    match (&args.counters[..], args.min_freshness) {
        ([counter], None) => Ok(vec![Ok(client.get(namespace, counter).await?)]),
        ([counter], Some(time)) => {
            let count = client.get_fresh(namespace, counter, time).await?;
            Ok(vec![Ok(count)])
        }
        (counters, None) => client.batch_get(namespace, counters).await,
        (counters, Some(time)) => {
            let waits = counters.iter().map(|counter| async move {
                let count = client.get_fresh(namespace, counter, time).await;
                count.map_err(|error| error.failure)
            });
            Ok(stream::iter(waits).buffered(WAITS).collect().await)
        }
    }
}

/// Prints a count, of several with its counter.
fn show(args: &GetArgs, counter: &str, count: Count) -> Result<(), Failed> {
    let through = count.complete_through.map(timestamp::to_rfc3339);
    let approximate = count.precision == Precision::Approximate;
    if args.server.json {
        let mut shown = json!({
            "namespace": args.namespace,
            "counter_name": counter,
            "count": count.count.to_string(),
            "complete_through": through,
        });
        if approximate {
            shown["approximate"] = true.into();
        }
        return print(&shown);
    }
    let named = if args.counters.len() > 1 {
        format!("{counter}: ")
    } else {
        String::new()
    };
    let as_of = match through {
        _ if approximate => "approximate".to_owned(),
        Some(through) => format!("complete through {through}"),
        None => "complete through no known time".to_owned(),
    };
    print(&format_args!("{named}{} ({as_of})", count.count))
}

/// Tells of one of several counters that could not be read, and how the command ends for it.
fn tell(args: &GetArgs, counter: &str, failure: Failure) -> Exit {
    let error = Error {
        failure,
        may_be_applied: false,
        token: None,
    };
    let failed = Failed::of_call(&error, &args.server.server);
    if args.server.json {
        let mut shown = failed.to_json();
        shown["counter_name"] = counter.into();
        eprintln!("{shown}");
    } else {
        eprintln!("error: {counter}: {}", failed.message());
    }
    failed.exit
}
