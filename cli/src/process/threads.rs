//! Roles on threads and event loops of their own: work of one that blocks on the disk never delays
//! another, or a call.

use super::{ProcessError, readiness::Readiness};
use std::{
    panic::{self, AssertUnwindSafe},
    thread,
};
use tokio::sync::{mpsc, watch};

/// The running roles of a process.
pub(crate) struct Threads {
    stop: watch::Sender<bool>,
    ending: mpsc::Sender<Ended>,
    ended: mpsc::Receiver<Ended>,
    running: usize,
    readiness: Readiness,
}

type Ended = (&'static str, Result<(), String>);

/// Threads of a role that wait for the disk; each keeps some memory of its own.
const DISK_THREADS: usize = 4;

impl Threads {
    /// None yet.
    pub(crate) fn new(readiness: Readiness) -> Self {
        let (stop, _) = watch::channel(false);
        let (ending, ended) = mpsc::channel(8);
        Self {
            stop,
            ending,
            ended,
            running: 0,
            readiness,
        }
    }

    /// Resolves once the roles are asked to stop.
    pub(crate) fn asked_to_stop(&self) -> impl Future<Output = ()> + Send + 'static {
        until(self.stop.subscribe())
    }

    /// Starts a role.
    pub(crate) fn spawn<E: std::error::Error>(
        &mut self,
        role: &'static str,
        work: impl Future<Output = Result<(), E>> + Send + 'static,
    ) -> Result<(), ProcessError> {
        let refused = |error: std::io::Error| ProcessError::System {
            what: "start a thread",
            reason: error.to_string(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(DISK_THREADS)
            .enable_all()
            .build();
        let runtime = runtime.map_err(refused)?;
        let (ending, readiness) = (self.ending.clone(), self.readiness.clone());
        let run = move || {
            // A role that breaks an assertion must stop the process, not leave it half alive.
            let result = panic::catch_unwind(AssertUnwindSafe(|| runtime.block_on(work)));
            readiness.stopped(role);
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
            .map_err(refused)?;
        self.running += 1;
        Ok(())
    }

    /// Resolves when a role ends by itself, which none does without a reason.
    pub(crate) async fn failed(&mut self) -> ProcessError {
        let (role, result) = self.ended.recv().await.unwrap_or(("a role", Ok(())));
        self.running -= 1;
        let reason = result
            .err()
            .unwrap_or_else(|| "it ended without being asked to".to_owned());
        ProcessError::Role { role, reason }
    }

    /// Asks all roles to finish what is under way, and waits for them.
    pub(crate) async fn stop(mut self) -> Result<(), ProcessError> {
        self.stop.send_replace(true);
        let mut result = Ok(());
        for _ in 0..self.running {
            if let Some((role, Err(reason))) = self.ended.recv().await {
                result = Err(ProcessError::Role { role, reason });
            }
        }
        result
    }
}

/// Resolves when `stopped` says so.
pub(crate) async fn until(mut stopped: watch::Receiver<bool>) {
    // An error means that the server is gone, which is a reason to stop too.
    let _ = stopped.wait_for(|stop| *stop).await;
}
