//! Adds that share calls.

use crate::scripted::{Fate, Scripted, failure, unavailable};
use quipu_client::{BatchItem, BatcherOptions, Failure, Micros, Token};
use quipu_schemas::namespace::Mode;
use std::time::Duration;
use tokio::time::timeout;
use tonic::Code;

async fn server() -> Scripted {
    Scripted::start(Mode::EventuallyConsistent).await
}

#[tokio::test]
async fn adds_of_a_namespace_share_calls_and_each_hears_of_its_own() {
    let server = server().await;
    let lingering = BatcherOptions {
        linger: Duration::from_millis(50),
        ..BatcherOptions::default()
    };
    let batcher = server.client().batcher(lingering);
    let mut pending = Vec::new();
    for number in 0..100 {
        let counter = format!("c{}", number % 10);
        pending.push(batcher.add("web", &counter, 1).await.unwrap());
    }
    for one in pending {
        one.await.unwrap();
    }
    let state = server.state();
    assert_eq!(state.sizes, [100]);
    assert_eq!(state.counts.len(), 10);
    assert!(state.counts.values().all(|count| *count == 10));
}

#[tokio::test]
async fn closing_loses_nothing_and_says_what_failed() {
    let server = server().await;
    server
        .state()
        .calls
        .push_back(Fate::ApplyAndFail(unavailable()));
    server.state().items.extend([
        Fate::Honest,
        Fate::Honest,
        Fate::Honest,
        Fate::Fail(failure(Code::InvalidArgument, "INVALID_FIELD")),
    ]);
    let never = BatcherOptions {
        linger: Duration::from_mins(10),
        ..BatcherOptions::default()
    };
    let batcher = server.client().batcher(never);
    let other = batcher.clone();
    let token = Token::given("order-17", Micros::new(1_769_860_800_000_000));
    batcher.add("web", "a", 1).await.unwrap();
    batcher.add("web", "b", 2).await.unwrap();
    let given = BatchItem {
        token: Some(token),
        item_key: "k".to_owned(),
        ..BatchItem::new("c", 3)
    };
    batcher.push("web", given).await.unwrap();
    let report = batcher.close().await.unwrap();
    assert_eq!((report.applied, report.failed), (2, 1), "{report:?}");
    let failed = &report.failures[0];
    assert_eq!((failed.counter.as_str(), failed.delta), ("a", 1));
    assert!(failed.error.may_be_applied, "the first call was applied");
    assert!(
        matches!(failed.error.failure, Failure::Refused(_)),
        "{failed:?}"
    );
    let error = other.add("web", "a", 1).await.unwrap_err();
    assert!(
        error.to_string().contains("the batcher is closed"),
        "{error}"
    );
    let state = server.state();
    assert!(
        state
            .seen
            .contains(&("c".to_owned(), "order-17".to_owned(), "k".to_owned()))
    );
    assert_eq!(state.counts.values().sum::<i64>(), 6);
}

#[tokio::test]
async fn a_flush_waits_for_what_was_accepted_before_and_reports_it_once() {
    let server = server().await;
    let batcher = server.client().batcher(BatcherOptions::default());
    for _ in 0..2_500 {
        batcher.add("web", "a", 1).await.unwrap();
    }
    assert_eq!(batcher.flush().await.unwrap().applied, 2_500);
    assert_eq!(server.state().counts["a"], 2_500);
    assert_eq!(batcher.flush().await.unwrap().applied, 0);
}

#[tokio::test]
async fn a_full_batcher_makes_callers_wait() {
    let server = server().await;
    server
        .state()
        .calls
        .extend([Fate::ApplyAndHang, Fate::ApplyAndHang]);
    let small = BatcherOptions {
        batch_items: 1,
        pending_items: 2,
        calls: 2,
        ..BatcherOptions::default()
    };
    let batcher = server.client().batcher(small);
    for _ in 0..2 {
        batcher.add("web", "a", 1).await.unwrap();
    }
    let third = timeout(Duration::from_millis(200), batcher.add("web", "a", 1)).await;
    assert!(third.is_err(), "there is room for two only");
}

#[tokio::test]
async fn an_add_larger_than_all_the_room_waits_for_it_and_passes() {
    let server = server().await;
    let tiny = BatcherOptions {
        pending_bytes: 10,
        ..BatcherOptions::default()
    };
    let batcher = server.client().batcher(tiny);
    for _ in 0..3 {
        batcher.add("web", &"a".repeat(500), 1).await.unwrap();
    }
    assert_eq!(batcher.close().await.unwrap().applied, 3);
}

#[tokio::test]
async fn what_was_accepted_is_sent_also_when_the_batcher_is_dropped() {
    let server = server().await;
    let pending = {
        let never = BatcherOptions {
            linger: Duration::from_mins(10),
            ..BatcherOptions::default()
        };
        let batcher = server.client().batcher(never);
        batcher.add("web", "a", 1).await.unwrap()
    };
    pending.await.unwrap();
    assert_eq!(server.state().counts["a"], 1);
}
