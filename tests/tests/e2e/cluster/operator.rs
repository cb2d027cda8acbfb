//! What only an operator decides, and how a role answers before it has found its cluster.

use super::{
    installation::{Addresses, Installation},
    mutations::now,
    turns::{Cluster, Turn},
};
use crate::{http::Api, process::Running};
use quipu_core::time::Micros;
use quipu_schemas::timestamp::to_rfc3339;
use std::{
    fs,
    net::TcpListener,
    process::Stdio,
    thread::sleep,
    time::{Duration, Instant},
};

/// Runs `quipu admin ... --partition 0` until it says something.
fn admin_until(installation: &Installation, arguments: &[&str], code: i32, said: &str) -> String {
    let started = Instant::now();
    let arguments = [&["admin"], arguments, &["--partition", "0"]].concat();
    loop {
        let ended = installation.run(&arguments);
        if ended.0 == code && ended.1.contains(said) {
            return ended.1;
        }
        let waits = started.elapsed() < Duration::from_secs(30);
        assert!(waits, "quipu {arguments:?} ended with {ended:?}");
        sleep(Duration::from_millis(500));
    }
}

#[test]
fn an_operator_decides_only_what_nobody_has_decided_and_counts_stay_exact() {
    let _turn = Turn::take();
    let installation = Installation::new(Addresses::shared(), 1);
    installation.set_up();
    let gateway = installation.start_gateway();
    let ingest = installation.start("ingest");
    let _worker = installation.start("rollup-worker");
    let api = Api::new(&gateway.http);
    let add = || {
        let arguments = ["add", "clicks", "--server", &gateway.grpc];
        let (code, said) = installation.run(&arguments);
        assert_eq!(code, 0, "{said}");
    };
    add();
    assert_eq!(api.count_through("default", "clicks", now().get()), 1);

    let time = to_rfc3339(now());
    let frontier = ["set-frontier", "--offset", "0", "--effective-time", &time];
    admin_until(&installation, &frontier, 3, "stop every one first");
    let _ = ingest.running.terminate();
    add();

    // What is decided cannot be capped; what is not there neither.
    let cap = |from: &str, more: &[&str]| {
        let arguments = ["cap-time", "--from", from, "--time", &time];
        [&arguments[..], more]
            .concat()
            .iter()
            .map(|argument| (*argument).to_owned())
            .collect::<Vec<_>>()
    };
    let run = |arguments: Vec<String>, code, said: &str| {
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        admin_until(&installation, &arguments, code, said)
    };
    let refused = run(cap("0", &["--yes"]), 3, "begin with --from ");
    let undecided = refused.split("begin with --from ").nth(1);
    let undecided = undecided.and_then(|rest| rest.split('.').next());
    let undecided = undecided.expect("an offset");
    run(
        cap(undecided, &["--through", "99999", "--yes"]),
        3,
        "can be capped",
    );
    run(cap(undecided, &[]), 2, "add --yes");
    run(cap(undecided, &["--yes"]), 0, "done: ");

    // Windows are closed by the effective time that is known.
    let long_ago = to_rfc3339(Micros::new(0));
    let back = [
        "set-frontier",
        "--offset",
        undecided,
        "--effective-time",
        &long_ago,
    ];
    admin_until(&installation, &back, 3, "windows are closed by it");
    let ahead = to_rfc3339(now() + Duration::from_hours(1));
    let far = [
        "set-frontier",
        "--offset",
        undecided,
        "--effective-time",
        &ahead,
    ];
    admin_until(&installation, &far, 3, "ahead of this machine's clock");

    // The capped record was stamped rightly, so the cap does not concern it.
    let _ingest = installation.start("ingest");
    assert_eq!(api.count_through("default", "clicks", now().get()), 2);
    installation.assert_no_panic();
}

