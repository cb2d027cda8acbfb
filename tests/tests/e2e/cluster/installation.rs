//! An installation of Quipu: topics, a keyspace and keys of its own on a stack that others use too.

use super::{binary::binary, cassandra, kafka};
use crate::process::{Running, Server, ended};
use std::{
    cell::Cell,
    env,
    fmt::Write as _,
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write as _},
    net::TcpStream,
    process::{Command, Stdio},
    thread::{self, sleep},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Where Kafka, Cassandra and Redis are.
#[derive(Clone, Debug)]
pub(super) struct Addresses {
    pub(super) kafka: String,
    pub(super) cassandra: String,
    pub(super) redis: String,
}

impl Addresses {
    /// Those that all tests share.
    ///
    /// # Panics
    /// When nobody answers there.
    pub(super) fn shared() -> Self {
        let of = |name: &str, default: &str| {
            let address = env::var(name).unwrap_or_else(|_| default.to_owned());
            if let Err(error) = TcpStream::connect(&address) {
                panic!("{name}={address}: {error}; start the stack: scripts/stack up");
            }
            address
        };
        Self {
            kafka: of("QUIPU_TEST_KAFKA", "127.0.0.1:19092"),
            cassandra: of("QUIPU_TEST_CASSANDRA", "127.0.0.1:19042"),
            redis: of("QUIPU_TEST_REDIS", "127.0.0.1:16379"),
        }
    }
}

/// A role that runs, other than a gateway.
pub(super) struct Role {
    http: String,
    pub(super) running: Running,
}

impl Role {
    /// The value of a metric, summed over its labels.
    pub(super) fn metric(&self, name: &str) -> f64 {
        let text = ureq::get(format!("{}/metrics", self.http)).call();
        let text = text.expect("it answers").body_mut().read_to_string();
        let text = text.expect("text");
        let of_it = |line: &&str| {
            line.starts_with(&format!("{name} ")) || line.starts_with(&format!("{name}{{"))
        };
        text.lines()
            .filter(of_it)
            .map(|line| line.rsplit(' ').next().and_then(|value| value.parse().ok()))
            .map(|value: Option<f64>| value.expect("a number"))
            .sum()
    }
}

/// Names that no other installation has.
pub(super) struct Installation {
    pub(super) name: String,
    pub(super) addresses: Addresses,
    pub(super) event_partitions: u32,
    logs: TempDir,
    started: Cell<usize>,
}

impl Installation {
    /// Names only: nothing is made yet.
    pub(super) fn new(addresses: Addresses, event_partitions: u32) -> Self {
        let name = format!("quipu_e2e_{:08x}", fastrand::u32(..));
        eprintln!("{name} on {addresses:?}");
        Self {
            name,
            addresses,
            event_partitions,
            logs: tempfile::tempdir().expect("a temporary directory"),
            started: Cell::new(0),
        }
    }

    pub(super) fn topic(&self, of: &str) -> String {
        format!("{}-{of}", self.name)
    }

    /// The binary with arguments, and settings of this installation only.
    pub(super) fn quipu(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.args(arguments);
        for (name, _) in env::vars_os() {
            if name.to_string_lossy().starts_with("QUIPU_") {
                command.env_remove(name);
            }
        }
        let Addresses {
            kafka,
            cassandra,
            redis,
        } = &self.addresses;
        let any_port = "127.0.0.1:0".to_owned();
        let settings = [
            ("KAFKA_BROKERS", kafka.clone()),
            ("KAFKA_TOPICS_EVENTS", self.topic("events")),
            ("KAFKA_TOPICS_SIGNALS", self.topic("signals")),
            ("KAFKA_TOPICS_WATERMARKS", self.topic("watermarks")),
            ("KAFKA_TOPICS_DEAD_LETTERS", self.topic("dlq")),
            ("KAFKA_EVENT_PARTITIONS", self.event_partitions.to_string()),
            ("KAFKA_SIGNAL_PARTITIONS", "4".to_owned()),
            ("CASSANDRA_CONTACT_POINTS", cassandra.clone()),
            ("CASSANDRA_KEYSPACE", self.name.clone()),
            ("REDIS_ADDRESS", redis.clone()),
            ("REDIS_KEY_PREFIX", self.name.clone()),
            ("GATEWAY_HTTP", any_port.clone()),
            ("GATEWAY_GRPC", any_port.clone()),
            // Accept limits are short here, and one broker's clock does not step back so far.
            ("GATEWAY_APPEND_GUARD", "500ms".to_owned()),
            ("INGEST_HTTP", any_port.clone()),
            ("INGEST_GROUP", self.topic("ingest")),
            ("ROLLUP_HTTP", any_port),
            ("ROLLUP_GROUP", self.topic("rollup")),
        ];
        command.envs(settings.map(|(key, value)| (format!("QUIPU_{key}"), value)));
        command
    }

