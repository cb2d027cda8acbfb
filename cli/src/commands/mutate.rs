//! `quipu add` and `quipu clear`: one mutation, applied once.

use super::{
    exit::{Exit, Failed},
    print,
};
use crate::{
    args::{AddArgs, ClearArgs, CounterArgs, ServerArgs, TokenArgs},
    client::{
        connection::Connection,
        retry::{Attempts, Entropy},
        token::Token,
        verdict::{self, Applied, Failure},
    },
};
use quipu_adapters::clock::Clock;
use quipu_schemas::v1::{self, counter_client::CounterClient};
use serde_json::json;
use tonic::{Status, transport::Channel};

/// Adds to a counter.
pub(crate) async fn add(args: AddArgs) -> Result<Exit, Failed> {
    let AddArgs {
        counter,
        delta,
        token,
        server,
    } = args;
    let ending = mutate(&server, token, async |mut client, token| {
        let request = v1::AddCountRequest {
            namespace: counter.namespace.clone(),
            counter_name: counter.counter.clone(),
            delta,
            idempotency_token: Some(token),
            item_key: String::new(),
        };
        Ok(client.add_count(request).await?.into_inner().status())
    });
    let (applied, token) = ending.await?;
    report(
        &server,
        &counter,
        applied,
        &token,
        &format!("added {delta} to"),
    )
}

/// Zeroes a counter.
pub(crate) async fn clear(args: ClearArgs) -> Result<Exit, Failed> {
    let ClearArgs {
        counter,
        token,
        server,
    } = args;
    let ending = mutate(&server, token, async |mut client, token| {
        let request = v1::ClearCountRequest {
            namespace: counter.namespace.clone(),
            counter_name: counter.counter.clone(),
            idempotency_token: Some(token),
            item_key: String::new(),
        };
        Ok(client.clear_count(request).await?.into_inner().status())
    });
    let (applied, token) = ending.await?;
    report(&server, &counter, applied, &token, "cleared")
}

/// Sends one mutation until it is settled. A new token is made only after the definitive refusal
/// of the one before (R16).
async fn mutate(
    server: &ServerArgs,
    token: TokenArgs,
    send: impl AsyncFn(
        CounterClient<Channel>,
        v1::IdempotencyToken,
    ) -> Result<v1::MutationStatus, Status>,
) -> Result<(Applied, Token), Failed> {
    let clock = Clock::system();
    let mut connection =
        Connection::new(&server.server).map_err(|error| Failed::new(Exit::Usage, error))?;
    let mut attempts = Attempts::new(clock.read().steady, server.timeout);
    let mut token = match token.given() {
        Some((text, time)) => Token::given(text, time),
        None => Token::make(clock.now(), Entropy::draw()),
    };
    loop {
        let call = connection.call(&mut attempts, &clock, async |client| {
            let status = send(client, token.to_proto()).await?;
            verdict::of_status(status).map_err(|failure| Status::unknown(failure.to_string()))
        });
        let call = match call.await {
            Ok(applied) => return Ok((applied, token)),
            Err(call) => call,
        };
        let Some(renewed) = token.renew(&call.failure, clock.now(), Entropy::draw()) else {
            let failed = Failed::of_call(&call, &server.server);
            return Err(match call.failure {
                Failure::Late(_) | Failure::Refused { .. } => failed,
                _ => failed.with_token(&token),
            });
        };
        let (number, text) = (renewed.number(), renewed.text());
        tracing::info!(
            "{}; attempt {number} with the new token {text}",
            call.failure
        );
        token = renewed;
    }
}

fn report(
    server: &ServerArgs,
    counter: &CounterArgs,
    applied: Applied,
    token: &Token,
    what: &str,
) -> Result<Exit, Failed> {
    let CounterArgs { counter, namespace } = counter;
    if server.json {
        print(&json!({
            "status": applied.as_str(),
            "namespace": namespace,
            "counter_name": counter,
            "idempotency_token": {"token": token.text(), "generation_time": token.time_text()},
        }))?;
    } else {
        match applied {
            Applied::Accepted => print(&format!("{what} {counter} in {namespace}"))?,
            Applied::AlreadyApplied => print(&format!(
                "nothing changed: an earlier attempt with this token {what} {counter} in {namespace}"
            ))?,
        }
    }
    Ok(Exit::Done)
}