#[test]
fn ingest_goes_on_where_an_operator_decided() {
    let _turn = Turn::take();
    let installation = Installation::new(Addresses::shared(), 1);
    installation.set_up();
    let time = to_rfc3339(now());
    let frontier = ["set-frontier", "--offset", "0", "--effective-time", &time];
    admin_until(&installation, &frontier, 2, "add --yes");
    let said = admin_until(
        &installation,
        &[&frontier[..], &["--yes"]].concat(),
        0,
        "done",
    );
    assert!(said.contains("goes on at no offset\n"), "{said}");
    let said = admin_until(&installation, &frontier, 2, "add --yes");
    let was = format!("goes on at offset 0 at effective time {time}; the newest watermark");
    assert!(said.contains(&was), "{said}");
    let _ingest = installation.start("ingest");
    let gateway = installation.start_gateway();
    let _worker = installation.start("rollup-worker");
    let (code, said) = installation.run(&["add", "clicks", "--server", &gateway.grpc]);
    assert_eq!(code, 0, "{said}");
    let api = Api::new(&gateway.http);
    assert_eq!(api.count_through("default", "clicks", now().get()), 1);
    installation.assert_no_panic();
}

#[test]
fn a_gateway_that_waits_for_its_cluster_is_alive_and_not_ready() {
    let _turn = Turn::take();
    let installation = Installation::new(Addresses::shared(), 1);
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let address = free.expect("a free port").to_string();
    let child = installation
        .quipu(&["gateway", "--http", &address])
        .env("QUIPU_CASSANDRA_CONTACT_POINTS", "127.0.0.1:1")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let gateway = Running(child.expect("the binary starts"));
    let api = Api::new(&format!("http://{address}"));
    let started = Instant::now();
    while api.get("/healthz/live").is_err() {
        assert!(started.elapsed() < Duration::from_secs(20), "no answer");
        sleep(Duration::from_millis(100));
    }
    let status = |path| api.get(path).expect("it answers").0;
    assert_eq!(status("/healthz/live"), 200);
    assert_eq!(status("/healthz/ready"), 503);
    assert_eq!(status("/metrics"), 200);
    assert_eq!(status("/v1/namespaces"), 503);
    let (ended, took) = gateway.terminate();
    assert_eq!(ended.code(), Some(0));
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn an_import_straight_to_kafka_counts_each_row_once_also_when_it_lost_its_answers() {
    let mut turn = Turn::take();
    let cluster: &Cluster = turn.cluster();
    let api = cluster.api();
    api.put_namespace("straight", "5s");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("rows.csv");
    let rows = "0\n1\n".repeat(250);
    fs::write(&file, format!("parity\n{rows}")).expect("a file");
    let path = file.to_str().expect("a path in UTF-8");
    let kafka = &cluster.installation.addresses.kafka;
    let import = |to: &[&str]| {
        let arguments = ["import", path, "--counter", "rows/{parity}"];
        let common = ["--namespace", "straight"];
        let arguments = [&arguments[..], &common, to].concat();
        let (code, said) = cluster.installation.run(&arguments);
        assert_eq!(code, 0, "{said}");
        said
    };
    let said = import(&["--kafka", kafka]);
    assert!(said.contains("500 rows, 500 adds: 500 accepted"), "{said}");
    let exact = || {
        for counter in ["rows/0", "rows/1"] {
            let count = api.count_through("straight", counter, now().get());
            assert_eq!(count, 250, "{counter}");
        }
    };
    exact();
    // As if it had been killed before any answer came: its header, and what it was about to send.
    let journal = directory.path().join("rows.csv.quipu-journal");
    let noted = fs::read(&journal).expect("a journal");
    let lines: Vec<_> = noted.split_inclusive(|byte| *byte == b'\n').collect();
    let sent = |line: &&[u8]| String::from_utf8_lossy(line).contains("\"send\"");
    let last = lines
        .iter()
        .rposition(sent)
        .expect("a note of what is sent");
    fs::write(&journal, lines[..=last].concat()).expect("a journal");
    let said = import(&["--kafka", kafka]);
    assert!(said.contains(" 0 accepted"), "{said}");
    exact();
    let said = import(&["--server", &cluster.gateway.grpc]);
    assert!(said.contains("nothing was sent now"), "{said}");
    cluster.installation.assert_no_panic();
}
