//! Single calls: retries, tokens, errors.

use crate::scripted::{Fate, Scripted, failure, late, unavailable};
use quipu_client::{
    Applied, BatchItem, Client, ClientOptions, Failure, LateMutations, Micros, RetryBudget, Token,
};
use quipu_schemas::namespace::Mode;
use std::time::{Duration, Instant};
use tonic::Code;

async fn with_calls(fates: impl IntoIterator<Item = Fate>) -> Scripted {
    let server = Scripted::start(Mode::EventuallyConsistent).await;
    server.state().calls.extend(fates);
    server
}

#[tokio::test]
async fn an_add_keeps_its_token_through_failures_and_counts_once() {
    let server = with_calls([
        Fate::Fail(unavailable()),
        Fate::ApplyAndFail(unavailable()),
        Fate::Fail(failure(Code::Unavailable, "WINDOW_OPEN")),
        Fate::ApplyAndFail(failure(Code::DeadlineExceeded, "TIMED_OUT")),
    ])
    .await;
    let receipt = server.client().add("web", "views", -7).await.unwrap();
    assert_eq!(receipt.applied, Applied::AlreadyApplied);
    let state = server.state();
    assert_eq!(state.counts["views"], -7);
    assert_eq!(state.seen.len(), 3);
    let kept = |seen: &(String, String, String)| seen.1 == receipt.token.text();
    assert!(state.seen.iter().all(kept), "{:?}", state.seen);
    assert!(
        state.timeouts.iter().all(Option::is_some),
        "the server knows the deadline"
    );
}

#[tokio::test]
async fn a_failure_that_no_retry_mends_ends_the_call_and_says_what_is_known() {
    for (status, expected, may_be_applied) in [
        (
            failure(Code::Internal, "STORAGE_DAMAGED"),
            "Unsettled",
            true,
        ),
        (
            failure(Code::FailedPrecondition, "OUTCOME_UNKNOWN"),
            "OutcomeUnknown",
            true,
        ),
        (
            failure(Code::InvalidArgument, "INVALID_FIELD"),
            "Refused",
            false,
        ),
        (failure(Code::PermissionDenied, "NO"), "Denied", false),
    ] {
        let server = with_calls([Fate::Fail(status)]).await;
        let error = server.client().add("web", "views", 1).await.unwrap_err();
        assert!(
            format!("{:?}", error.failure).starts_with(expected),
            "{error:?}"
        );
        assert_eq!(error.may_be_applied, may_be_applied, "{error:?}");
        assert!(error.token.is_some());
        assert_eq!(server.state().timeouts.len(), 1, "{expected}");
    }
}

#[tokio::test]
async fn a_refusal_after_an_attempt_without_an_answer_leaves_open_whether_that_one_counts() {
    let refused = failure(Code::NotFound, "UNKNOWN_NAMESPACE");
    let server = with_calls([Fate::ApplyAndFail(unavailable()), Fate::Fail(refused)]).await;
    let error = server.client().add("web", "views", 1).await.unwrap_err();
    assert!(matches!(error.failure, Failure::Refused(_)), "{error:?}");
    assert!(error.may_be_applied);
}

#[tokio::test]
async fn a_late_add_gets_a_new_token_only_when_the_client_made_it_and_may_make_another() {
    let server = with_calls([Fate::Fail(late()), Fate::Fail(late())]).await;
    let receipt = server.client().add("web", "views", 1).await.unwrap();
    assert_eq!(receipt.token.number(), 3);

    let server = with_calls([Fate::Fail(late())]).await;
    let given = Token::given("order-17", Micros::new(1));
    let add = server
        .client()
        .add("web", "views", 1)
        .with_token(given.clone());
    let error = add.item_key("a").await.unwrap_err();
    assert!(matches!(error.failure, Failure::Late(_)), "{error:?}");
    assert_eq!(error.token.as_deref(), Some(&given));
    assert!(!error.may_be_applied);

    let server = with_calls([Fate::Fail(late())]).await;
    let options = server.options().late_mutations(LateMutations::Return);
    let error = Client::new(options).unwrap().add("web", "views", 1).await;
    assert!(matches!(error.unwrap_err().failure, Failure::Late(_)));
}

