use super::{post, send, token};
use crate::testing::{
    START, World,
    best_effort::{TTL, VIEWS, VIEWS_ID},
};
use quipu_adapters::ports::BestEffort;
use quipu_core::{event::CounterKey, name::CounterName};
use serde_json::{Value, json};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const ALMOST: Duration = TTL.saturating_sub(SECOND);

fn path(rest: &str) -> String {
    format!("/v1/namespaces/{VIEWS}/{rest}")
}

async fn add(world: &World, name: &str, delta: i64) -> Value {
    let answer = post(
        world,
        &path(&format!("counters/{name}:add")),
        json!({"delta": delta}),
    )
    .await;
    answer.body
}

async fn count(world: &World, name: &str) -> Value {
    send(world, "GET", &path(&format!("counters/{name}")), "")
        .await
        .body
}

#[tokio::test]
async fn a_best_effort_add_says_that_it_is_not_idempotent_and_a_count_that_it_is_approximate() {
    let world = World::with_best_effort();
    assert_eq!(
        count(&world, "a").await,
        json!({"count": "0", "approximate": true})
    );
    let accepted = json!({"status": "ACCEPTED", "idempotent": false});
    assert_eq!(add(&world, "a", 5).await, accepted);
    let body = json!({"delta": "-2"});
    let both = post(&world, &path("counters/a:addAndGet"), body).await.body;
    let expected = json!({
        "status": "ACCEPTED", "idempotent": false, "count": "3", "approximate": true,
        "includes_add": true,
    });
    assert_eq!(both, expected);
    assert_eq!(
        count(&world, "a").await,
        json!({"count": "3", "approximate": true})
    );
    let cleared = post(&world, &path("counters/a:clear"), json!({}))
        .await
        .body;
    assert_eq!(cleared, accepted);
    assert_eq!(count(&world, "a").await["count"], "0");
    assert!(world.appended_events().is_empty(), "nothing is logged");
    assert!(world.signals().await.is_empty(), "nothing is rolled up");
}

#[tokio::test]
async fn a_token_is_ignored_so_that_a_best_effort_add_counts_each_time() {
    let world = World::with_best_effort();
    // Far too late for a namespace that keeps events.
    let late = token("t", START - Duration::from_hours(24));
    let body = json!({"delta": 1, "idempotency_token": late, "item_key": "i"});
    for counted in ["1", "2", "3"] {
        let answer = post(&world, &path("counters/a:addAndGet"), body.clone())
            .await
            .body;
        assert_eq!(answer["count"], counted);
        assert_eq!(answer.get("idempotency_token"), None);
    }
}

#[tokio::test]
async fn a_best_effort_counter_lives_as_long_as_its_namespace_says_from_its_last_add_on() {
    let world = World::with_best_effort();
    add(&world, "a", 1).await;
    world.pass(ALMOST);
    add(&world, "a", 1).await;
    world.pass(ALMOST);
    assert_eq!(count(&world, "a").await["count"], "2");
    world.pass(SECOND);
    assert_eq!(count(&world, "a").await["count"], "0");
}

#[tokio::test]
async fn an_item_of_a_best_effort_batch_fails_alone_and_in_its_place() {
    let world = World::with_best_effort();
    add(&world, "full", i64::MAX).await;
    let items = json!({"items": [
        {"counter_name": "a", "delta": 1},
        {"counter_name": "", "delta": 1},
        {"counter_name": "full", "delta": 1},
        {"counter_name": "a", "delta": 1},
        {"counter_name": "a"}]});
    let answer = post(&world, &path("counters:batchAdd"), items).await;
    let results = answer.body["results"].as_array().unwrap();
    let accepted = json!({"status": "ACCEPTED", "idempotent": false});
    assert_eq!((&results[0], &results[3]), (&accepted, &accepted));
    let reasons = [1, 2, 4].map(|at: usize| results[at]["error"]["details"][0]["reason"].clone());
    assert_eq!(
        reasons,
        ["INVALID_FIELD", "COUNT_OUT_OF_RANGE", "INVALID_FIELD"]
    );
    assert_eq!(count(&world, "a").await["count"], "2");
    assert_eq!(count(&world, "full").await["count"], i64::MAX.to_string());
}

#[tokio::test]
async fn a_best_effort_mutation_whose_outcome_is_unknown_asks_for_no_retry() {
    let world = World::with_best_effort();
    world.go_down();
    for (call, body) in [
        ("add", json!({"delta": 1})),
        ("addAndGet", json!({"delta": 1})),
        ("clear", json!({})),
    ] {
        let answer = post(&world, &path(&format!("counters/a:{call}")), body).await;
        assert_eq!(answer.error(), (503, "UNAVAILABLE", "NOT_IDEMPOTENT"));
        assert_eq!(answer.headers.get("retry-after"), None);
        assert!(
            answer.message().contains("do not retry"),
            "{}",
            answer.message()
        );
    }
    // A read may be repeated.
    let read = send(&world, "GET", &path("counters/a"), "").await;
    assert_eq!(read.error(), (503, "UNAVAILABLE", "STORAGE_UNAVAILABLE"));
    assert!(read.headers.contains_key("retry-after"));
}

#[tokio::test]
async fn what_a_best_effort_call_refuses_changes_nothing() {
    let world = World::with_best_effort();
    add(&world, "a", i64::MIN).await;
    let answer = post(&world, &path("counters/a:add"), json!({"delta": -1})).await;
    assert_eq!(answer.error(), (400, "OUT_OF_RANGE", "COUNT_OUT_OF_RANGE"));
    let nameless = post(&world, &path("counters/%00:add"), json!({"delta": -1})).await;
    assert_eq!(nameless.error().2, "INVALID_FIELD");
    let kept = CounterKey {
        namespace: VIEWS_ID,
        name: CounterName::new("a").unwrap(),
    };
    assert_eq!(world.best_effort.get(&kept).await, Ok(Some(i64::MIN)));
}

#[tokio::test]
async fn a_best_effort_namespace_has_no_events_to_look_up() {
    let world = World::with_best_effort();
    let body = json!({"counter_name": "a", "idempotency_token": token("t", START)});
    let answer = post(&world, &path("events:lookup"), body).await;
    assert_eq!(
        answer.error(),
        (400, "FAILED_PRECONDITION", "KEEPS_NO_EVENTS")
    );
}
