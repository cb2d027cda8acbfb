//! `add`, `get`, `clear` and `namespace`.

use crate::{
    ended, quipu,
    server::{Fate, Server, failure, serve, unavailable},
};
use axum::{
    Router,
    http::{Method, StatusCode, Uri},
};
use std::{
    future::ready,
    net::TcpListener,
    sync::{Arc, Mutex},
    thread,
};
use tokio::runtime::Runtime;
use tonic::Code;

#[test]
fn an_add_keeps_its_token_through_unsettled_failures_and_counts_once() {
    let script = |call| match call {
        0 => Fate::Fail(unavailable()),
        1 => Fate::ApplyAndFail(unavailable()),
        2 => Fate::Fail(failure(Code::DeadlineExceeded, "TIMED_OUT")),
        _ => Fate::Honest,
    };
    let server = Server::start(Some(Box::new(script)), None);
    let output = quipu(&server.url, &["add", "views", "-7", "--json"])
        .output()
        .unwrap();
    let (code, text) = ended(&output);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("ALREADY_APPLIED"), "{text}");
    assert_eq!(server.counts().0["views"], -7);
    let tokens = &server.state.lock().unwrap().tokens;
    assert!(
        tokens.windows(2).all(|pair| pair[0] == pair[1]),
        "{tokens:?}"
    );
}

#[test]
fn a_late_add_gets_a_new_token_only_when_it_was_made_here() {
    let late = || {
        let script = |call| match call {
            0 => Fate::Fail(failure(Code::FailedPrecondition, "LATE")),
            _ => Fate::Honest,
        };
        Server::start(Some(Box::new(script)), None)
    };
    let server = late();
    let (code, text) = ended(
        &quipu(&server.url, &["add", "views", "-v"])
            .output()
            .unwrap(),
    );
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("attempt 2 with the new token"), "{text}");
    assert_eq!(server.counts().1, 1);

    let server = late();
    let given = [
        "add",
        "views",
        "--token",
        "t",
        "--generation-time",
        "2026-01-31T12:00:00Z",
    ];
    let (code, text) = ended(&quipu(&server.url, &given).output().unwrap());
    assert_eq!(code, 3, "{text}");
    assert_eq!(server.calls(), 1);
}

#[test]
fn exit_codes_tell_refused_unknown_and_unreachable_apart() {
    for (status, expected) in [
        (failure(Code::NotFound, "UNKNOWN_NAMESPACE"), 3),
        (failure(Code::FailedPrecondition, "OUTCOME_UNKNOWN"), 4),
    ] {
        let script = move |_| Fate::Fail(status.clone());
        let server = Server::start(Some(Box::new(script)), None);
        let (code, text) = ended(&quipu(&server.url, &["add", "views"]).output().unwrap());
        assert_eq!(code, expected, "{text}");
        assert_eq!(server.calls(), 1);
    }
    let nobody = "http://127.0.0.1:1";
    for verb in ["add", "get", "clear"] {
        let output = quipu(nobody, &[verb, "views", "--timeout", "300ms"])
            .output()
            .unwrap();
        assert_eq!(ended(&output).0, 5, "{output:?}");
    }
    let output = quipu(nobody, &["namespace", "list", "--timeout", "300ms"])
        .output()
        .unwrap();
    assert_eq!(ended(&output).0, 5, "{output:?}");
    assert_eq!(
        ended(&quipu(nobody, &["add", "views", "1.5"]).output().unwrap()).0,
        2
    );
}

#[test]
fn an_add_without_an_answer_ends_as_unknown_and_says_the_token_to_retry_with() {
    let server = Server::start(Some(Box::new(|_| Fate::ApplyAndHang)), None);
    let output = quipu(&server.url, &["add", "views", "--timeout", "500ms"])
        .output()
        .unwrap();
    let (code, text) = ended(&output);
    assert_eq!(code, 4, "{text}");
    let token = server.state.lock().unwrap().tokens[0].0.clone();
    assert!(
        text.contains(&format!("--token {token} --generation-time 20")),
        "{text}"
    );
}

