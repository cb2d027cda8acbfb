//! `config`, and the roles of a build without them.

use crate::{ended, quipu};
use std::{fs, process::Command};

/// The binary, with none of the settings of whoever runs the tests.
fn clean(arguments: &[&str]) -> Command {
    let mut command = quipu("", arguments);
    for (name, _) in std::env::vars() {
        if name.starts_with("QUIPU_") {
            command.env_remove(name);
        }
    }
    command
}

#[test]
fn what_is_printed_comes_from_the_file_and_the_environment() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("quipu.toml");
    fs::write(&file, "[redis]\naddress = \"redis:1\"\nttl = \"2h\"\n").unwrap();
    let output = clean(&["config", "print", "--config", file.to_str().unwrap()])
        .env("QUIPU_REDIS_ADDRESS", "redis:2")
        .output()
        .unwrap();
    let (code, text) = ended(&output);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("address = \"redis:2\""), "{text}");
    assert!(text.contains("ttl = \"2h\""), "{text}");
}

#[test]
fn a_configuration_that_cannot_be_is_refused_by_name_whoever_reads_it() {
    for command in [
        &["config", "check"][..],
        &["gateway"],
        &["ingest"],
        &["rollup-worker"],
        &["admin", "check"],
    ] {
        for (name, value, said) in [
            (
                "QUIPU_KAFKA_BROKER",
                "a:1",
                "did you mean QUIPU_KAFKA_BROKERS?",
            ),
            (
                "QUIPU_INGEST_IN_FLIGHT",
                "0",
                "ingest.in_flight: 0 is not between",
            ),
            ("QUIPU_CONFIG", "/nowhere.toml", "/nowhere.toml"),
        ] {
            let output = clean(command).env(name, value).output().unwrap();
            let (code, text) = ended(&output);
            assert_eq!(code, 2, "{text}");
            assert!(text.contains(said), "{text}");
        }
    }
    let (code, text) = ended(&clean(&["config", "check"]).output().unwrap());
    assert_eq!(code, 0, "{text}");
}

#[cfg(not(feature = "cluster"))]
#[test]
fn a_build_without_the_roles_says_how_to_get_one_with_them() {
    for command in [
        &["gateway"][..],
        &["ingest"],
        &["rollup-worker"],
        &["admin", "setup"],
        &["admin", "check"],
        &["admin", "add-partitions", "--total", "8"],
    ] {
        let (code, text) = ended(&clean(command).output().unwrap());
        assert_eq!(code, 2, "{text}");
        assert!(
            text.contains(&format!("`quipu {}`", command.join(" "))),
            "{text}"
        );
        assert!(
            text.contains("cargo build --release --features cluster"),
            "{text}"
        );
    }
    let decisions: [&[&str]; 3] = [
        &[
            "admin",
            "set-frontier",
            "--partition",
            "0",
            "--offset",
            "1",
            "--effective-time",
            TIME,
        ],
        &[
            "admin",
            "cap-time",
            "--partition",
            "0",
            "--from",
            "1",
            "--time",
            TIME,
        ],
        &[
            "import",
            "rows.csv",
            "--counter",
            "a",
            "--kafka",
            "kafka:9092",
        ],
    ];
    for command in decisions {
        let (code, text) = ended(&clean(command).output().unwrap());
        assert_eq!(code, 2, "{text}");
        assert!(text.contains("without the distributed roles"), "{text}");
    }
}

#[cfg(not(feature = "cluster"))]
const TIME: &str = "2025-03-01T12:00:00Z";
