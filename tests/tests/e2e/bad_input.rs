//! Everything that a caller can get wrong, and the error of `docs/errors.md` for it.

use crate::{
    http::{Api, error_of},
    process::Place,
};
use quipu_adapters::clock::Clock;
use quipu_core::time::Micros;
use quipu_schemas::timestamp::to_rfc3339;
use serde_json::{Value, json};
use std::{fmt::Display, fs, iter};

const ADD: &str = "/v1/namespaces/default/counters/a:add";
const BATCH: &str = "/v1/namespaces/default/counters:batchAdd";
const LOOKUP: &str = "/v1/namespaces/default/events:lookup";
const JSON: &str = "application/json";

struct Case {
    method: &'static str,
    path: String,
    content_type: &'static str,
    body: Vec<u8>,
    expected: (u16, &'static str, &'static str),
}

fn post(path: &str, body: impl Display, reason: &'static str) -> Case {
    let expected = match reason {
        "UNKNOWN_NAMESPACE" | "NO_SUCH_CALL" => (404, "NOT_FOUND", reason),
        "BODY_TOO_LARGE" => (413, "INVALID_ARGUMENT", reason),
        "WRONG_CONTENT_TYPE" => (415, "INVALID_ARGUMENT", reason),
        "LATE" | "NAMESPACE_REFUSED" => (400, "FAILED_PRECONDITION", reason),
        "METHOD_NOT_ALLOWED" => (405, "UNIMPLEMENTED", reason),
        _ => (400, "INVALID_ARGUMENT", reason),
    };
    Case {
        method: "POST",
        path: path.to_owned(),
        content_type: JSON,
        body: body.to_string().into_bytes(),
        expected,
    }
}

fn put(body: &str, reason: &'static str) -> Case {
    Case {
        method: "PUT",
        ..post("/v1/namespaces/web", body, reason)
    }
}

fn at(time: &str) -> Value {
    json!({"delta": 1, "idempotency_token": {"token": "t", "generation_time": time}})
}

fn names() -> Vec<Case> {
    let long = "a".repeat(1_025);
    let counter = |name: &str| format!("/v1/namespaces/default/counters/{name}:add");
    let one = r#"{"delta": 1}"#;
    vec![
        post(&counter(&long), one, "INVALID_FIELD"),
        post(&counter("%00"), one, "INVALID_FIELD"),
        post(&counter("%FF"), one, "INVALID_FIELD"),
        post(&counter(""), one, "INVALID_FIELD"),
        post("/v1/namespaces/Web/counters/a:add", one, "INVALID_FIELD"),
        post("/v1/namespaces/1web/counters/a:add", one, "INVALID_FIELD"),
        post(
            "/v1/namespaces/nobody/counters/a:add",
            one,
            "UNKNOWN_NAMESPACE",
        ),
        post(
            "/v1/namespaces/nobody/counters:batchAdd",
            r#"{"items": []}"#,
            "UNKNOWN_NAMESPACE",
        ),
        post(
            "/v1/namespaces/default/counters/a:shout",
            one,
            "NO_SUCH_CALL",
        ),
        post("/v2/anything", one, "NO_SUCH_CALL"),
        Case {
            method: "DELETE",
            ..post(ADD, "", "METHOD_NOT_ALLOWED")
        },
    ]
}

