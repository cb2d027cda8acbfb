//! `quipu list`.

use super::{
    connect::client,
    exit::{Exit, Failed},
    print,
};
use crate::args::ListArgs;
use serde_json::json;

/// Lists the counters of a namespace, page by page, so that any number of them can be listed.
pub(crate) async fn run(args: ListArgs) -> Result<Exit, Failed> {
    let server = &args.server;
    let mut counters = client(server)?.counters(&args.namespace);
    if let Some(token) = args.page_token {
        counters = counters.from_page(token);
    }
    let mut left = args.limit;
    while left != Some(0) {
        if let Some(left) = left {
            counters = counters.page_size(left);
        }
        let page = counters.next_page().await;
        let page = page.map_err(|error| Failed::of_call(&error, &server.server))?;
        let Some(names) = page else {
            return Ok(Exit::Done);
        };
        let listed = u32::try_from(names.len()).unwrap_or(u32::MAX);
        left = left.map(|left| left.saturating_sub(listed));
        if server.json {
            print(&json!({
                "namespace": args.namespace,
                "counter_names": names,
                "next_page_token": counters.page_token(),
            }))?;
        } else {
            names.iter().try_for_each(print)?;
        }
    }
    if let (Some(token), false) = (counters.page_token(), server.json) {
        eprintln!("more follow: --page-token {token}");
    }
    Ok(Exit::Done)
}
