//! The server under test: the real binary as a process of its own.

use crate::process;
use std::{
    fs,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// Where the binary is, and where data may be made.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) quipu: PathBuf,
    pub(crate) directory: PathBuf,
}

/// A server process. Dropped, it is killed.
pub(crate) struct Server {
    process: Child,
    /// `host:port` of the HTTP listener.
    pub(crate) http: String,
    /// `host:port` of the gRPC listener; empty where there is none.
    #[cfg(feature = "cluster")]
    pub(crate) grpc: String,
    /// From its start until it said that it serves.
    pub(crate) started_in: Duration,
}

impl Place {
    /// The server's data directory.
    pub(crate) fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// Starts the server and waits until it says where it serves.
    pub(crate) fn serve(&self) -> io::Result<Server> {
        let mut command = Command::new(&self.quipu);
        command
            .args(["serve", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"])
            .arg("--data")
            .arg(self.data())
            .env("QUIPU_LOG", "warn");
        Server::start(&mut command)
    }

    /// Runs a client verb against a server, and returns its standard output.
    pub(crate) fn client(&self, server: &Server, arguments: &[&str]) -> io::Result<String> {
        let output = Command::new(&self.quipu)
            .args(arguments)
            .args(["--server", &format!("http://{}", server.http)])
            .stderr(Stdio::inherit())
            .output()?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(io::Error::other(format!(
            "quipu {} failed: {}",
            arguments.join(" "),
            output.status
        )))
    }
}

impl Server {
    /// Starts a process that serves, and waits until its first line says where.
    pub(crate) fn start(command: &mut Command) -> io::Result<Self> {
        let began = Instant::now();
        let mut process = command.stdout(Stdio::piped()).spawn()?;
        let out = process.stdout.take().expect("it was piped");
        // From here on it is killed whatever happens.
        let mut server = Self {
            process,
            http: String::new(),
            #[cfg(feature = "cluster")]
            grpc: String::new(),
            started_in: Duration::ZERO,
        };
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        server.started_in = began.elapsed();
        let rests = line.split("http://").skip(1);
        let mut addresses = rests.filter_map(|rest| rest.split_whitespace().next());
        let Some(http) = addresses.next() else {
            let problem = format!("the server did not say where it serves: {line:?}");
            return Err(io::Error::other(problem));
        };
        http.clone_into(&mut server.http);
        #[cfg(feature = "cluster")]
        addresses
            .next()
            .unwrap_or_default()
            .clone_into(&mut server.grpc);
        Ok(server)
    }

    /// Kills it the hard way.
    pub(crate) fn kill(mut self) -> io::Result<()> {
        self.process.kill()?;
        self.process.wait().map(drop)
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// CPU time of all its threads so far, in user and kernel mode.
    pub(crate) fn cpu(&self) -> io::Result<Duration> {
        process::cpu(self.id())
    }

    /// A line of `/proc/PID/status`, in MiB.
    pub(crate) fn memory(&self, field: &str) -> io::Result<u64> {
        process::memory(self.id(), field)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already, which is what is wanted.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Bytes that a directory takes on disk.
pub(crate) fn bytes_on_disk(directory: &Path) -> io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        // A file may be dropped while the server compacts.
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        bytes += if metadata.is_dir() {
            bytes_on_disk(&entry.path())?
        } else {
            metadata.blocks() * 512
        };
    }
    Ok(bytes)
}
