//! The binary, as a process that a test owns.

use rustix::process::{Pid, Signal, kill_process};
use std::{
    env,
    fs::{self, File, OpenOptions},
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// The binary that was built together with this test.
pub(crate) fn binary() -> PathBuf {
    let test = env::current_exe().expect("a test knows where it is");
    let profile = test
        .ancestors()
        .nth(2)
        .expect("it is in target/PROFILE/deps");
    let binary = profile.join("quipu");
    assert!(
        binary.exists(),
        "{} is missing: run `cargo build -p quipu` with the same profile first",
        binary.display()
    );
    binary
}

/// The binary with arguments, and nothing of the environment that changes what it does.
pub(crate) fn quipu(arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(arguments);
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("QUIPU_") {
            command.env_remove(name);
        }
    }
    command
}

/// Its exit code and what it said.
pub(crate) fn ended(output: &Output) -> (i32, String) {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    (
        output.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

/// A directory for a server, and what it says on standard error, over all its lives.
pub(crate) struct Place {
    directory: TempDir,
}

impl Place {
    /// A new, empty one.
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        Self { directory }
    }

    /// What `--data` gets.
    pub(crate) fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// A path beside the data.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The command that serves it.
    pub(crate) fn serve(&self, http: &str, grpc: &str) -> Command {
        let data = self.data();
        let data = data.to_str().expect("a path in UTF-8");
        quipu(&["serve", "--data", data, "--http", http, "--grpc", grpc])
    }

    /// Starts a server without waiting for it.
    pub(crate) fn spawn(&self, http: &str, grpc: &str) -> Running {
        self.run(&mut self.serve(http, grpc))
    }

    fn run(&self, serve: &mut Command) -> Running {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.beside("stderr"));
        let child = serve
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log.expect("a file for standard error"))
            .spawn();
        Running(child.expect("the binary starts"))
    }

    /// Runs a server that must not start. Returns its exit code and what it said.
    pub(crate) fn refused(&self, http: &str, grpc: &str) -> (i32, String) {
        let mut command = self.serve(http, grpc);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = Running(command.spawn().expect("the binary starts"));
        let started = Instant::now();
        while running.0.try_wait().expect("the process is ours").is_none() {
            assert!(
                started.elapsed() < Duration::from_secs(20),
                "the server starts, and should not"
            );
            sleep(Duration::from_millis(10));
        }
        let (mut said, child) = (String::new(), &mut running.0);
        let pipes: [Option<Box<dyn Read>>; 2] = [
            child.stdout.take().map(|pipe| Box::new(pipe) as _),
            child.stderr.take().map(|pipe| Box::new(pipe) as _),
        ];
        for mut pipe in pipes.into_iter().flatten() {
            pipe.read_to_string(&mut said).expect("it says text");
        }
        let status = running.0.wait().expect("the process is ours");
        (status.code().unwrap_or(-1), said)
    }

    /// Starts a server on free ports, and waits until it listens.
    pub(crate) fn start(&self) -> Server {
        self.start_at("127.0.0.1:0", "127.0.0.1:0")
    }

    /// The same on given ports.
    pub(crate) fn start_at(&self, http: &str, grpc: &str) -> Server {
        self.start_by(&mut self.serve(http, grpc))
    }

    /// The same by a command that serves it.
    pub(crate) fn start_by(&self, serve: &mut Command) -> Server {
        let mut running = self.run(serve);
        let out = running.0.stdout.take().expect("standard output is a pipe");
        let mut line = String::new();
        let _ = BufReader::new(out).read_line(&mut line);
        let mut urls = line.split(' ').filter(|word| word.starts_with("http://"));
        let (Some(http), Some(grpc)) = (urls.next(), urls.next()) else {
            panic!("the server said {line:?}, and:\n{}", self.stderr());
        };
        Server {
            http: http.to_owned(),
            grpc: grpc.to_owned(),
            running,
        }
    }

    /// What the servers said on standard error.
    pub(crate) fn stderr(&self) -> String {
        fs::read_to_string(self.beside("stderr")).unwrap_or_default()
    }

    /// Fails the test if a server panicked, or said that something is damaged.
    pub(crate) fn assert_no_panic(&self) {
        let said = self.stderr();
        for word in ["panicked", "ERROR", "damaged"] {
            assert!(!said.contains(word), "standard error has {word:?}:\n{said}");
        }
    }
}

/// A process that ends with the test.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.0.kill().expect("the process is ours");
        self.0.wait().expect("the process is ours");
    }

    /// Any signal.
    pub(crate) fn tell(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("the process is ours");
    }

    /// SIGTERM. Returns how it ended, and after how long.
    pub(crate) fn terminate(mut self) -> (ExitStatus, Duration) {
        let asked = Instant::now();
        self.tell(Signal::TERM);
        while asked.elapsed() < Duration::from_secs(30) {
            if let Some(status) = self.0.try_wait().expect("the process is ours") {
                return (status, asked.elapsed());
            }
            sleep(Duration::from_millis(5));
        }
        panic!("the process did not end within 30 s of SIGTERM");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server that listens.
pub(crate) struct Server {
    /// Its URL for HTTP.
    pub(crate) http: String,
    /// Its URL for gRPC.
    pub(crate) grpc: String,
    /// Its process.
    pub(crate) running: Running,
}

/// The January flights, with their true counts in the README beside them.
pub(crate) fn flights() -> &'static Path {
    Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/data/flights-2013-01.csv.gz"
    ))
}

/// The January flights in a place of their own, where journals may lie.
pub(crate) fn copy_of_flights(place: &Place) -> PathBuf {
    let file = place.beside("flights.csv.gz");
    fs::copy(flights(), &file).expect("a copy");
    file
}

/// Unpacks a file.
pub(crate) fn unpacked(path: &Path) -> String {
    let mut text = String::new();
    let file = File::open(path).expect("the file is there");
    flate2::read::GzDecoder::new(file)
        .read_to_string(&mut text)
        .expect("it is gzip of text");
    text
}
