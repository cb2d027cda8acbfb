//! A second attempt while the first is under way.

use crate::scripted::{Fate, Scripted, failure};
use quipu_client::{Applied, Client, Failure};
use quipu_schemas::namespace::Mode;
use std::time::{Duration, Instant};
use tonic::Code;

async fn hedging(fates: impl IntoIterator<Item = Fate>) -> (Scripted, Client) {
    let server = Scripted::start(Mode::EventuallyConsistent).await;
    server.state().calls.extend(fates);
    let options = server.options().hedge_after(Duration::from_millis(20));
    let client = Client::new(options).unwrap();
    (server, client)
}

#[tokio::test]
async fn an_add_without_an_answer_is_sent_beside_with_the_same_token_and_counts_once() {
    let (server, client) = hedging([Fate::ApplyAndHang]).await;
    let started = Instant::now();
    let receipt = client.add("web", "views", 3).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(5));
    assert_eq!(receipt.applied, Applied::AlreadyApplied);
    let state = server.state();
    assert_eq!(state.seen.len(), 2);
    assert_eq!(state.seen[0], state.seen[1]);
    assert_eq!(state.counts["views"], 3);
}

#[tokio::test]
async fn a_read_without_an_answer_is_sent_beside() {
    let (server, client) = hedging([Fate::ApplyAndHang]).await;
    assert_eq!(client.get("web", "views").await.unwrap().count, 0);
    assert_eq!(server.state().timeouts.len(), 2);
}

#[tokio::test]
async fn a_prompt_answer_needs_no_hedge() {
    let (server, client) = hedging([]).await;
    for _ in 0..5 {
        client.add("web", "views", 1).await.unwrap();
    }
    assert!(server.state().timeouts.len() < 10);
    assert_eq!(server.state().counts["views"], 5);
}

#[tokio::test]
async fn a_refused_hedge_does_not_hide_that_the_first_attempt_may_count() {
    let refused = failure(Code::InvalidArgument, "TOO_FAR_AHEAD");
    let (_server, client) = hedging([Fate::ApplyAndHang, Fate::Fail(refused)]).await;
    let add = client
        .add("web", "views", 3)
        .timeout(Duration::from_millis(200));
    let error = add.await.unwrap_err();
    assert!(
        matches!(error.failure, Failure::Unsettled { .. }),
        "{error:?}"
    );
    assert!(error.may_be_applied);
}
