//! The servers below: real Kafka, Cassandra and Redis of `scripts/stack`.

use crate::http::Failure;
use std::{fs, path::PathBuf, process::Command};

const SCRIPT: &str = "scripts/stack";
/// Away from the ports of a stack that somebody works with.
const PORT_OFFSET: &str = "5000";

/// Running servers. Those that were started here are ended when this is dropped.
pub(crate) struct Stack {
    directory: PathBuf,
    /// `host:port` of each.
    pub(super) kafka: String,
    pub(super) cassandra: String,
    pub(super) redis: String,
    was_started: bool,
}

impl Stack {
    /// The servers that run in a directory.
    pub(super) fn running(directory: PathBuf) -> Result<Self, Failure> {
        let variables = script(&["env", "--dir", &directory.to_string_lossy()])?;
        let variable = |name: &str| {
            let line = variables.lines().find_map(|line| {
                let (key, value) = line.strip_prefix("export ")?.split_once('=')?;
                (key == name).then(|| value.to_owned())
            });
            line.ok_or_else(|| format!("{SCRIPT} env does not tell {name}"))
        };
        Ok(Self {
            kafka: variable("QUIPU_KAFKA_BROKERS")?,
            cassandra: variable("QUIPU_CASSANDRA_CONTACT_POINTS")?,
            redis: variable("QUIPU_REDIS_ADDRESS")?,
            directory,
            was_started: false,
        })
    }

    /// Starts servers without data in a directory.
    pub(super) fn start(directory: PathBuf) -> Result<Self, Failure> {
        let path = directory.to_string_lossy();
        let options = ["--port-offset", PORT_OFFSET, "--fresh"];
        script(&[&["up", "--dir", &path][..], &options].concat())?;
        let mut stack = Self::running(directory)?;
        stack.was_started = true;
        Ok(stack)
    }

    /// The number of each server's process.
    pub(super) fn processes(&self) -> Result<Vec<(&'static str, u32)>, Failure> {
        let mut processes = Vec::new();
        for name in ["redis", "cassandra", "kafka"] {
            let file = self.directory.join(name).join("pid");
            let text = fs::read_to_string(&file)
                .map_err(|error| format!("{}: {error}", file.display()))?;
            processes.push((name, text.trim().parse()?));
        }
        Ok(processes)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        if self.was_started
            && let Err(error) = script(&["down", "--dir", &self.directory.to_string_lossy()])
        {
            eprintln!("quipu-bench: {error}");
        }
    }
}

fn script(arguments: &[&str]) -> Result<String, Failure> {
    let output = Command::new(SCRIPT)
        .args(arguments)
        .output()
        .map_err(|error| format!("{SCRIPT}: {error}; run this at the top of the repository"))?;
    if output.status.success() {
        return Ok(String::from_utf8(output.stdout)?);
    }
    let problem = String::from_utf8_lossy(&output.stderr);
    Err(format!("{SCRIPT} {} failed: {problem}", arguments.join(" ")).into())
}
