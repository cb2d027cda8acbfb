//! What `quipu admin setup` and `quipu admin check` say of a cluster, and how they end.

use super::{
    installation::{Addresses, Installation},
    kafka,
    turns::Turn,
};
use crate::{http::Api, process::ended};
use std::{
    thread::sleep,
    time::{Duration, Instant},
};

/// Runs `quipu admin ...` with some settings changed. Returns its exit code and what it said.
fn admin(installation: &Installation, command: &str, changed: &[(&str, &str)]) -> (i32, String) {
    let mut quipu = installation.quipu(&["admin", command]);
    quipu.envs(changed.iter().copied());
    ended(&quipu.output().expect("the binary starts"))
}

/// The findings with this label, each with its fix.
fn labelled<'a>(said: &'a str, label: &str) -> Vec<&'a str> {
    let label = format!("{label}: ");
    let blocks = said.split("\n\n");
    blocks.filter(|block| block.starts_with(&label)).collect()
}

#[test]
fn where_setup_was_not_run_it_is_said_so_and_not_that_something_is_damaged() {
    let _turn = Turn::take();
    let installation = Installation::new(Addresses::shared(), 1);
    let (code, said) = installation.run(&["admin", "check"]);
    assert_eq!(code, 3, "{said}");
    let unfit = labelled(&said, "unfit");
    assert_eq!(unfit.len(), 2, "{said}");
    for (told, missing) in unfit.iter().zip([&installation.name, "none of the topics"]) {
        assert!(told.starts_with("unfit: setup was not run"), "{said}");
        assert!(told.contains(missing), "{said}");
        assert!(told.ends_with("to do: run `quipu admin setup`"), "{said}");
    }
    assert!(!said.contains("damaged"), "{said}");
    for role in ["ingest", "gateway", "rollup-worker"] {
        let (code, said) = installation.ended(installation.spawn(role));
        assert_eq!(code, 3, "{role}: {said}");
        assert!(said.contains("run `quipu admin setup`"), "{role}: {said}");
    }
    installation.assert_no_panic();
}

#[test]
fn setup_may_be_run_again_after_partitions_were_added_and_refuses_a_topic_that_lost_some() {
    let _turn = Turn::take();
    let installation = Installation::new(Addresses::shared(), 1);
    installation.set_up();
    let (code, said) = installation.run(&["admin", "add-partitions", "--total", "3"]);
    assert_eq!(code, 0, "{said}");
    let (code, said) = installation.run(&["admin", "setup"]);
    assert_eq!(code, 0, "one is configured, three are registered: {said}");
    assert!(said.contains("topics made: none"), "{said}");
    let more = [("QUIPU_KAFKA_EVENT_PARTITIONS", "4")];
    let (code, said) = admin(&installation, "setup", &more);
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("add-partitions --total 4"), "{said}");

    let topic = installation.topic("events");
    kafka::delete_topics(&installation.addresses.kafka, &[&topic]);
    let started = Instant::now();
    loop {
        // Brokers take a moment to delete a topic.
        let (code, said) = installation.run(&["admin", "setup"]);
        if said.contains("[1, 2]") {
            assert_eq!(code, 3, "{said}");
            let fix = "to do: quipu admin add-partitions --total 3";
            assert!(labelled(&said, "unfit")[0].ends_with(fix), "{said}");
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(30), "{said}");
        sleep(Duration::from_millis(500));
    }
}

#[test]
fn advice_ends_a_check_well_and_problems_do_not_but_keep_no_role_from_its_start() {
    let _turn = Turn::take();
    let installation = Installation::new(Addresses::shared(), 1);
    installation.set_up();
    let (code, said) = installation.run(&["admin", "check"]);
    assert_eq!(code, 0, "{said}");
    let advice = labelled(&said, "advice");
    let one_broker = advice.iter().find(|it| it.contains("one Kafka broker"));
    let one_broker = one_broker.unwrap_or_else(|| panic!("{said}"));
    assert!(
        one_broker.contains("kafka.min_insync_replicas = 2"),
        "{said}"
    );
    assert!(labelled(&said, "problem").is_empty(), "{said}");

    let gateway = installation.start_gateway();
    let api = Api::new(&gateway.http);
    api.put_namespace("hasty", "2s");
    api.put_namespace("patient", "30m");
    // Records are kept for three days and an hour.
    let changed = [
        ("QUIPU_CASSANDRA_RETENTION", "73h"),
        ("QUIPU_GATEWAY_APPEND_GUARD", "2s"),
    ];
    let (code, said) = admin(&installation, "check", &changed);
    assert_eq!(code, 3, "{said}");
    let problems = labelled(&said, "problem");
    assert_eq!(problems.len(), 2, "{said}");
    let told = |words: &[&str]| {
        let told = |problem: &&&str| words.iter().all(|word| problem.contains(word));
        assert!(problems.iter().any(|it| told(&it)), "{words:?}: {said}");
    };
    told(&[
        "hasty (2s)",
        "gateway.append_guard = 2s",
        "raise accept_limit",
    ]);
    told(&[
        "3days (retention.ms)",
        "1h more (segment.ms)",
        "patient accepts events that are 30m old",
        "set cassandra.retention = \"3days 1h 30m\"",
        "--add-config retention.ms=257400000",
    ]);
    let (code, said) = admin(&installation, "setup", &changed);
    assert_eq!(code, 0, "{said}");
    assert_eq!(labelled(&said, "problem").len(), 2, "{said}");
    let _another = installation.start_gateway();
    installation.assert_no_panic();
}
