//! Batches over one lasting call.

use crate::scripted::{Fate, Scripted, failure, unavailable};
use futures::future::join_all;
use quipu_client::{AddStream, Applied, BatchItem, Client, Error, Failure, Receipt};
use quipu_schemas::namespace::Mode;
use std::{collections::HashSet, time::Duration};
use tokio::time::sleep;
use tonic::Code;

async fn streaming(fates: impl IntoIterator<Item = Fate>) -> (Scripted, AddStream) {
    let server = Scripted::start(Mode::EventuallyConsistent).await;
    server.state().calls.extend(fates);
    let adds = server.client().add_stream();
    (server, adds)
}

async fn add(adds: &AddStream, items: usize) -> Vec<Result<Receipt, Error>> {
    let items = vec![BatchItem::new("views", 1); items];
    adds.batch_add("web", items).await
}

#[tokio::test]
async fn batches_share_one_stream_and_count_once() {
    let (server, adds) = streaming([]).await;
    let settled = join_all((0..50).map(|_| add(&adds, 20))).await;
    assert!(settled.iter().flatten().all(Result::is_ok));
    let state = server.state();
    assert_eq!(state.streams, 1);
    assert_eq!(state.counts["views"], 1_000);
}

#[tokio::test]
async fn what_a_broken_stream_left_without_an_answer_is_sent_again_under_the_same_tokens() {
    let (server, adds) = streaming([
        Fate::Honest,
        Fate::ApplyAndHang,
        Fate::ApplyAndFail(failure(Code::Internal, "BROKEN")),
    ])
    .await;
    let settled = join_all((0..3).map(|_| add(&adds, 2))).await;
    let receipts: Vec<_> = settled.into_iter().flatten().map(Result::unwrap).collect();
    let again = receipts
        .iter()
        .filter(|it| it.applied == Applied::AlreadyApplied);
    assert_eq!(again.count(), 4);
    let state = server.state();
    assert_eq!(state.streams, 2);
    assert_eq!(state.sizes.len(), 5);
    assert_eq!(state.counts["views"], 6);
    let tokens: HashSet<_> = state.seen.iter().map(|(_, token, _)| token).collect();
    assert_eq!(tokens.len(), 6);
}

#[tokio::test]
async fn of_a_message_only_what_is_unsettled_is_sent_again() {
    let (server, adds) = streaming([]).await;
    server.state().items.extend([
        Fate::Honest,
        Fate::ApplyAndFail(unavailable()),
        Fate::Fail(failure(Code::InvalidArgument, "INVALID_FIELD")),
    ]);
    let results = add(&adds, 3).await;
    let applied = |at: usize| results[at].as_ref().map(|receipt| receipt.applied);
    assert_eq!(applied(0), Ok(Applied::Accepted));
    assert_eq!(applied(1), Ok(Applied::AlreadyApplied));
    assert!(!results[2].as_ref().unwrap_err().may_be_applied);
    let state = server.state();
    assert_eq!(state.sizes, [3, 1]);
}

#[tokio::test]
async fn a_message_that_fails_as_a_whole_is_sent_again_on_the_same_stream() {
    let (server, adds) = streaming([Fate::Fail(unavailable())]).await;
    assert!(add(&adds, 3).await.iter().all(Result::is_ok));
    let refused = failure(Code::NotFound, "UNKNOWN_NAMESPACE");
    server.state().calls.push_back(Fate::Fail(refused));
    let error = add(&adds, 1).await.remove(0).unwrap_err();
    assert!(matches!(error.failure, Failure::Refused(_)), "{error:?}");
    assert!(!error.may_be_applied);
    let state = server.state();
    assert_eq!(state.sizes, [3, 3, 1]);
    assert_eq!(state.streams, 1);
}

#[tokio::test]
async fn no_more_batches_are_under_way_than_there_is_room_for() {
    let hanging = vec![Fate::ApplyAndHang; AddStream::BATCHES + 10];
    let (server, adds) = streaming(hanging).await;
    let all = join_all((0..AddStream::BATCHES + 10).map(|_| add(&adds, 1)));
    let waiting = tokio::time::timeout(Duration::from_millis(500), all).await;
    assert!(waiting.is_err(), "nothing is answered");
    assert_eq!(server.state().sizes.len(), AddStream::BATCHES);
}

#[tokio::test]
async fn a_stream_that_hangs_is_replaced() {
    let (server, _) = streaming([Fate::ApplyAndHang]).await;
    let options = server.options().timeout(Duration::from_millis(400));
    let adds = Client::new(options).unwrap().add_stream();
    let error = add(&adds, 1).await.remove(0).unwrap_err();
    assert!(
        matches!(error.failure, Failure::Unsettled { .. }),
        "{error:?}"
    );
    assert!(error.may_be_applied);
    assert!(add(&adds, 1).await[0].is_ok());
    assert_eq!(server.state().streams, 2);
}

#[tokio::test]
async fn a_server_that_refuses_the_stream_or_is_away_is_told_of() {
    let options = quipu_client::ClientOptions::new("http://127.0.0.1:1");
    let client = Client::new(options.timeout(Duration::from_millis(300))).unwrap();
    let error = add(&client.add_stream(), 1).await.remove(0).unwrap_err();
    assert!(!error.may_be_applied, "nothing was sent");
    assert!(
        matches!(error.failure, Failure::Unreachable { .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn what_no_server_takes_in_one_message_is_refused_here_and_harms_no_other() {
    let (server, adds) = streaming([]).await;
    let large = vec![BatchItem::new("x".repeat(5 << 20), 1)];
    let (refused, taken) = tokio::join!(adds.batch_add("web", large), add(&adds, 1));
    let error = refused[0].as_ref().unwrap_err();
    assert!(matches!(error.failure, Failure::Refused(_)), "{error:?}");
    assert!(taken[0].is_ok());
    assert_eq!(server.state().sizes, [1]);
}

#[tokio::test]
async fn where_it_would_count_twice_nothing_is_sent_again() {
    let server = Scripted::start(Mode::BestEffort).await;
    let broken = Fate::ApplyAndFail(unavailable());
    server.state().calls.push_back(broken);
    let adds = server.client().add_stream();
    let error = add(&adds, 1).await.remove(0).unwrap_err();
    assert!(
        matches!(error.failure, Failure::OutcomeUnknown(_)),
        "{error:?}"
    );
    assert_eq!(server.state().counts["views"], 1);
    // Another batch finds a stream that works.
    sleep(Duration::from_millis(50)).await;
    assert!(add(&adds, 1).await[0].is_ok());
    assert_eq!(server.state().counts["views"], 2);
}
