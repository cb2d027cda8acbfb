//! What an operator and a client do first.

use super::{mutations::now, turns::Turn};
use quipu_schemas::timestamp::to_rfc3339;
use serde_json::Value;
use std::fs;

#[test]
fn after_setup_the_verbs_add_get_and_clear_and_a_retried_token_counts_once() {
    let mut turn = Turn::take();
    let cluster = turn.cluster();
    let (api, installation) = (cluster.api(), &cluster.installation);
    let run = |verb: &str, more: &[&str]| {
        let common = ["--json", "--server", &cluster.gateway.grpc];
        let arguments = [&[verb], more, &common[..]].concat();
        let (code, said) = installation.run(&arguments);
        assert_eq!(code, 0, "quipu {arguments:?}: {said}");
        serde_json::from_str::<Value>(&said).expect("JSON")
    };
    let verb = |verb: &str, more: &[&str]| {
        run(verb, &[&["clicks", "--namespace", "verbs"], more].concat())
    };
    let count = |expected: i128| {
        let through = now().get();
        assert_eq!(api.count_through("verbs", "clicks", through), expected);
        assert_eq!(verb("get", &[])["count"], expected.to_string());
    };

    let directory = tempfile::tempdir().expect("a temporary directory");
    let document = directory.path().join("verbs.json");
    fs::write(&document, r#"{"namespace": "verbs", "accept_limit": "2s"}"#).expect("a file");
    run(
        "namespace",
        &["apply", "-f", document.to_str().expect("UTF-8")],
    );
    assert_eq!(run("namespace", &["show", "verbs"])["accept_limit"], "2s");

    assert_eq!(verb("add", &["5"])["status"], "ACCEPTED");
    assert_eq!(verb("add", &["-2"])["status"], "ACCEPTED");
    let made = to_rfc3339(now());
    let retried = ["10", "--token", "retried", "--generation-time", &made];
    assert_eq!(verb("add", &retried)["status"], "ACCEPTED");
    for _ in 0..2 {
        let status = &verb("add", &retried)["status"];
        assert!(
            status == "ACCEPTED" || status == "ALREADY_APPLIED",
            "{status}"
        );
    }
    count(13);
    assert_eq!(verb("add", &retried)["status"], "ALREADY_APPLIED");
    assert_eq!(verb("clear", &[])["status"], "ACCEPTED");
    assert_eq!(verb("add", &["4"])["status"], "ACCEPTED");
    count(4);
    installation.assert_no_panic();
}

#[test]
fn setup_changes_nothing_that_is_there_and_the_check_finds_nothing() {
    let mut turn = Turn::take();
    let installation = &turn.cluster().installation;
    let (code, said) = installation.run(&["admin", "setup"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("topics made: none"), "{said}");
    let (code, said) = installation.run(&["admin", "check"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("the cluster is fit"), "{said}");
}