#[test]
fn what_only_an_operator_can_mend_is_not_sent_again_and_stays_unknown() {
    let script = |_| Fate::Fail(failure(Code::Internal, "STORAGE_DAMAGED"));
    let server = Server::start(Some(Box::new(script)), None);
    let (code, text) = ended(&quipu(&server.url, &["add", "views"]).output().unwrap());
    assert_eq!(code, 4, "{text}");
    assert!(text.contains("--token"), "{text}");
    assert_eq!(server.calls(), 1);
}

#[test]
fn a_refusal_after_an_attempt_without_an_answer_leaves_open_whether_that_one_counts() {
    let script = |call| match call {
        0 => Fate::ApplyAndFail(unavailable()),
        _ => Fate::Fail(failure(Code::NotFound, "UNKNOWN_NAMESPACE")),
    };
    let server = Server::start(Some(Box::new(script)), None);
    let (code, text) = ended(&quipu(&server.url, &["add", "views"]).output().unwrap());
    assert_eq!(code, 4, "{text}");
}

#[test]
fn get_and_clear_do_what_they_say() {
    let server = Server::start(None, None);
    for arguments in [&["add", "views", "5"][..], &["add", "views"]] {
        assert_eq!(ended(&quipu(&server.url, arguments).output().unwrap()).0, 0);
    }
    let output = quipu(&server.url, &["get", "views"]).output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "6 (complete through 1970-01-01T00:00:00Z)\n"
    );
    let output = quipu(&server.url, &["get", "views", "--json"])
        .output()
        .unwrap();
    assert!(ended(&output).1.contains(r#""count":"6""#));
    assert_eq!(
        ended(&quipu(&server.url, &["clear", "views"]).output().unwrap()).0,
        0
    );
    let output = quipu(&server.url, &["get", "views"]).output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "0 (complete through 1970-01-01T00:00:00Z)\n"
    );
}

#[test]
fn a_server_that_is_away_is_told_of_once_with_what_to_do() {
    for verb in [
        &["add", "views"][..],
        &["get", "views"],
        &["namespace", "list"],
    ] {
        let arguments = [verb, &["--timeout", "500ms"]].concat();
        let output = quipu("http://127.0.0.1:1", &arguments).output().unwrap();
        let (code, text) = ended(&output);
        assert_eq!(code, 5, "{text}");
        assert_eq!(text.matches("WARN").count(), 1, "{text}");
        let away = "cannot reach the server at http://127.0.0.1:1";
        assert_eq!(text.matches(away).count(), 2, "{text}");
        assert!(text.contains("; trying for 500ms (is it"), "{text}");
        assert_eq!(text.matches("quipu serve --data").count(), 2, "{text}");
        assert!(!text.contains("Error("), "{text}");
    }
}

#[test]
fn a_broken_connection_is_told_without_debug_text() {
    // It takes the connection and says nothing that is HTTP/2.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || listener.incoming().for_each(drop));
    let output = quipu(&url, &["get", "views", "--timeout", "300ms"])
        .output()
        .unwrap();
    let (code, text) = ended(&output);
    assert_eq!(code, 5, "{text}");
    for debug in ["Error(", "code: '", "source:"] {
        assert!(!text.contains(debug), "{text}");
    }
}