fn bodies() -> Vec<Case> {
    let token = |text: &str| {
        json!({"delta": 1, "idempotency_token":
            {"token": text, "generation_time": "2026-01-31T12:00:00Z"}})
    };
    let item_key = json!({"delta": 1, "item_key": "k".repeat(129)});
    vec![
        post(ADD, "", "MALFORMED_JSON"),
        post(ADD, "{", "MALFORMED_JSON"),
        post(ADD, r#"{"delta": 1}}"#, "MALFORMED_JSON"),
        post(ADD, "[]", "INVALID_FIELD"),
        post(ADD, "{}", "INVALID_FIELD"),
        post(ADD, r#"{"delta": 1, "detla": 1}"#, "INVALID_FIELD"),
        post(ADD, r#"{"delta": 1, "delta": 1}"#, "INVALID_FIELD"),
        post(ADD, r#"{"delta": 9223372036854775808}"#, "INVALID_FIELD"),
        post(ADD, r#"{"delta": "-9223372036854775809"}"#, "INVALID_FIELD"),
        post(ADD, r#"{"delta": 1.0}"#, "INVALID_FIELD"),
        post(ADD, r#"{"delta": null}"#, "INVALID_FIELD"),
        post(ADD, token(""), "INVALID_FIELD"),
        post(ADD, token(&"t".repeat(129)), "INVALID_FIELD"),
        post(ADD, item_key, "INVALID_FIELD"),
        post(ADD, at("yesterday"), "INVALID_FIELD"),
        post(ADD, at("2026-01-31T12:00:00"), "INVALID_FIELD"),
        post(LOOKUP, r#"{"counter_name": "a"}"#, "INVALID_FIELD"),
        post(BATCH, r#"{"items": 1}"#, "INVALID_FIELD"),
        Case {
            content_type: "text/plain",
            ..post(ADD, r#"{"delta": 1}"#, "WRONG_CONTENT_TYPE")
        },
    ]
}

fn sizes() -> Vec<Case> {
    let items = |count| json!({"items": vec![json!({"counter_name": "a", "delta": 0}); count]});
    let padded = |length: usize| {
        let body = r#"{"delta": 0}"#;
        body.to_owned() + &" ".repeat(length - body.len())
    };
    vec![
        post(BATCH, items(1_001), "TOO_MANY_ITEMS"),
        post(ADD, padded((4 << 20) + 1), "BODY_TOO_LARGE"),
        post(BATCH, padded((4 << 20) + 1), "BODY_TOO_LARGE"),
    ]
}

fn times() -> Vec<Case> {
    let now = Clock::system().now().get();
    let ago = |seconds: i64| at(&to_rfc3339(Micros::new(now - seconds * 1_000_000)));
    // All of them are older than the namespace, so their outcome is known however old they are.
    vec![
        post(ADD, ago(-3_600), "TOO_FAR_AHEAD"),
        post(ADD, at("9999-12-31T23:59:59Z"), "TOO_FAR_AHEAD"),
        post(ADD, ago(3_600), "LATE"),
        post(ADD, at("0001-01-01T00:00:00Z"), "LATE"),
        post(ADD, ago(8 * 86_400), "LATE"),
    ]
}

fn documents() -> Vec<Case> {
    vec![
        put("{", "MALFORMED_JSON"),
        put(r#"{"namespace": "other"}"#, "INVALID_FIELD"),
        put(r#"{"namespace": "web", "colour": 1}"#, "INVALID_FIELD"),
        put(
            r#"{"namespace": "web", "accept_limit": "5"}"#,
            "INVALID_FIELD",
        ),
        put(
            r#"{"namespace": "web", "accept_limit": "25h"}"#,
            "INVALID_FIELD",
        ),
        put(
            r#"{"namespace": "web", "persistence": [
                {"id": "CACHE", "physical_storage": {"type": "REDIS"}}]}"#,
            "NAMESPACE_REFUSED",
        ),
    ]
}

#[test]
fn each_bad_input_gets_its_documented_error_and_the_server_goes_on() {
    let errors = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/errors.md");
    let documented = fs::read_to_string(errors).expect("the page of errors");
    let place = Place::new();
    let server = place.start();
    let mut wrong = Vec::new();
    for api in [Api::new(&server.http), Api::new(&server.grpc)] {
        let cases = [names(), bodies(), sizes(), times(), documents()];
        for case in cases.into_iter().flatten() {
            let shown = String::from_utf8_lossy(&case.body[..case.body.len().min(80)]).into_owned();
            let (expected_status, code, reason) = case.expected;
            assert!(
                documented.contains(&format!("| `{code}` | {expected_status} | `{reason}` |")),
                "{reason} is not documented as {code}"
            );
            let answer = api.send(case.method, &case.path, case.content_type, case.body);
            let (status, answer) = answer.expect("it answers");
            let (got_code, got_reason) = error_of(&answer);
            if (status, got_code.as_str(), got_reason.as_str()) != case.expected {
                let path = &case.path[..case.path.len().min(80)];
                let expected = case.expected;
                wrong.push(format!(
                    "{} {path} {shown}: {expected:?}, not {status} {answer}",
                    case.method
                ));
            }
            let (status, answer) = api.post(ADD, &json!({"delta": 0})).expect("it answers");
            assert_eq!(
                (status, &answer["status"]),
                (200, &json!("ACCEPTED")),
                "after {shown}"
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    place.assert_no_panic();
}

#[test]
fn a_bad_item_of_a_batch_fails_alone() {
    let place = Place::new();
    let server = place.start();
    let api = Api::new(&server.http);
    let good = json!({"counter_name": "good", "delta": 1});
    for bad in [
        json!({"counter_name": "", "delta": 1}),
        json!({"counter_name": "bad"}),
        json!({"counter_name": "bad", "delta": "9223372036854775808"}),
        json!({"counter_name": "bad", "delta": 1, "colour": 1}),
        json!({"counter_name": "bad", "delta": 1, "item_key": "k".repeat(129)}),
        json!([]),
        Value::Null,
    ] {
        let (status, answer) = api
            .post(BATCH, &json!({"items": [good, bad, good]}))
            .expect("it answers");
        assert_eq!(status, 200, "{bad}: {answer}");
        let results = &answer["results"];
        assert_eq!(results[0]["status"], "ACCEPTED", "{bad}: {answer}");
        assert_eq!(error_of(&results[1]).1, "INVALID_FIELD", "{bad}: {answer}");
        assert_eq!(results[2]["status"], "ACCEPTED", "{bad}: {answer}");
    }
    let now = Clock::system().now().get();
    assert_eq!(api.count_through("default", "good", now), 14);
    assert_eq!(api.count_through("default", "bad", now), 0);
}

#[test]
fn the_largest_of_everything_is_taken() {
    let place = Place::new();
    let server = place.start();
    let api = Api::new(&server.http);
    let items = iter::repeat_n(
        json!({"counter_name": "n".repeat(1_024), "delta": 1}),
        1_000,
    );
    let mut body = json!({"items": items.collect::<Vec<_>>()}).to_string();
    body.push_str(&" ".repeat((4 << 20) - body.len()));
    let answer = api.send("POST", BATCH, JSON, body.into_bytes());
    let (status, answer) = answer.expect("it answers");
    assert_eq!(status, 200, "{answer}");
    let results = answer["results"].as_array().expect("results");
    assert!(
        results.iter().all(|result| result["status"] == "ACCEPTED"),
        "{answer}"
    );
    for (counter, delta, reason) in [
        ("max", i64::MAX, "COUNT_OUT_OF_RANGE"),
        ("min", i64::MIN, ""),
    ] {
        let path = format!("/v1/namespaces/default/counters/{counter}:add");
        let times = if reason.is_empty() { 1 } else { 2 };
        for _ in 0..times {
            let (_, answer) = api
                .post(&path, &json!({"delta": delta}))
                .expect("it answers");
            assert_eq!(answer["status"], "ACCEPTED", "{answer}");
        }
    }
    let now = Clock::system().now().get();
    assert_eq!(api.count_through("default", &"n".repeat(1_024), now), 1_000);
    assert_eq!(
        api.count_through("default", "min", now),
        i128::from(i64::MIN)
    );
    let (status, answer) = api
        .get("/v1/namespaces/default/counters/max")
        .expect("it answers");
    assert_eq!(
        (status, error_of(&answer).1.as_str()),
        (400, "COUNT_OUT_OF_RANGE")
    );
    let exact = (i128::from(i64::MAX) * 2).to_string();
    assert!(answer.to_string().contains(&exact), "{answer}");
    place.assert_no_panic();
}
