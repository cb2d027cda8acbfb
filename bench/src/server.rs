//! The server under test: the real binary as a process of its own.

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
        let began = Instant::now();
        let mut process = Command::new(&self.quipu)
            .args([
                "serve",
                "--http",
                "127.0.0.1:0",
                "--grpc",
                "127.0.0.1:0",
                "--data",
            ])
            .arg(self.data())
            .env("QUIPU_LOG", "warn")
            .stdout(Stdio::piped())
            .spawn()?;
        let out = process.stdout.take().expect("it was piped");
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        let started_in = began.elapsed();
        let address = line
            .split("http://")
            .nth(1)
            .and_then(|rest| rest.split(' ').next());
        let Some(address) = address else {
            return Err(io::Error::other(format!(
                "the server did not say where it serves: {line}"
            )));
        };
        Ok(Server {
            process,
            http: address.to_owned(),
            started_in,
        })
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
    /// Kills it the hard way.
    pub(crate) fn kill(mut self) -> io::Result<()> {
        self.process.kill()?;
        self.process.wait().map(drop)
    }

    /// CPU time of all its threads so far, in user and kernel mode.
    pub(crate) fn cpu(&self) -> io::Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.id()))?;
        // The command's name, in parentheses, may hold spaces; utime and stime are the 14th and
        // 15th field, the 12th and 13th behind it, in ticks of 10 ms.
        let fields: Vec<&str> = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
        let total = ticks(11).zip(ticks(12)).map(|(user, system)| user + system);
        let total = total.ok_or_else(|| io::Error::other("cannot read /proc/PID/stat"))?;
        Ok(Duration::from_millis(total * 10))
    }

    /// A line of `/proc/PID/status`, in MiB.
    pub(crate) fn memory(&self, field: &str) -> io::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kib = line.and_then(|rest| rest.trim_start_matches(':').trim().split(' ').next());
        let kib = kib.and_then(|kib| kib.parse::<u64>().ok());
        kib.map(|kib| kib / 1024)
            .ok_or_else(|| io::Error::other(format!("no {field} in status")))
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
