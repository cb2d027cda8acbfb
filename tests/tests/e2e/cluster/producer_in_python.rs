//! The example of a producer in Python, with the client that it names.

use super::{mutations::now, turns::Turn};
use crate::{
    files::{read, root},
    python,
};
use std::{
    io::Write,
    process::{Command, Stdio},
};

#[test]
fn what_the_example_in_python_publishes_as_json_is_counted() {
    let mut turn = Turn::take();
    let requirements = read("examples/python/requirements.txt");
    let client = requirements
        .lines()
        .find(|line| line.starts_with("confluent-kafka=="))
        .expect("the client has a version");
    let python = python::with(client);
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
