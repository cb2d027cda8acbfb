use super::{Answer, add, path, post, send, token};
use crate::testing::{START, World, counter};
use axum::{
    body::Body,
    http::{Request, StatusCode, header},
};
use quipu_adapters::ports::RollupStore;
use quipu_core::{
    aggregate::Count,
    checkpoint::{Checkpoint, Generation},
    time::Micros,
};
use serde_json::json;
use std::time::Duration;
use tower::ServiceExt;

fn checkpoint(count: i128, last_rollup: Micros) -> Checkpoint {
    Checkpoint {
        generation: Generation::default(),
        count: Count::new(count),
        last_rollup,
    }
}

#[tokio::test]
async fn a_read_answers_from_the_rollup_store_and_fills_the_cache() {
    let world = World::new();
    let closed = START - Duration::from_secs(5);
    let rows = vec![(counter("a"), checkpoint(41, closed))];
    world.rollups.put(rows).await.unwrap();
    let answer = send(&world, "GET", &path("counters/a"), "").await;
    let expected = json!({"count": "41", "complete_through": "2026-01-31T11:59:55Z"});
    assert_eq!(answer.body, expected);
    assert_eq!(world.cached("a"), Some(checkpoint(41, closed)));
    assert!(world.signals().await.is_empty(), "it is fresh");
    let both = post(&world, &path("counters/a:addAndGet"), add(1, START)).await;
    assert_eq!(both.body["status"], "ACCEPTED");
    assert_eq!(both.body["count"], "41");
}

#[tokio::test]
async fn a_stale_read_signals_its_counter_once_a_second() {
    let world = World::new();
    let router = world.router();
    let read = || async {
        let request = Request::get(path("counters/a"))
            .body(Body::empty())
            .unwrap();
        Answer::read(router.clone().oneshot(request).await.unwrap()).await
    };
    for _ in 0..3 {
        let answer = read().await;
        let expected = json!({"count": "0", "complete_through": "2026-01-31T10:59:55Z"});
        assert_eq!(
            answer.body, expected,
            "never rolled up: zero since its namespace began"
        );
    }
    let signals = world.signals().await;
    assert_eq!(signals.len(), 1);
    assert_eq!(
        (signals[0].counter.name.as_str(), signals[0].last_write),
        ("a", None)
    );
    world.pass(Duration::from_secs(1));
    read().await;
    assert_eq!(world.signals().await.len(), 2);
}

#[tokio::test]
async fn without_the_log_nothing_is_accepted_but_without_the_cache_reads_go_on() {
    let world = World::new();
    world.go_down();
    let answer = post(&world, &path("counters/a:add"), add(1, START)).await;
    assert_eq!(answer.error(), (503, "UNAVAILABLE", "STORAGE_UNAVAILABLE"));
    world
        .rollups
        .put(vec![(counter("a"), checkpoint(41, START))])
        .await
        .unwrap();
    let answer = send(&world, "GET", &path("counters/a"), "").await;
    assert_eq!(answer.body["count"], "41");
}

#[tokio::test]
async fn a_count_beyond_64_bits_is_an_error_with_its_exact_value() {
    let world = World::new();
    let large = checkpoint(i128::from(i64::MAX) + 1, START);
    world
        .rollups
        .put(vec![(counter("a"), large)])
        .await
        .unwrap();
    let answer = send(&world, "GET", &path("counters/a"), "").await;
    assert_eq!(answer.error(), (400, "OUT_OF_RANGE", "COUNT_OUT_OF_RANGE"));
    assert!(
        answer.message().contains("9223372036854775808"),
        "{}",
        answer.message()
    );
}

#[tokio::test]
async fn a_look_up_tells_what_became_of_an_event() {
    let world = World::new();
    post(&world, &path("counters/a:add"), add(7, START)).await;
    let look = |name: &str, time| {
        let body = json!({"counter_name": name, "idempotency_token": token("t", time)});
        let world = world.clone();
        async move { post(&world, &path("events:lookup"), body).await.body }
    };
    assert_eq!(look("a", START).await, json!({"outcome": "NOT_YET_KNOWN"}));
    world.ingest().await;
    let stored = look("a", START).await;
    let event = json!({
        "delta": "7", "event_time": "2026-01-31T12:00:00Z", "source_partition": 0,
        "source_offset": "0", "effective_time": "2026-01-31T12:00:00Z",
    });
    assert_eq!(stored, json!({"outcome": "STORED", "event": event}));
    world.pass(Duration::from_secs(10));
    assert_eq!(look("b", START).await, json!({"outcome": "NOT_STORED"}));
    world.drop_slice().await;
    assert_eq!(look("b", START).await, json!({"outcome": "UNKNOWN"}));
    assert_eq!(
        look("b", Micros::new(0)).await,
        json!({"outcome": "NOT_STORED"})
    );
}

#[tokio::test]
async fn a_namespace_is_put_shown_listed_and_deleted() {
    let world = World::new();
    let put = send(
        &world,
        "PUT",
        "/v1/namespaces/new",
        r#"{"namespace": "new"}"#,
    )
    .await;
    assert_eq!(put.status, StatusCode::OK);
    assert_eq!(put.headers[header::ETAG], "\"1\"");
    let shown = send(&world, "GET", "/v1/namespaces/new", "").await;
    assert_eq!(shown.body, put.body);
    let again = send(&world, "PUT", "/v1/namespaces/new", shown.body.to_string()).await;
    assert_eq!(
        again.status,
        StatusCode::OK,
        "what is shown can be put back"
    );
    let list = send(&world, "GET", "/v1/namespaces", "").await;
    assert_eq!(list.body["namespaces"].as_array().unwrap().len(), 2);
    let deleted = send(&world, "DELETE", "/v1/namespaces/new", "").await;
    assert_eq!(deleted.status, StatusCode::OK);

    for (body, field) in [
        (r#"{"namespace": "other"}"#, "namespace"),
        (r#"{"namespace": "new", "rollup": {"x": 1}}"#, "rollup.x"),
        (
            r#"{"namespace": "new", "accept_limit": "5"}"#,
            "accept_limit",
        ),
    ] {
        let answer = send(&world, "PUT", "/v1/namespaces/new", body).await;
        assert_eq!(
            answer.error(),
            (400, "INVALID_ARGUMENT", "INVALID_FIELD"),
            "{body}"
        );
        assert_eq!(answer.field(), field);
    }
    let refused = r#"{"namespace": "new", "persistence": [{"id": "CACHE", "physical_storage": {"type": "REDIS"}}]}"#;
    let answer = send(&world, "PUT", "/v1/namespaces/new", refused).await;
    assert_eq!(
        answer.error(),
        (400, "FAILED_PRECONDITION", "NAMESPACE_REFUSED")
    );
}
