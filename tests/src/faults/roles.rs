//! The roles of an installation, as processes.

use super::{
    case::Target,
    processes::{Frozen, tell},
    stack::Addresses,
};
use quipu_adapters::config::{Config, Sources};
use quipu_certify::Failure;
use rustix::process::Signal;
use std::{
    collections::BTreeMap,
    env,
    fs::{self, File},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread::sleep,
    time::{Duration, Instant},
};

/// Who was asked to end and has not after so long is killed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Names and addresses of an installation, and its roles that run. They are killed when this is
/// dropped.
#[derive(Debug)]
pub(super) struct Roles {
    binary: PathBuf,
    environment: Vec<(String, String)>,
    /// Where gateways listen for gRPC, whichever process is one.
    grpc: String,
    logs: PathBuf,
    running: Mutex<Running>,
}

#[derive(Debug, Default)]
struct Running {
    started: usize,
    processes: BTreeMap<Target, Vec<Child>>,
}

impl Roles {
    /// Names only: nothing is made or started yet.
    pub(super) fn new(binary: &Path, addresses: &Addresses, logs: &Path) -> Result<Self, Failure> {
        let name = format!("quipu_faults_{:08x}", fastrand::u32(..));
        let (http, grpc) = (free_address()?, free_address()?);
        let any_port = "127.0.0.1:0";
        let topic = |of: &str| format!("{name}-{of}");
        let settings = [
            ("KAFKA_BROKERS", addresses.kafka.clone()),
            ("KAFKA_TOPICS_EVENTS", topic("events")),
            ("KAFKA_TOPICS_SIGNALS", topic("signals")),
            ("KAFKA_TOPICS_WATERMARKS", topic("watermarks")),
            ("KAFKA_TOPICS_DEAD_LETTERS", topic("dlq")),
            ("KAFKA_EVENT_PARTITIONS", "4".to_owned()),
            ("KAFKA_SIGNAL_PARTITIONS", "4".to_owned()),
            ("CASSANDRA_CONTACT_POINTS", addresses.cassandra.clone()),
            ("CASSANDRA_KEYSPACE", name.clone()),
            ("REDIS_ADDRESS", addresses.redis.clone()),
            ("REDIS_KEY_PREFIX", name.clone()),
            ("GATEWAY_HTTP", http),
            ("GATEWAY_GRPC", grpc.clone()),
            // Accept limits are short here, and one broker's clock does not step back so far.
            ("GATEWAY_APPEND_GUARD", "500ms".to_owned()),
            ("INGEST_HTTP", any_port.to_owned()),
            ("INGEST_GROUP", topic("ingest")),
            ("ROLLUP_HTTP", any_port.to_owned()),
            ("ROLLUP_GROUP", topic("rollup")),
            // What no signal told heals within this.
            ("ROLLUP_SWEEP_EVERY", "5s".to_owned()),
        ];
        let settings = settings.map(|(key, value)| (format!("QUIPU_{key}"), value));
        fs::create_dir_all(logs)?;
        Ok(Self {
            binary: binary.to_owned(),
            environment: settings.to_vec(),
            grpc,
            logs: logs.to_owned(),
            running: Mutex::default(),
        })
    }

    /// The configuration of the roles.
    pub(super) fn config(&self) -> Result<Config, Failure> {
        let sources = Sources {
            environment: self.environment.clone(),
            ..Sources::default()
        };
        Ok(sources.load()?)
    }

    /// The URL of the gateway.
    pub(super) fn server(&self) -> String {
        format!("http://{}", self.grpc)
    }

    /// Makes topics and tables.
    pub(super) fn set_up(&self) -> Result<(), Failure> {
        let output = self.quipu(&["admin", "setup"]).output()?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(Failure::new(format!("quipu admin setup: {said}")))
    }

    /// Starts a process of a role without waiting until it works.
    pub(super) fn start(&self, role: Target) -> Result<(), Failure> {
        let mut running = self.running();
        running.started += 1;
        let name = format!("{:03}-{}", running.started, role.name());
        let log = File::create(self.logs.join(name))?;
        let child = self
            .quipu(&[role.name()])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        running.processes.entry(role).or_default().push(child);
        Ok(())
    }

    /// Kills the oldest process of a role.
    pub(super) fn kill(&self, role: Target) -> Result<(), Failure> {
        let mut child = self.take_oldest(role)?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// Asks the oldest process of a role to end, and returns when it has.
    pub(super) fn end(&self, role: Target) -> Result<(), Failure> {
        let mut child = self.take_oldest(role)?;
        tell(child.id(), Signal::TERM)?;
        let asked = Instant::now();
        while child.try_wait()?.is_none() {
            if asked.elapsed() > PATIENCE {
                child.kill()?;
                child.wait()?;
                let problem = format!("{} did not end in {PATIENCE:?}", role.name());
                return Err(Failure::new(problem));
            }
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Freezes the oldest process of a role.
    pub(super) fn freeze(&self, role: Target) -> Result<Frozen, Failure> {
        let running = self.running();
        let oldest = running.processes.get(&role).and_then(|all| all.first());
        let oldest = oldest.ok_or_else(|| none_runs(role))?;
        Frozen::new(oldest.id())
    }

    /// How many processes of a role run.
    pub(super) fn count(&self, role: Target) -> usize {
        self.running().processes.get(&role).map_or(0, Vec::len)
    }

    /// The processes of all roles.
    pub(super) fn processes(&self) -> Vec<(Target, u32)> {
        let running = self.running();
        let of = |(role, children): (&Target, &Vec<Child>)| {
            let ids: Vec<_> = children.iter().map(|child| (*role, child.id())).collect();
            ids
        };
        running.processes.iter().flat_map(of).collect()
    }

    /// What a role said that it must never say.
    pub(super) fn panics(&self) -> Result<Vec<String>, Failure> {
        let mut found = Vec::new();
        for file in fs::read_dir(&self.logs)? {
            let path = file?.path();
            let said = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
            let bad = |line: &&str| line.contains("panicked") || line.contains("damaged");
            let lines = said.lines().filter(bad);
            found.extend(lines.map(|line| format!("{}: {line}", path.display())));
        }
        Ok(found)
    }

    fn quipu(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(arguments);
        for (name, _) in env::vars_os() {
            if name.to_string_lossy().starts_with("QUIPU_") {
                command.env_remove(name);
            }
        }
        command.envs(self.environment.iter().cloned());
        command
    }

    fn take_oldest(&self, role: Target) -> Result<Child, Failure> {
        let mut running = self.running();
        match running.processes.get_mut(&role) {
            Some(all) if !all.is_empty() => Ok(all.remove(0)),
            _ => Err(none_runs(role)),
        }
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Roles {
    fn drop(&mut self) {
        let running = self.running.get_mut();
        let running = running.unwrap_or_else(PoisonError::into_inner);
        for child in running.processes.values_mut().flatten() {
            if let Err(error) = child.kill().and_then(|()| child.wait()) {
                eprintln!("quipu-faults: process {}: {error}", child.id());
            }
        }
    }
}

fn none_runs(role: Target) -> Failure {
    Failure::new(format!("no {} runs", role.name()))
}

/// One that nobody listens on now.
fn free_address() -> Result<String, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    Ok(listener.local_addr()?.to_string())
}
