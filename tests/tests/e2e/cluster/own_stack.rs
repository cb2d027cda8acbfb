//! A stack of the tests' own, whose stores may be killed.

use super::installation::Addresses;
use crate::files::root;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Away from the ports of the stack that tests share, and of the one that somebody works with.
const PORT_OFFSET: &str = "7000";

/// It ends with its last test.
pub(super) struct OwnStack(PathBuf);

impl OwnStack {
    /// Starts an empty one.
    pub(super) fn start() -> (Self, Addresses) {
        let stack = Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join("e2e-stack"));
        let said = stack.run(&["up", "--port-offset", PORT_OFFSET, "--fresh"]);
        let last: Vec<_> = said
            .lines()
            .last()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        let ["kafka", kafka, "cassandra", cassandra, "redis", redis] = last[..] else {
            panic!("scripts/stack said {said}");
        };
        let addresses = Addresses {
            kafka: kafka.to_owned(),
            cassandra: cassandra.to_owned(),
            redis: redis.to_owned(),
        };
        (stack, addresses)
    }

    /// Starts what does not run, and returns when it answers.
    pub(super) fn up(&self) {
        self.run(&["up", "--port-offset", PORT_OFFSET]);
    }

    /// SIGKILL.
    pub(super) fn kill(&self, service: &str) {
        let pid = fs::read_to_string(self.0.join(service).join("pid")).expect("it was started");
        let pid = Pid::from_raw(pid.trim().parse().expect("a number"));
        kill_process(pid.expect("a process"), Signal::KILL).expect("it runs");
    }

    fn run(&self, arguments: &[&str]) -> String {
        let ran = Command::new(root().join("scripts/stack"))
            .args(arguments)
            .arg("--dir")
            .arg(&self.0)
            .envs([("CASSANDRA_HEAP", "768m"), ("KAFKA_HEAP", "256m")])
            .output()
            .expect("bash runs it");
        let said = String::from_utf8_lossy(&ran.stdout).into_owned();
        let failed = String::from_utf8_lossy(&ran.stderr);
        assert!(
            ran.status.success(),
            "scripts/stack {arguments:?}: {said}\n{failed}"
        );
        said
    }
}

impl Drop for OwnStack {
    fn drop(&mut self) {
        let down = Command::new(root().join("scripts/stack"))
            .args(["down", "--dir"])
            .arg(&self.0)
            .output();
        if !down.is_ok_and(|down| down.status.success()) {
            eprintln!("the stack in {} could not be stopped", self.0.display());
        }
    }
}
