//! `scripts/stack`, as far as it goes without starting anything.

use crate::{
    deploy::{compose, settings},
    files::root,
};
use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Command, Output},
};

/// Runs `scripts/stack` on a directory.
fn stack(command: &str, directory: &Path) -> Output {
    Command::new(root().join("scripts/stack"))
        .args([command, "--dir"])
        .arg(directory)
        .output()
        .expect("bash runs it")
}

#[test]
fn the_status_of_a_stack_that_does_not_run_is_a_failure() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let status = stack("status", directory.path());
    let said = String::from_utf8_lossy(&status.stdout);
    assert_eq!(status.status.code(), Some(1), "{said}");
    assert_eq!(said.matches("not running").count(), 3, "{said}");
}

#[test]
fn the_script_gives_the_roles_the_settings_that_compose_gives_them() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let said = stack("env", directory.path()).stdout;
    let said = String::from_utf8(said).expect("text");
    let lines = said
        .lines()
        .map(|line| line.strip_prefix("export ").expect("a variable"));
    let lines = lines.map(|line| line.split_once('=').expect("a value"));
    let gateway = &compose().services["gateway"].environment;
    // Of a role on this machine, which listens on loopback.
    let own = ["_HTTP", "_GRPC", "_ANONYMOUS"];
    let compose = gateway
        .keys()
        .filter(|name| !own.iter().any(|end| name.ends_with(end)));
    let names: BTreeSet<_> = lines.clone().map(|(name, _)| name).collect();
    assert_eq!(names, compose.map(String::as_str).collect());
    for (name, value) in lines {
        let env = settings(".env");
        let port =
            ["KAFKA", "CASSANDRA", "REDIS"].map(|server| (server, &env[&format!("{server}_PORT")]));
        let (_, port) = port
            .iter()
            .find(|(server, _)| name.contains(server))
            .expect("a server");
        assert_eq!(value, format!("127.0.0.1:{port}"));
    }
}

#[test]
fn a_process_that_only_has_the_number_of_one_that_is_gone_is_left_alone() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut other = Command::new("sleep").arg("60").spawn().expect("it runs");
    for service in ["kafka", "cassandra", "redis"] {
        let place = directory.path().join(service);
        fs::create_dir(&place).expect("a directory");
        fs::write(place.join("pid"), other.id().to_string()).expect("it can be written");
    }
    let down = stack("down", directory.path());
    let said = String::from_utf8_lossy(&down.stdout);
    let lives = other.try_wait().expect("it is a child").is_none();
    other.kill().expect("it is a child");
    other.wait().expect("it is a child");
    assert!(lives, "{said}");
    assert!(
        down.status.success() && said.contains("nothing runs"),
        "{said}"
    );
}
