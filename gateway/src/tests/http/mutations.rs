use super::{Answer, add, path, post, send, token};
use crate::testing::{START, World};
use axum::{
    body::Body,
    http::{Request, StatusCode, header},
};
use quipu_core::{event::Mutation, policy::PolicyBook, time::Micros};
use quipu_schemas::timestamp::to_rfc3339;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tower::ServiceExt;

#[tokio::test]
async fn an_add_is_accepted_and_appended_once() {
    let world = World::new();
    let answer = post(&world, &path("counters/a:add"), add(-3, START)).await;
    assert_eq!(
        (answer.status, answer.body),
        (StatusCode::OK, json!({"status": "ACCEPTED"}))
    );
    let events = world.appended_events();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].counter.as_str(), "a");
    assert_eq!(events[0].mutation, Mutation::Add(-3));
    assert_eq!(events[0].key.event_time, START);
}

#[tokio::test]
async fn a_missing_token_is_made_and_returned() {
    let world = World::new();
    let answer = post(&world, &path("counters/a:add"), json!({"delta": 1})).await;
    let made = &answer.body["idempotency_token"];
    let event = world.appended_events().remove(0);
    assert_eq!(made["token"], event.key.event_id.as_str());
    assert_eq!(made["generation_time"], to_rfc3339(START));
    assert_eq!(event.key.event_time, START);
}

#[tokio::test]
async fn a_namespace_that_does_not_exist_is_not_found() {
    let world = World::new();
    for (method, path) in [
        ("POST", "/v1/namespaces/none/counters/a:add"),
        ("GET", "/v1/namespaces/none/counters/a"),
        ("GET", "/v1/namespaces/none"),
        ("DELETE", "/v1/namespaces/none"),
    ] {
        let answer = send(&world, method, path, add(1, START).to_string()).await;
        assert_eq!(
            answer.error(),
            (404, "NOT_FOUND", "UNKNOWN_NAMESPACE"),
            "{method} {path}"
        );
    }
}

#[tokio::test]
async fn a_time_too_far_ahead_is_refused_with_the_limit_and_the_servers_time() {
    let world = World::new();
    let five = Duration::from_secs(5);
    let answer = post(
        &world,
        &path("counters/a:add"),
        add(1, (START + five).succ()),
    )
    .await;
    assert_eq!(answer.error(), (400, "INVALID_ARGUMENT", "TOO_FAR_AHEAD"));
    assert!(answer.message().contains("5s"), "{}", answer.message());
    assert!(
        answer.message().contains("2026-01-31T12:00:00Z"),
        "{}",
        answer.message()
    );
    let answer = post(&world, &path("counters/a:add"), add(1, START + five)).await;
    assert_eq!(answer.status, StatusCode::OK);
}

#[tokio::test]
async fn a_late_mutation_is_answered_by_what_became_of_it() {
    let world = World::new();
    post(&world, &path("counters/a:add"), add(1, START)).await;
    world.hands.advance(Duration::from_secs(10));
    // The watermark stays behind: the first attempt may still be in the log.
    let open = post(&world, &path("counters/a:add"), add(1, START)).await;
    assert_eq!(open.error(), (503, "UNAVAILABLE", "WINDOW_OPEN"));
    assert_eq!(open.headers[header::RETRY_AFTER], "1");
    assert_eq!(open.body["error"]["details"][1]["retry_delay"], "1s");

    world.ingest().await;
    world.pass(Duration::ZERO);
    let applied = post(&world, &path("counters/a:add"), add(1, START)).await;
    assert_eq!(applied.body, json!({"status": "ALREADY_APPLIED"}));
    let late = post(&world, &path("counters/b:add"), add(1, START)).await;
    assert_eq!(late.error(), (400, "FAILED_PRECONDITION", "LATE"));
    world.drop_slice().await;
    let unknown = post(&world, &path("counters/b:add"), add(1, START)).await;
    assert_eq!(
        unknown.error(),
        (400, "FAILED_PRECONDITION", "OUTCOME_UNKNOWN")
    );
    // Before the namespace existed nothing was accepted, dropped or not.
    let ancient = post(&world, &path("counters/b:add"), add(1, Micros::new(0))).await;
    assert_eq!(ancient.error(), (400, "FAILED_PRECONDITION", "LATE"));
    assert_eq!(
        world.appended_events().len(),
        1,
        "late mutations are not appended"
    );
}

#[tokio::test]
async fn an_append_that_took_too_long_is_unavailable_not_accepted() {
    let world = World::new();
    world.stall(Duration::from_secs(6));
    let answer = post(&world, &path("counters/a:add"), add(1, START)).await;
    assert_eq!(answer.error(), (503, "UNAVAILABLE", "UNDECIDED"));
    assert_eq!(world.appended_events().len(), 1);
}