    /// Runs a command to its end. Returns its exit code and what it said.
    pub(super) fn run(&self, arguments: &[&str]) -> (i32, String) {
        ended(&self.quipu(arguments).output().expect("the binary starts"))
    }

    /// Makes topics and tables.
    pub(super) fn set_up(&self) {
        let (code, said) = self.run(&["admin", "setup"]);
        assert_eq!(code, 0, "{said}");
    }

    /// Starts a role without waiting for it.
    pub(super) fn spawn(&self, role: &str) -> Running {
        self.spawn_with(&[role])
    }

    /// The same, with arguments behind the role's name.
    fn spawn_with(&self, arguments: &[&str]) -> Running {
        let role = arguments[0];
        self.started.set(self.started.get() + 1);
        let log = self
            .logs
            .path()
            .join(format!("{:02}-{role}", self.started.get()));
        let child = self
            .quipu(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(log).expect("a file for standard error"))
            .spawn();
        Running(child.expect("the binary starts"))
    }

    /// Waits until a role ends by itself. Returns its exit code and what all roles said.
    pub(super) fn ended(&self, mut running: Running) -> (i32, String) {
        let started = Instant::now();
        loop {
            if let Some(status) = running.0.try_wait().expect("the process is ours") {
                return (status.code().unwrap_or(-1), self.logs());
            }
            let waits = started.elapsed() < Duration::from_mins(1);
            assert!(waits, "it goes on, and should not:\n{}", self.logs());
            sleep(Duration::from_millis(50));
        }
    }

    /// Starts a role, and returns its URLs once it runs.
    fn start_any(&self, arguments: &[&str]) -> (Vec<String>, Running) {
        let mut running = self.spawn_with(arguments);
        let out = running.0.stdout.take().expect("standard output is a pipe");
        let mut line = String::new();
        let _ = BufReader::new(out).read_line(&mut line);
        let words = line.split_whitespace();
        let urls = words.filter(|word| word.starts_with("http://"));
        let urls: Vec<_> = urls.map(str::to_owned).collect();
        assert!(
            !urls.is_empty(),
            "{arguments:?} said {line:?}, and:\n{}",
            self.logs()
        );
        (urls, running)
    }

    pub(super) fn start(&self, role: &str) -> Role {
        self.start_with(&[role])
    }

    /// The same, with arguments behind the role's name.
    pub(super) fn start_with(&self, arguments: &[&str]) -> Role {
        let (mut urls, running) = self.start_any(arguments);
        let http = urls.remove(0);
        Role { http, running }
    }

    pub(super) fn start_gateway(&self) -> Server {
        self.start_gateway_with(&[])
    }

    /// The same, with arguments.
    pub(super) fn start_gateway_with(&self, arguments: &[&str]) -> Server {
        let (mut urls, running) = self.start_any(&[&["gateway"], arguments].concat());
        let grpc = urls.pop().expect("two URLs");
        let http = urls.pop().expect("two URLs");
        Server {
            http,
            grpc,
            running,
        }
    }

    /// What all roles said on standard error.
    pub(super) fn logs(&self) -> String {
        let files = fs::read_dir(self.logs.path()).expect("the directory is ours");
        let mut files: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
        files.sort();
        files.iter().fold(String::new(), |mut all, file| {
            let said = fs::read_to_string(file).expect("text");
            let lines: Vec<_> = said.lines().collect();
            let last = &lines[lines.len().saturating_sub(40)..];
            let name = file.file_name().unwrap_or_default();
            writeln!(all, "--- {}\n{}", name.display(), last.join("\n")).expect("text grows");
            all
        })
    }

    /// Fails the test if a role panicked, or said that something is damaged.
    pub(super) fn assert_no_panic(&self) {
        for file in fs::read_dir(self.logs.path()).expect("the directory is ours") {
            let path = file.expect("a file").path();
            let said = fs::read_to_string(&path).expect("text");
            for word in ["panicked", "damaged"] {
                assert!(
                    !said.contains(word),
                    "{} has {word:?}:\n{said}",
                    path.display()
                );
            }
        }
    }
}

impl Drop for Installation {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}", self.logs());
        }
        let topics = ["events", "signals", "watermarks", "dlq"].map(|of| self.topic(of));
        kafka::delete_topics(
            &self.addresses.kafka,
            &topics.each_ref().map(String::as_str),
        );
        cassandra::drop_keyspace(&self.addresses.cassandra, &self.name);
        let script = "for _, key in ipairs(redis.call('keys', ARGV[1])) do redis.call('unlink', key) end return 'OK'";
        let unlink = format!("EVAL \"{script}\" 0 {}*", self.name);
        // They end by themselves, too.
        let _ = redis(&self.addresses.redis, &unlink);
    }
}

/// Sends Redis a command, and returns the beginning of its answer.
pub(super) fn redis(address: &str, command: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(format!("{command}\r\n").as_bytes())?;
    let mut answer = [0; 64];
    let length = stream.read(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer[..length]).into_owned())
}
