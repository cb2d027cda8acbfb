//! The distributed system: its roles as processes on real Kafka, Cassandra and Redis.

mod api;
mod batch;
mod costs;
mod counts;
mod drain;
mod events;
mod freshness;
mod installation;
mod outage;
mod publish;
mod redis;
mod stack;
mod watermarks;

use crate::http::Failure;
pub(crate) use api::Beside;
use events::Shape;
use installation::Installation;
use stack::Stack;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::signal::unix::{SignalKind, signal};

/// What is drained: few counters of which some are hot, and many that are all cold.
pub(crate) const SHAPES: [Shape; 2] = [Shape::Zipf(10_000), Shape::Uniform(1_000_000)];

/// What is measured where.
pub(crate) struct Cluster {
    stack: Stack,
    quipu: PathBuf,
}

impl Cluster {
    /// Uses the servers that `scripts/stack` runs in a directory, or starts some below `disk`.
    pub(crate) fn new(
        quipu: PathBuf,
        running: Option<&Path>,
        disk: &Path,
    ) -> Result<Self, Failure> {
        let stack = match running {
            Some(directory) => Stack::running(directory.to_owned())?,
            None => Stack::start(disk.join("bench-stack"))?,
        };
        Ok(Self { stack, quipu })
    }

    /// How fast published events are made durable, and how soon all counts are exact.
    pub(crate) fn drain(&self, events: u64, shape: Shape) -> Result<(), Failure> {
        let installation = Installation::new(&self.stack, &self.quipu, shape.name());
        runtime()?.block_on(drain::measure(&installation, events, shape))
    }

    /// What calls of a gateway over gRPC cost, beside what a user would call instead.
    pub(crate) fn api(&self, lasts: Duration, beside: Beside) -> Result<(), Failure> {
        let [api, unread] =
            ["api", "unread"].map(|subject| Installation::new(&self.stack, &self.quipu, subject));
        runtime()?.block_on(api::measure([&api, &unread], lasts, beside))
    }

    /// How soon after its acknowledgement an add is counted.
    pub(crate) fn freshness(&self, lasts: Duration) -> Result<(), Failure> {
        let installation = Installation::new(&self.stack, &self.quipu, "freshness");
        runtime()?.block_on(freshness::measure(&installation, lasts))
    }

    /// What happens while each server hangs for so long, and after it.
    pub(crate) fn outages(&self, lasts: Duration) -> Result<(), Failure> {
        for server in self.stack.processes()? {
            let subject = format!("outage_{}", server.0);
            let installation = Installation::new(&self.stack, &self.quipu, &subject);
            runtime()?.block_on(async {
                let mut terminated = signal(SignalKind::terminate())?;
                // However this ends, the server must go on.
                tokio::select! {
                    measured = outage::measure(&installation, server, lasts) => measured,
                    _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
                    _ = terminated.recv() => Err("terminated".into()),
                }
            })?;
        }
        Ok(())
    }
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}
