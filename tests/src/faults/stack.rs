//! The servers below: real Kafka, Cassandra and Redis of `scripts/stack`.

use super::{
    case::Target,
    processes::{Frozen, is_alive, tell},
};
use quipu_certify::Failure;
use rustix::process::Signal;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread::sleep,
    time::{Duration, Instant},
};

/// A server that was told to end has, after so long.
const PATIENCE: Duration = Duration::from_mins(1);

const SCRIPT: &str = "scripts/stack";

/// Where the servers are, `host:port` each.
#[derive(Clone, Debug)]
pub struct Addresses {
    /// A broker.
    pub kafka: String,
    /// A node.
    pub cassandra: String,
    /// The cache.
    pub redis: String,
}

/// Servers that were started here, and end when this is dropped.
#[derive(Debug)]
pub struct Stack {
    root: PathBuf,
    directory: PathBuf,
    port_offset: u16,
    /// Where they are.
    pub addresses: Addresses,
}

impl Stack {
    /// Starts servers without data in a directory, by the script of the repository at `root`.
    ///
    /// # Errors
    /// With what the script said.
    pub fn start(root: &Path, directory: &Path, port_offset: u16) -> Result<Self, Failure> {
        let nowhere = Addresses {
            kafka: String::new(),
            cassandra: String::new(),
            redis: String::new(),
        };
        let mut stack = Self {
            root: root.to_owned(),
            directory: directory.to_owned(),
            port_offset,
            addresses: nowhere,
        };
        let said = stack.up(&["--fresh"])?;
        let last = said.lines().last().unwrap_or_default();
        let words: Vec<_> = last.split_whitespace().collect();
        let ["kafka", kafka, "cassandra", cassandra, "redis", redis] = words[..] else {
            return Err(Failure::new(format!("{SCRIPT} said {said}")));
        };
        stack.addresses = Addresses {
            kafka: kafka.to_owned(),
            cassandra: cassandra.to_owned(),
            redis: redis.to_owned(),
        };
        Ok(stack)
    }

    /// Starts a server again that was told to end, once it has, and returns when it answers.
    pub(super) fn start_again(&self, server: Target) -> Result<(), Failure> {
        let process = self.process(server)?;
        let asked = Instant::now();
        while is_alive(process) {
            if asked.elapsed() > PATIENCE {
                let problem = format!("{} does not end", server.name());
                return Err(Failure::new(problem));
            }
            sleep(Duration::from_millis(50));
        }
        self.up(&[]).map(|_| ())
    }

    pub(super) fn tell(&self, server: Target, signal: Signal) -> Result<(), Failure> {
        tell(self.process(server)?, signal)
    }

    pub(super) fn freeze(&self, server: Target) -> Result<Frozen, Failure> {
        Frozen::new(self.process(server)?)
    }

    fn process(&self, server: Target) -> Result<u32, Failure> {
        let file = self.directory.join(server.name()).join("pid");
        let text = fs::read_to_string(&file)
            .map_err(|error| Failure::new(format!("{}: {error}", file.display())))?;
        let process = text.trim().parse();
        process.map_err(|_| Failure::new(format!("{} holds {text:?}", file.display())))
    }

    fn up(&self, more: &[&str]) -> Result<String, Failure> {
        let offset = self.port_offset.to_string();
        self.script(&[&["up", "--port-offset", &offset], more].concat())
    }

    fn script(&self, arguments: &[&str]) -> Result<String, Failure> {
        let output = Command::new(self.root.join(SCRIPT))
            .args(arguments)
            .arg("--dir")
            .arg(&self.directory)
            .output()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(said);
        }
        let problem = String::from_utf8_lossy(&output.stderr);
        let arguments = arguments.join(" ");
        Err(Failure::new(format!(
            "{SCRIPT} {arguments}: {said}{problem}"
        )))
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        if let Err(error) = self.script(&["down"]) {
            eprintln!("quipu-faults: {error}");
        }
    }
}