#[test]
fn errors_for_machines_carry_the_code_and_the_reason_that_the_server_gave() {
    for (status, code, reason) in [
        (
            failure(Code::NotFound, "UNKNOWN_NAMESPACE"),
            "NOT_FOUND",
            "UNKNOWN_NAMESPACE",
        ),
        (
            failure(Code::FailedPrecondition, "OUTCOME_UNKNOWN"),
            "FAILED_PRECONDITION",
            "OUTCOME_UNKNOWN",
        ),
        (unavailable(), "UNAVAILABLE", "STORAGE_UNAVAILABLE"),
    ] {
        let script = move |_| Fate::Fail(status.clone());
        let server = Server::start(Some(Box::new(script)), None);
        let arguments = ["add", "views", "--json", "--timeout", "300ms"];
        let (_, text) = ended(&quipu(&server.url, &arguments).output().unwrap());
        assert!(text.contains(&format!(r#""code":"{code}""#)), "{text}");
        assert!(text.contains(&format!(r#""reason":"{reason}""#)), "{text}");
    }
    let scripted = answer_http(vec![(
        404,
        r#"{"error": {"code": "NOT_FOUND", "message": "no", "details": [{"reason": "WHY"}]}}"#,
    )]);
    let output = quipu(&scripted.url, &["namespace", "show", "web", "--json"]).output();
    let (_, text) = ended(&output.unwrap());
    assert!(text.contains(r#""code":"NOT_FOUND""#), "{text}");
    assert!(text.contains(r#""reason":"WHY""#), "{text}");
}

/// Answers HTTP requests in order, and keeps what was asked.
struct Scripted {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
    _runtime: Runtime,
}

fn answer_http(answers: Vec<(u16, &'static str)>) -> Scripted {
    let runtime = Runtime::new().unwrap();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (noted, answers) = (Arc::clone(&asked), Arc::new(answers));
    let answer = move |method: Method, uri: Uri, body: String| {
        let mut noted = noted.lock().unwrap();
        let (status, answer) = answers[noted.len()];
        noted.push(format!("{method} {} {body}", uri.path()));
        ready((StatusCode::from_u16(status).unwrap(), answer))
    };
    Scripted {
        url: runtime.block_on(serve(Router::new().fallback(answer))),
        asked,
        _runtime: runtime,
    }
}

#[test]
fn namespaces_are_applied_listed_and_deleted_over_http() {
    let document = r#"{"namespace": "web-1", "accept_limit": "10s"}"#;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("web.json");
    std::fs::write(&file, document).unwrap();
    let scripted = answer_http(vec![
        (
            503,
            r#"{"error": {"code": "UNAVAILABLE", "message": "not yet"}}"#,
        ),
        (
            404,
            r#"{"error": {"code": "NOT_FOUND", "message": "none",
                "details": [{"reason": "UNKNOWN_NAMESPACE"}]}}"#,
        ),
        (200, r#"{"namespace": "web-1"}"#),
        (
            200,
            r#"{"namespaces": [{"namespace": "a"}, {"namespace": "web-1"}]}"#,
        ),
        (200, "{}"),
        (
            404,
            r#"{"error": {"code": "NOT_FOUND", "message": "no such namespace"}}"#,
        ),
    ]);
    let run = |arguments: &[&str]| {
        let output = quipu(&scripted.url, &[&["namespace"], arguments].concat())
            .output()
            .unwrap();
        ended(&output)
    };
    let (code, text) = run(&["apply", "-f", file.to_str().unwrap()]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("web-1 created"), "{text}");
    assert!(run(&["list"]).1.ends_with("a\nweb-1\n"));
    assert_eq!(run(&["delete", "web-1"]).0, 0);
    let (code, text) = run(&["show", "web-1"]);
    assert_eq!(code, 3, "{text}");
    assert!(text.contains("no such namespace"));
    let asked = scripted.asked.lock().unwrap();
    assert!(
        asked[1].starts_with("GET /v1/namespaces/web%2D1 "),
        "{asked:?}"
    );
    assert!(
        asked[2].starts_with("PUT /v1/namespaces/web%2D1 "),
        "{asked:?}"
    );
    assert!(asked[2].contains(r#""accept_limit":"10s""#), "{asked:?}");
}

#[test]
fn a_document_with_an_unknown_field_is_refused_by_its_name_before_it_is_sent() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("web.json");
    std::fs::write(&file, r#"{"namespace": "web", "acept_limit": "10s"}"#).unwrap();
    let arguments = ["namespace", "apply", "-f", file.to_str().unwrap()];
    let (code, text) = ended(&quipu("http://127.0.0.1:1", &arguments).output().unwrap());
    assert_eq!(code, 3, "{text}");
    assert!(text.contains("acept_limit"), "{text}");
}
