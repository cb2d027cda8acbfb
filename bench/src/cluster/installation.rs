//! An installation of its own on a stack that others may use too: a keyspace, topics, a prefix.

use super::stack::Stack;
use crate::{
    http::{Client, Failure, now},
    server::Server,
};
use std::{
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

/// The namespace that everything is counted in.
pub(super) const NAMESPACE: &str = "default";

/// One of each role.
pub(super) struct Roles {
    pub(super) gateway: Server,
    pub(super) ingest: Server,
    pub(super) worker: Server,
}

impl Roles {
    /// All, with their names.
    pub(super) fn all(&self) -> [(&'static str, &Server); 3] {
        [
            ("gateway", &self.gateway),
            ("ingest", &self.ingest),
            ("rollup-worker", &self.worker),
        ]
    }
}

/// Names that nobody else has, and the addresses of the servers.
pub(super) struct Installation<'a> {
    pub(super) stack: &'a Stack,
    quipu: PathBuf,
    /// Every name begins with it; it is the keyspace and Redis' prefix itself.
    pub(super) name: String,
}

impl<'a> Installation<'a> {
    /// One that does not exist yet.
    pub(super) fn new(stack: &'a Stack, quipu: &Path, subject: &str) -> Self {
        let moment = jiff::Timestamp::now().as_millisecond();
        Self {
            stack,
            quipu: quipu.to_owned(),
            name: format!("bench_{subject}_{moment}"),
        }
    }

    /// A topic's name: `events`, `signals`, `watermarks` or `dead_letters`.
    pub(super) fn topic(&self, which: &str) -> String {
        format!("{}_{which}", self.name)
    }

    /// A command of the binary for this installation. Other settings pass through from the
    /// environment.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.quipu);
        command
            .args(arguments)
            .env("QUIPU_TELEMETRY_LOG", "warn")
            .env("QUIPU_KAFKA_BROKERS", &self.stack.kafka)
            .env("QUIPU_CASSANDRA_CONTACT_POINTS", &self.stack.cassandra)
            .env("QUIPU_CASSANDRA_KEYSPACE", &self.name)
            .env("QUIPU_REDIS_ADDRESS", &self.stack.redis)
            .env("QUIPU_REDIS_KEY_PREFIX", &self.name)
            .env("QUIPU_INGEST_GROUP", self.topic("ingest"))
            .env("QUIPU_ROLLUP_GROUP", self.topic("rollup"));
        for topic in ["events", "signals", "watermarks", "dead_letters"] {
            let variable = format!("QUIPU_KAFKA_TOPICS_{}", topic.to_uppercase());
            command.env(variable, self.topic(topic));
        }
        command
    }

    /// Makes the topics and tables.
    pub(super) fn set_up(&self) -> Result<(), Failure> {
        let output = self.command(&["admin", "setup"]).output()?;
        if output.status.success() {
            return Ok(());
        }
        let problem = String::from_utf8_lossy(&output.stderr);
        Err(format!("quipu admin setup failed: {problem}").into())
    }

    /// Starts a role and waits until it runs.
    pub(super) fn start(&self, role: &str) -> Result<Server, Failure> {
        let mut command = self.command(&[role, "--http", "127.0.0.1:0"]);
        if role == "gateway" {
            command.args(["--grpc", "127.0.0.1:0"]);
        }
        Server::start(&mut command).map_err(|error| format!("quipu {role}: {error}").into())
    }

    /// Makes the topics, the tables and the namespace, starts one of each role, and waits until an
    /// add is accepted.
    pub(super) async fn start_roles(&self, cardinality: &str) -> Result<Roles, Failure> {
        self.set_up()?;
        let roles = Roles {
            gateway: self.start("gateway")?,
            ingest: self.start("ingest")?,
            worker: self.start("rollup-worker")?,
        };
        self.make_namespace(&roles.gateway, cardinality).await?;
        Ok(roles)
    }

    /// Makes the namespace, and waits until an add is accepted, to a counter of its own.
    pub(super) async fn make_namespace(
        &self,
        gateway: &Server,
        cardinality: &str,
    ) -> Result<(), Failure> {
        const PATIENCE: Duration = Duration::from_mins(1);
        let mut client = Client::connect(&gateway.http).await?;
        let document =
            format!(r#"{{"namespace":"{NAMESPACE}","rollup":{{"cardinality":"{cardinality}"}}}}"#);
        let path = format!("/v1/namespaces/{NAMESPACE}");
        client.call("PUT", &path, document).await?;
        let began = Instant::now();
        loop {
            let path = format!("/v1/namespaces/{NAMESPACE}/counters/first:add");
            let body = format!(
                r#"{{"delta":1,"idempotency_token":{{"token":"first","generation_time":"{}"}}}}"#,
                now()
            );
            match client.call("POST", &path, body).await {
                Ok(_) => return Ok(()),
                Err(error) if began.elapsed() > PATIENCE => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    }
}
