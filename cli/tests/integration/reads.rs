//! `get` of several counters, `get` that waits, and `list`.

use crate::{
    ended, quipu,
    server::{Fate, Server, failure},
};
use std::process::Output;
use tonic::Code;

fn counting(counters: &[&str]) -> Server {
    let server = Server::start(None, None);
    for counter in counters {
        let (code, text) = ended(&run(&server, &["add", counter]));
        assert_eq!(code, 0, "{text}");
    }
    server
}

fn run(server: &Server, arguments: &[&str]) -> Output {
    quipu(&server.url, arguments).output().unwrap()
}

fn said(output: &Output) -> (&str, &str) {
    let text = |bytes| std::str::from_utf8(bytes).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn several_counters_are_read_with_one_call_and_a_bad_one_is_told_of() {
    let server = counting(&["a", "b", "b"]);
    let calls = server.calls();
    let output = run(&server, &["get", "b", "", "a"]);
    assert_eq!(server.calls(), calls + 1);
    assert_eq!(output.status.code(), Some(3));
    let (out, err) = said(&output);
    let through = "(complete through 1970-01-01T00:00:00Z)";
    assert_eq!(out, format!("b: 2 {through}\na: 1 {through}\n"));
    assert!(err.starts_with("error: : "), "{err}");

    let output = run(&server, &["get", "b", "", "--json"]);
    let (out, err) = said(&output);
    assert!(out.contains(r#""count":"2","counter_name":"b""#), "{out}");
    assert!(err.contains(r#""counter_name":"""#), "{err}");
    assert!(err.contains(r#""reason":"INVALID_FIELD""#), "{err}");
}

#[test]
fn a_read_waits_for_the_time_that_was_asked_for() {
    let server = counting(&["a"]);
    let waiting = ["--min-freshness", "1970-01-01T00:00:07Z"];
    let (code, text) = ended(&run(&server, &[&["get", "a"][..], &waiting].concat()));
    assert_eq!(code, 0, "{text}");
    let (code, text) = ended(&run(&server, &[&["get", "a", "b"][..], &waiting].concat()));
    assert_eq!(code, 0, "{text}");
    assert_eq!(text.lines().count(), 2, "{text}");
    assert_eq!(server.state.lock().unwrap().min_freshness, [Some(7); 3]);
    let (code, text) = ended(&run(&server, &["get", "a", "--min-freshness", "soon"]));
    assert_eq!(code, 2, "{text}");
}

#[test]
fn counters_are_listed_to_a_limit_and_on_from_there() {
    let server = counting(&["a", "b", "c"]);
    assert_eq!(said(&run(&server, &["list"])), ("a\nb\nc\n", ""));
    let limited = run(&server, &["list", "--limit", "2"]);
    assert_eq!(said(&limited), ("a\nb\n", "more follow: --page-token 2\n"));
    let rest = run(&server, &["list", "--page-token", "2"]);
    assert_eq!(said(&rest), ("c\n", ""));
    let json = run(&server, &["list", "--limit", "2", "--json"]);
    let expected = r#"{"counter_names":["a","b"],"namespace":"default","next_page_token":"2"}"#;
    assert_eq!(said(&json), (format!("{expected}\n").as_str(), ""));
    let none = run(&server, &["list", "--limit", "0"]);
    assert_eq!(none.status.code(), Some(2));
}

#[test]
fn a_namespace_that_has_no_list_is_told_of() {
    let script = |_| Fate::Fail(failure(Code::FailedPrecondition, "KEEPS_NO_EVENTS"));
    let server = Server::start(Some(Box::new(script)), None);
    let (code, text) = ended(&run(&server, &["list", "-n", "fast", "--json"]));
    assert_eq!(code, 3, "{text}");
    assert!(text.contains(r#""reason":"KEEPS_NO_EVENTS""#), "{text}");
}
