//! PostgreSQL with the same de-duplication: an event is inserted if it is new, and only then added
//! to its counter, in one transaction that is synced before the answer.

use crate::{
    http::{Failure, Load},
    report::latencies,
};
use postgres::{Client, NoTls};
use std::{
    fs, io,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

/// A fresh cluster on a socket in a directory of its own. Dropped, it is stopped.
pub(crate) struct Postgres {
    bin: PathBuf,
    directory: PathBuf,
    port: u16,
}

const SCHEMA: &str = "
    CREATE TABLE events (token text PRIMARY KEY, counter bigint NOT NULL, delta bigint NOT NULL);
    CREATE TABLE counters (counter bigint PRIMARY KEY, count bigint NOT NULL);";

const APPLY: &str = "
    WITH new AS (
        INSERT INTO events SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[])
        ON CONFLICT DO NOTHING RETURNING counter, delta)
    INSERT INTO counters SELECT counter, sum(delta)::bigint FROM new GROUP BY 1 ORDER BY 1
    ON CONFLICT (counter) DO UPDATE SET count = counters.count + EXCLUDED.count";

impl Postgres {
    /// Makes and starts a cluster below `parent`, with the settings that Debian ships.
    pub(crate) fn start(parent: &Path) -> Result<Self, Failure> {
        let bin = fs::read_dir("/usr/lib/postgresql")
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .ok()
            .and_then(|versions| versions.iter().map(|it| it.path().join("bin")).max())
            .ok_or("PostgreSQL is not installed: apt-get install postgresql")?;
        // A socket's path is short, and the server refuses to run as root.
        let directory = tempfile::Builder::new()
            .prefix("pg-")
            .tempdir_in(parent)?
            .keep();
        let directory = directory.canonicalize()?;
        // A free port, so that no server of somebody else is in the way.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let postgres = Self {
            bin,
            directory,
            port,
        };
        let owned = Command::new("chown")
            .arg("postgres")
            .arg(&postgres.directory)
            .status()?;
        if !owned.success() {
            return Err("cannot give the cluster's directory to the user postgres".into());
        }
        let data = postgres
            .directory
            .join("data")
            .to_string_lossy()
            .into_owned();
        postgres.tool("initdb", &["-D", &data, "-U", "postgres", "-A", "trust"])?;
        let options =
            format!("-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories=''");
        postgres.tool(
            "pg_ctl",
            &[
                "-D",
                &data,
                "-w",
                "-l",
                &format!("{data}/log"),
                "-o",
                &options,
                "start",
            ],
        )?;
        postgres.connect()?.batch_execute(SCHEMA)?;
        Ok(postgres)
    }

    fn tool(&self, tool: &str, arguments: &[&str]) -> io::Result<()> {
        let output = Command::new("runuser")
            .args(["-u", "postgres", "--"])
            .arg(self.bin.join(tool))
            .args(arguments)
            .current_dir("/")
            .stdout(std::process::Stdio::null())
            .status()?;
        if output.success() {
            Ok(())
        } else {
            Err(io::Error::other(format!("{tool}: {output}")))
        }
    }

    fn connect(&self) -> Result<Client, Failure> {
        Ok(Client::connect(
            &format!("host=127.0.0.1 port={} user=postgres", self.port),
            NoTls,
        )?)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let data = self.directory.join("data").to_string_lossy().into_owned();
        if let Err(error) = self.tool("pg_ctl", &["-D", &data, "-m", "immediate", "stop"]) {
            eprintln!("could not stop PostgreSQL in {data}: {error}");
        }
    }
}

/// Tokens, counters and deltas of one statement.
type Events = (Vec<String>, Vec<i64>, Vec<i64>);

/// Closed-loop clients, one event a statement.
pub(crate) fn single_statements(
    postgres: &Postgres,
    clients: u64,
    lasts: Duration,
) -> Result<Load, Failure> {
    let began = Instant::now();
    run(postgres, clients, |client| {
        let numbers = (0_i64..).take_while(move |_| began.elapsed() < lasts);
        numbers.map(move |number| {
            let token = format!("{client}-{number}");
            (vec![token], vec![number % 1_000], vec![1])
        })
    })
}

/// Four clients, `size` events a statement.
pub(crate) fn batches(
    postgres: &Postgres,
    size: u64,
    rows: u64,
    counters: u64,
) -> Result<Load, Failure> {
    const CLIENTS: u64 = 4;
    let stride = usize::try_from(size * CLIENTS)?;
    let load = run(postgres, CLIENTS, |client| {
        (client * size..rows).step_by(stride).map(move |first| {
            let rows = first..(first + size).min(rows);
            let tokens: Vec<String> = rows.clone().map(|row| format!("row-{row}")).collect();
            let counter = |row: u64| row.wrapping_mul(0x9E37_79B9_7F4A_7C15) % counters;
            let names = rows.map(|row| i64::try_from(counter(row)).expect("few counters"));
            let deltas = vec![1; tokens.len()];
            (tokens, names.collect(), deltas)
        })
    })?;
    Ok(Load {
        calls: rows,
        ..load
    })
}

/// Runs clients that each apply their statements one after the other.
fn run<S: Iterator<Item = Events> + Send + 'static>(
    postgres: &Postgres,
    clients: u64,
    statements_of: impl Fn(u64) -> S,
) -> Result<Load, Failure> {
    let connections: Result<Vec<Client>, Failure> =
        (0..clients).map(|_| postgres.connect()).collect();
    let began = Instant::now();
    let clients = connections?.into_iter().zip(0..);
    let running = clients.map(|(mut connection, client)| {
        let statements = statements_of(client);
        thread::spawn(move || {
            let statement = connection.prepare(APPLY)?;
            let mut seen = latencies();
            for (tokens, counters, deltas) in statements {
                let called = Instant::now();
                connection.execute(&statement, &[&tokens, &counters, &deltas])?;
                seen.record(u64::try_from(called.elapsed().as_micros())?)?;
            }
            Ok::<_, Failure>(seen)
        })
    });
    let running: Vec<_> = running.collect();
    let mut all = latencies();
    for client in running {
        all.add(client.join().map_err(|_| "a client panicked")??)?;
    }
    Ok(Load {
        calls: all.len(),
        took: began.elapsed(),
        latencies: all,
    })
}
