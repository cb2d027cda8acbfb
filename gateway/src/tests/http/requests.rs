use super::{Answer, add, path, post, send, token};
use crate::testing::{START, World};
use axum::{
    body::Body,
    http::{Request, StatusCode, header},
};
use serde_json::{Value, json};
use tower::ServiceExt;

#[tokio::test]
async fn deltas_are_numbers_or_strings_of_64_bits() {
    let world = World::new();
    let body = |delta: Value| json!({"delta": delta, "idempotency_token": token("t", START)});
    for good in [
        json!(i64::MIN),
        json!(i64::MIN.to_string()),
        json!("9223372036854775807"),
    ] {
        let answer = post(&world, &path("counters/a:add"), body(good.clone())).await;
        assert_eq!(answer.status, StatusCode::OK, "{good}");
    }
    for bad in [
        json!(9_223_372_036_854_775_808_u64),
        json!("9223372036854775808"),
        json!("-9223372036854775809"),
        json!(1.5),
        json!("1.0"),
        json!(""),
        json!(null),
        json!(true),
    ] {
        let answer = post(&world, &path("counters/a:add"), body(bad.clone())).await;
        assert_eq!(
            answer.error(),
            (400, "INVALID_ARGUMENT", "INVALID_FIELD"),
            "{bad}"
        );
        assert_eq!(answer.field(), "delta", "{bad}");
    }
    let huge = r#"{"delta": 99999999999999999999999}"#;
    let answer = send(&world, "POST", &path("counters/a:add"), huge).await;
    assert_eq!(answer.error(), (400, "INVALID_ARGUMENT", "INVALID_FIELD"));
}

