//! Ingest and rollup, each on a thread and an event loop of its own: work of one that blocks on
//! the disk never delays the other, or a call.

use super::ServeError;
use quipu_adapters::{
    clock::Clock,
    embedded::{Embedded, EmbeddedSettings},
    ports::{ControlPlane, Topic},
};
use quipu_ingest::ticks::TickSettings;
use quipu_rollup_worker::{aggregate::Stores, machine::Limits, sweep::SweepSettings};
use std::{
    panic::{self, AssertUnwindSafe},
    thread,
    time::Duration,
};
use tokio::sync::{mpsc, watch};

/// The running roles.
pub(super) struct Roles {
    stop: watch::Sender<bool>,
    ended: mpsc::Receiver<(&'static str, Result<(), String>)>,
    running: usize,
}

const INGEST: quipu_ingest::Settings = quipu_ingest::Settings {
    topic: "quipu-events",
    batch_rows: 4_096,
    linger: Duration::from_millis(20),
    in_flight: 4,
    ticks: TickSettings {
        active: Duration::from_millis(100),
        idle: Duration::from_secs(1),
        idle_after: Duration::from_secs(30),
    },
};

const ROLLUP_LIMITS: Limits = Limits {
    pending: 50_000,
    circulating: 10_000,
    park_after: Duration::from_secs(30),
    batch_target: Duration::from_millis(100),
    batch_sizes: (64, 4_096),
};

/// Threads of a role that wait for the disk; each keeps some memory of its own.
const DISK_THREADS: usize = 4;

const SYNC_ROLLUPS_EVERY: Duration = Duration::from_millis(250);

fn sweep() -> SweepSettings {
    SweepSettings {
        every: Duration::from_mins(5),
        page_pause: Duration::from_millis(100),
        grace: Duration::from_secs(30),
        retention: EmbeddedSettings::default().dataset.retention,
    }
}

impl Roles {
    /// Starts ingest and rollup on an open node.
    pub(super) fn start(node: &Embedded, clock: &Clock) -> Result<Self, ServeError> {
        let (stop, stopped) = watch::channel(false);
        let (ending, ended) = mpsc::channel(2);
        let ports = quipu_ingest::Ports {
            log: node.producer(),
            events: node.events(),
            watermarks: node.watermarks(),
            policies: node.control().policies(),
            clock: clock.clone(),
        };
        let consumer = node.consumer(Topic::Events, "ingest");
        let ingest = quipu_ingest::run(consumer, ports, INGEST, until(stopped.clone()));
        spawn("ingest", ending.clone(), ingest)?;

        let stores = Stores {
            events: node.events(),
            rollups: node.rollups(),
            cache: node.cache(),
        };
        let ports = quipu_rollup_worker::Ports {
            log: node.producer(),
            stores,
            watermarks: node.watermarks(),
            policies: node.control().policies(),
            clock: clock.clone(),
        };
        let settings = quipu_rollup_worker::Settings {
            limits: ROLLUP_LIMITS,
            sync_every: SYNC_ROLLUPS_EVERY,
            sweep: sweep(),
        };
        let consumer = node.consumer(Topic::Signals, "rollup");
        let rollup = quipu_rollup_worker::run(consumer, ports, settings, until(stopped));
        spawn("rollup-worker", ending, rollup)?;
        Ok(Self {
            stop,
            ended,
            running: 2,
        })
    }

    /// Resolves when a role ends by itself, which none does without a reason.
    pub(super) async fn failed(&mut self) -> ServeError {
        let (role, result) = self.ended.recv().await.unwrap_or(("a role", Ok(())));
        self.running -= 1;
        let reason = result
            .err()
            .unwrap_or_else(|| "it ended without being asked to".to_owned());
        ServeError::Role { role, reason }
    }

    /// Asks all roles to finish what is under way, and waits for them.
    pub(super) async fn stop(mut self) -> Result<(), ServeError> {
        self.stop.send_replace(true);
        let mut result = Ok(());
        for _ in 0..self.running {
            if let Some((role, Err(reason))) = self.ended.recv().await {
                result = Err(ServeError::Role { role, reason });
            }
        }
        result
    }
}

/// Resolves when `stopped` says so.
pub(super) async fn until(mut stopped: watch::Receiver<bool>) {
    // An error means that the server is gone, which is a reason to stop too.
    let _ = stopped.wait_for(|stop| *stop).await;
}

fn spawn<E: std::error::Error>(
    role: &'static str,
    ending: mpsc::Sender<(&'static str, Result<(), String>)>,
    work: impl Future<Output = Result<(), E>> + Send + 'static,
) -> Result<(), ServeError> {
    let refused = |error: std::io::Error| ServeError::System {
        what: "start a thread",
        reason: error.to_string(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(DISK_THREADS)
        .enable_all()
        .build();
    let runtime = runtime.map_err(refused)?;
    let run = move || {
        // A role that breaks an assertion must stop the process, not leave it half alive.
        let result = panic::catch_unwind(AssertUnwindSafe(|| runtime.block_on(work)));
        let result = match result {
            Ok(ended) => ended.map_err(|error| error.to_string()),
            Err(_) => Err("it panicked; the message is above".to_owned()),
        };
        // The receiver waits for every role, or the process is ending anyway.
        let _ = ending.blocking_send((role, result));
    };
    thread::Builder::new()
        .name(role.to_owned())
        .spawn(run)
        .map(drop)
        .map_err(refused)
}
