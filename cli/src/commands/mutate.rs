//! `quipu add` and `quipu clear`: one mutation, applied once.

use super::{
    connect::client,
    exit::{Exit, Failed},
    print,
};
use crate::args::{AddArgs, ClearArgs, CounterArgs, ServerArgs, TokenArgs};
use quipu_client::{Applied, Error, Mutation, Receipt, Token};
use serde_json::json;

/// Adds to a counter.
pub(crate) async fn add(args: AddArgs) -> Result<Exit, Failed> {
    let AddArgs {
        counter,
        delta,
        token,
        server,
    } = args;
    let add = client(&server)?.add(&counter.namespace, &counter.counter, delta);
    let receipt = mutate(add, token, &server).await?;
    report(&server, &counter, &receipt, &format!("added {delta} to"))
}

/// Zeroes a counter.
pub(crate) async fn clear(args: ClearArgs) -> Result<Exit, Failed> {
    let ClearArgs {
        counter,
        token,
        server,
    } = args;
    let clear = client(&server)?.clear(&counter.namespace, &counter.counter);
    let receipt = mutate(clear, token, &server).await?;
    report(&server, &counter, &receipt, "cleared")
}

/// Sends one mutation until it is settled.
async fn mutate(
    mutation: Mutation,
    token: TokenArgs,
    server: &ServerArgs,
) -> Result<Receipt, Failed> {
    let mutation = match token.given() {
        Some((text, time)) => mutation.with_token(Token::given(text, time)),
        None => mutation,
    };
    mutation.await.map_err(|error| explain(&error, server))
}

/// Why a mutation failed, and the token to try again with, where that can settle it.
fn explain(error: &Error, server: &ServerArgs) -> Failed {
    let failed = Failed::of_call(error, &server.server);
    let counts_twice = error.failure.code_and_reason().1 == "NOT_IDEMPOTENT";
    match &error.token {
        Some(token) if failed.exit != Exit::Refused && !counts_twice => failed.with_token(token),
        _ => failed,
    }
}

fn report(
    server: &ServerArgs,
    counter: &CounterArgs,
    receipt: &Receipt,
    what: &str,
) -> Result<Exit, Failed> {
    let CounterArgs { counter, namespace } = counter;
    let Receipt { applied, token } = receipt;
    if server.json {
        print(&json!({
            "status": applied.as_str(),
            "namespace": namespace,
            "counter_name": counter,
            "idempotency_token": {"token": token.text(), "generation_time": token.time_text()},
        }))?;
    } else {
        match applied {
            Applied::Accepted | Applied::Published => {
                print(&format!("{what} {counter} in {namespace}"))?;
            }
            Applied::AlreadyApplied => print(&format!(
                "nothing changed: an earlier attempt with this token {what} {counter} in {namespace}"
            ))?,
        }
    }
    Ok(Exit::Done)
}
