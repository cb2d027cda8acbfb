//! The example of a producer in Python, with the client that it names.

use super::{mutations::now, turns::Turn};
use crate::files::{read, root};
use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Python with the example's Kafka client, installed once for each version of it.
fn python() -> PathBuf {
    let requirements = read("examples/python/requirements.txt");
    let client = requirements
        .lines()
        .find(|line| line.starts_with("confluent-kafka=="))
        .expect("the client has a version");
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("venv-{client}"));
    let (python, finished) = (place.join("bin/python"), place.join("finished"));
    if !finished.exists() {
        let place = place.to_str().expect("a path in UTF-8");
        run(Command::new("python3").args(["-m", "venv", "--clear", place]));
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", client]));
        fs::write(finished, "").expect("the directory is ours");
    }
    python
}

fn run(command: &mut Command) {
    let ran = command.output().expect("python3 is installed");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{command:?}: {said}");
}

#[test]
fn what_the_example_in_python_publishes_as_json_is_counted() {
    let mut turn = Turn::take();
    let python = python();
    let cluster = turn.cluster();
    let (api, installation) = (cluster.api(), &cluster.installation);
    api.put_namespace("python", "5s");
    let mut producer = Command::new(python)
        .arg(root().join("examples/python/producer.py"))
        .args(["--brokers", &installation.addresses.kafka])
        .args(["--topic", &installation.topic("events")])
        .args(["--namespace", "python"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = "views,2\nviews,-5\nbig,9007199254740993\ncafé/ключ\ngone,7\n".to_owned();
    lines.extend((0..1_000).map(|_| "clicks\n"));
    let mut input = producer.stdin.take().expect("a pipe");
    input.write_all(lines.as_bytes()).expect("it reads");
    drop(input);
    let ended = producer.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&ended.stdout);
    let failed = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}{failed}");
    assert!(said.contains("1005 events are in the log"), "{said}");
    let through = now().get();
    for (counter, expected) in [
        ("views", -3),
        ("big", 9_007_199_254_740_993),
        ("caf%C3%A9/%D0%BA%D0%BB%D1%8E%D1%87", 1),
        ("gone", 7),
        ("clicks", 1_000),
    ] {
        let count = api.count_through("python", counter, through);
        assert_eq!(count, expected, "{counter}");
    }
    installation.assert_no_panic();
}