#[tokio::test]
async fn a_late_answer_after_lost_ones_is_definitive_for_all_of_them() {
    let server = with_calls([Fate::Fail(unavailable()), Fate::Fail(late())]).await;
    let receipt = server.client().add("web", "views", 1).await.unwrap();
    assert_eq!(receipt.applied, Applied::Accepted);
    assert_eq!(server.state().counts["views"], 1);
}

#[tokio::test]
async fn an_empty_budget_lets_no_call_be_tried_again() {
    let server = with_calls([Fate::Fail(unavailable()), Fate::Fail(unavailable())]).await;
    let budget = RetryBudget {
        percent: 0,
        per_second: 0,
    };
    let client = Client::new(server.options().retry_budget(budget)).unwrap();
    let error = client.add("web", "views", 1).await.unwrap_err();
    assert!(error.failure.is_transient());
    assert_eq!(server.state().timeouts.len(), 1);
}

#[tokio::test]
async fn a_call_ends_at_its_deadline_and_knows_that_it_may_count() {
    let server = with_calls([Fate::ApplyAndHang]).await;
    let started = Instant::now();
    let add = server
        .client()
        .add("web", "views", 1)
        .timeout(Duration::from_millis(300));
    let error = add.await.unwrap_err();
    assert!(
        error.failure.to_string().contains("no answer within"),
        "{error}"
    );
    assert!(error.may_be_applied);
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn nothing_was_sent_when_there_is_no_connection() {
    let options = ClientOptions::new("http://127.0.0.1:1").timeout(Duration::from_millis(300));
    let error = Client::new(options.clone())
        .unwrap()
        .add("web", "views", 1)
        .await
        .unwrap_err();
    assert!(
        matches!(error.failure, Failure::Unreachable { .. }),
        "{error:?}"
    );
    assert!(!error.may_be_applied);
    assert!(Client::connect(options).await.is_err());
    let error = Client::new(ClientOptions::new("ftp://nowhere")).unwrap_err();
    assert!(
        error.to_string().contains("must be a URL such as"),
        "{error}"
    );
}

#[tokio::test]
async fn of_a_batch_only_what_is_unsettled_is_sent_again() {
    let server = with_calls([]).await;
    server.state().items.extend([
        Fate::Honest,
        Fate::ApplyAndFail(unavailable()),
        Fate::Fail(failure(Code::InvalidArgument, "INVALID_FIELD")),
        Fate::Fail(late()),
    ]);
    let items = ["a", "b", "c", "d"].map(|counter| BatchItem::new(counter, 2));
    let results = server.client().batch_add("web", items.to_vec()).await;
    let applied = |at: usize| results[at].as_ref().map(|receipt| receipt.applied);
    assert_eq!(applied(0), Ok(Applied::Accepted));
    assert_eq!(applied(1), Ok(Applied::AlreadyApplied));
    assert!(matches!(
        results[2].as_ref().unwrap_err().failure,
        Failure::Refused(_)
    ));
    assert_eq!(applied(3), Ok(Applied::Accepted));
    let state = server.state();
    assert_eq!(state.sizes, [4, 2]);
    assert_eq!(state.counts.values().sum::<i64>(), 6);
}

#[tokio::test]
async fn a_large_batch_takes_several_calls() {
    let server = with_calls([]).await;
    let items = (0..2_500).map(|_| BatchItem::new("a", 1)).collect();
    let results = server.client().batch_add("web", items).await;
    assert!(results.iter().all(Result::is_ok));
    let state = server.state();
    assert_eq!(state.sizes, [1_000, 1_000, 500]);
    assert_eq!(state.counts["a"], 2_500);
}