#[tokio::test]
async fn names_may_hold_slashes_colons_and_unicode() {
    let world = World::new();
    for (raw, name) in [("a%2Fb%3A", "a/b:"), ("a:add", "a:add"), ("%E2%9C%93", "✓")] {
        let answer = post(&world, &path(&format!("counters/{raw}:add")), add(1, START)).await;
        assert_eq!(answer.status, StatusCode::OK, "{raw}");
        assert_eq!(
            world.appended_events().last().unwrap().counter.as_str(),
            name
        );
        let answer = send(&world, "GET", &path(&format!("counters/{raw}")), "").await;
        assert_eq!(answer.status, StatusCode::OK, "{raw}");
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_request_is_said_with_its_place() {
    let world = World::new();
    let long = format!("counters/{}:add", "x".repeat(1025));
    let good = || add(1, START).to_string();
    let unknown = json!({"delta": 1, "idempotency_token": {"token": "t", "time": "x"}});
    let bad_time = json!({"delta": 1, "idempotency_token": {"token": "t", "generation_time": "x"}});
    for (path, body, field) in [
        (
            "/v1/namespaces/Bad/counters/a:add".to_owned(),
            good(),
            "namespace",
        ),
        (path(&long), good(), "counter_name"),
        (path("counters/:add"), good(), "counter_name"),
        (path("counters/a%00:add"), good(), "counter_name"),
        (path("counters/%ff:add"), good(), "counter_name"),
        (
            path("counters/a:add"),
            json!({"delta": 1, "extra": 2}).to_string(),
            "extra",
        ),
        (
            path("counters/a:add"),
            unknown.to_string(),
            "idempotency_token.time",
        ),
        (
            path("counters/a:add"),
            bad_time.to_string(),
            "idempotency_token.generation_time",
        ),
        (
            path("counters/a:add"),
            json!({"delta": 1, "item_key": "k".repeat(129)}).to_string(),
            "item_key",
        ),
        (
            path("counters/a:add"),
            json!({"delta": 1, "idempotency_token": token("", START)}).to_string(),
            "idempotency_token.token",
        ),
    ] {
        let answer = send(&world, "POST", &path, body).await;
        assert_eq!(
            answer.error(),
            (400, "INVALID_ARGUMENT", "INVALID_FIELD"),
            "{path}"
        );
        assert_eq!(answer.field(), field, "{path}: {}", answer.message());
    }
    assert!(world.appended_events().is_empty());
}

#[tokio::test]
async fn a_missing_field_is_named_with_its_whole_path() {
    let world = World::new();
    let no_time = json!({"delta": 1, "idempotency_token": {"token": "t"}});
    let lookup = json!({"counter_name": "a"});
    for (method, path, body, field) in [
        ("POST", path("counters/a:add"), json!({}), "delta"),
        (
            "POST",
            path("counters/a:add"),
            no_time,
            "idempotency_token.generation_time",
        ),
        ("POST", path("events:lookup"), lookup, "idempotency_token"),
        (
            "PUT",
            "/v1/namespaces/web".to_owned(),
            json!({"namespace": "web", "persistence": [{"id": "CACHE"}]}),
            "persistence[0].physical_storage",
        ),
    ] {
        let answer = send(&world, method, &path, body.to_string()).await;
        assert_eq!(
            answer.error(),
            (400, "INVALID_ARGUMENT", "INVALID_FIELD"),
            "{body}"
        );
        assert_eq!(answer.field(), field, "{body}: {}", answer.message());
    }
}

#[tokio::test]
async fn malformed_json_is_refused_with_line_and_column() {
    let world = World::new();
    for body in [
        "{\n\"delta\": 1,,}",
        "",
        "{\"delta\": 1} x",
        "{\"delta\": 1",
    ] {
        let document = body.replace("\"delta\": 1", "\"namespace\": \"web\"");
        for (method, path, body) in [
            ("POST", path("counters/a:add"), body.to_owned()),
            ("PUT", "/v1/namespaces/web".to_owned(), document),
        ] {
            let answer = send(&world, method, &path, body.clone()).await;
            assert_eq!(
                answer.error(),
                (400, "INVALID_ARGUMENT", "MALFORMED_JSON"),
                "{body}"
            );
            let message = answer.message();
            assert!(
                message.contains("line") && message.contains("column"),
                "{message}"
            );
        }
    }
}

#[tokio::test]
async fn an_array_of_the_values_is_no_object() {
    let world = World::new();
    for (method, path, body) in [
        ("POST", path("counters/a:add"), "[1]"),
        ("POST", path("counters/a:clear"), "[null]"),
        (
            "POST",
            path("counters/a:add"),
            r#"{"delta": 1, "idempotency_token": ["t", "2026-01-31T12:00:00Z"]}"#,
        ),
        ("POST", path("counters:batchAdd"), "[[]]"),
        ("POST", path("counters:batchGet"), "[[]]"),
        ("PUT", "/v1/namespaces/web".to_owned(), r#"["web"]"#),
    ] {
        let answer = send(&world, method, &path, body).await;
        let expected = (400, "INVALID_ARGUMENT", "INVALID_FIELD");
        assert_eq!(answer.error(), expected, "{body}");
        assert!(answer.message().contains("expected an object"), "{body}");
    }
    let batch = r#"{"items": [["a", 1], {"counter_name": "a", "delta": 1}]}"#;
    let answer = send(&world, "POST", &path("counters:batchAdd"), batch).await;
    let results = &answer.body["results"];
    assert_eq!(results[0]["error"]["code"], "INVALID_ARGUMENT");
    assert_eq!(results[1]["status"], "ACCEPTED");
}

#[tokio::test]
async fn only_json_that_says_so_is_taken() {
    let world = World::new();
    for content_type in [
        None,
        Some("text/plain"),
        Some("application/x-www-form-urlencoded"),
    ] {
        let mut request = Request::post(path("counters/a:clear"));
        if let Some(content_type) = content_type {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        let request = request.body(Body::from("{}")).unwrap();
        let answer = Answer::read(world.router().oneshot(request).await.unwrap()).await;
        assert_eq!(
            answer.error(),
            (415, "INVALID_ARGUMENT", "WRONG_CONTENT_TYPE")
        );
    }
}

#[tokio::test]
async fn a_body_over_4_mib_is_refused_whether_announced_or_not() {
    let world = World::new();
    let body = || "x".repeat(4 * 1024 * 1024 + 1);
    let chunks = futures::stream::iter([Ok::<_, std::io::Error>(body())]);
    for body in [Body::from(body()), Body::from_stream(chunks)] {
        let answer = send(&world, "POST", &path("counters:batchAdd"), body).await;
        assert_eq!(answer.error(), (413, "INVALID_ARGUMENT", "BODY_TOO_LARGE"));
    }
}

#[tokio::test]
async fn paths_and_methods_that_are_no_calls_have_the_same_error_shape() {
    let world = World::new();
    let answer = send(&world, "GET", "/nothing", "").await;
    assert_eq!(answer.error(), (404, "NOT_FOUND", "NO_SUCH_CALL"));
    let answer = send(&world, "POST", &path("counters/a:subtract"), "{}").await;
    assert_eq!(answer.error(), (404, "NOT_FOUND", "NO_SUCH_CALL"));
    let answer = send(&world, "DELETE", &path("counters/a"), "").await;
    assert_eq!(answer.error(), (405, "UNIMPLEMENTED", "METHOD_NOT_ALLOWED"));
    assert_eq!(answer.headers[header::ALLOW], "GET, HEAD");
    let answer = send(&world, "DELETE", &path("counters/a:add"), "").await;
    assert_eq!(answer.headers[header::ALLOW], "GET, HEAD, POST");
}

#[tokio::test]
async fn a_server_tells_of_itself() {
    let world = World::new();
    assert_eq!(
        send(&world, "GET", "/healthz/live", "").await.status,
        StatusCode::OK
    );
    assert_eq!(
        send(&world, "GET", "/healthz/ready", "").await.status,
        StatusCode::OK
    );
    let metrics = send(&world, "GET", "/metrics", "").await;
    assert_eq!(metrics.body, "quipu_up 1\n");
    let index = send(&world, "GET", "/", "").await;
    assert!(
        index.body["calls"]
            .as_array()
            .is_some_and(|calls| calls.len() > 10)
    );
}