#[tokio::test]
async fn beyond_the_policys_grant_nothing_is_answered() {
    let world = World::new();
    let (name, history) = {
        let book = world.policies.borrow();
        let (name, history) = book.iter().next().unwrap();
        (name.clone(), history.as_ref().clone())
    };
    let book = PolicyBook::new([(name, history)], START.pred());
    world.policies.send_replace(Arc::new(book));
    let answer = post(&world, &path("counters/a:add"), add(1, START)).await;
    assert_eq!(answer.error(), (503, "UNAVAILABLE", "POLICY_EXPIRED"));
    let ready = send(&world, "GET", "/healthz/ready", "").await;
    assert_eq!(ready.error(), (503, "UNAVAILABLE", "NOT_READY"));
}

#[tokio::test]
async fn one_bad_item_of_a_batch_fails_alone() {
    let world = World::new();
    world.pass(Duration::from_secs(10));
    let now = world.clock.now();
    let item = |name: &str, delta: Value, time| json!({"counter_name": name, "delta": delta, "idempotency_token": token("t", time)});
    let items = json!({"items": [
        item("a", json!(1), now),
        item("", json!(1), now),
        item("b", json!("9223372036854775808"), now),
        item("c", json!(1), START),
        {"counter_name": "d", "delta": 1, "idempotency_token": {"token": "t", "time": 1}},
        item("e", json!("2"), now),
        {"counter_name": "f", "delta": 1},
    ]});
    let answer = post(&world, &path("counters:batchAdd"), items).await;
    assert_eq!(answer.status, StatusCode::OK);
    let results = answer.body["results"].as_array().unwrap();
    let said: Vec<_> = results
        .iter()
        .map(|r| {
            r["status"]
                .as_str()
                .or(r["error"]["details"][0]["reason"].as_str())
                .unwrap()
        })
        .collect();
    let bad = "INVALID_FIELD";
    assert_eq!(
        said,
        ["ACCEPTED", bad, bad, "LATE", bad, "ACCEPTED", "ACCEPTED"]
    );
    let field = |i: usize| &results[i]["error"]["details"][1]["field_violations"][0]["field"];
    assert_eq!(field(2), "items[2].delta");
    assert_eq!(field(4), "items[4].idempotency_token.time");
    assert!(results[6]["idempotency_token"]["token"].is_string());
    let names: Vec<_> = world
        .appended_events()
        .iter()
        .map(|e| e.counter.to_string())
        .collect();
    assert_eq!(names, ["a", "e", "f"]);
}

#[tokio::test]
async fn a_batch_has_at_most_1000_items() {
    let world = World::new();
    let items = |count: usize, item: Value| json!({"items": vec![item; count]});
    let good = json!({"counter_name": "a", "delta": 1});
    for (item, what) in [(good.clone(), "good"), (json!({}), "bad")] {
        let answer = post(&world, &path("counters:batchAdd"), items(1_001, item)).await;
        assert_eq!(
            answer.error(),
            (400, "INVALID_ARGUMENT", "TOO_MANY_ITEMS"),
            "{what}"
        );
    }
    assert!(world.appended_events().is_empty());
    let answer = post(&world, &path("counters:batchAdd"), items(1_000, good)).await;
    assert_eq!(answer.body["results"].as_array().unwrap().len(), 1_000);
    assert_eq!(world.appended_events().len(), 1_000);
    let empty = post(&world, &path("counters:batchAdd"), json!({"items": []})).await;
    assert_eq!(empty.body, json!({"results": []}));
    let unknown = post(
        &world,
        &path("counters:batchAdd"),
        json!({"items": [], "x": 1}),
    )
    .await;
    assert_eq!(unknown.field(), "x");
}

#[tokio::test]
async fn a_clear_is_an_event_and_a_signal() {
    let world = World::new();
    let body = json!({"idempotency_token": token("t", START)});
    let router = world.router();
    let request = Request::post(path("counters/a:clear"))
        .header(header::CONTENT_TYPE, "application/json; charset=utf-8")
        .body(Body::from(body.to_string()))
        .unwrap();
    let answer = Answer::read(router.clone().oneshot(request).await.unwrap()).await;
    assert_eq!(answer.body, json!({"status": "ACCEPTED"}));
    assert_eq!(world.appended_events()[0].mutation, Mutation::Clear);
    let signals = world.signals().await;
    assert_eq!(signals.len(), 1);
    assert_eq!(signals[0].last_write, Some(START));
    let refused = post(&world, &path("counters/a:clear"), json!({"delta": 1})).await;
    assert_eq!(refused.field(), "delta");
}
