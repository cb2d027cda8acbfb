//! What every process that serves has in common: its listeners, its stop signal, its threads, its
//! metrics, and what it says of its health.

pub(crate) mod listen;
pub(crate) mod metrics;
pub(crate) mod readiness;
pub(crate) mod security;
pub(crate) mod slices;
pub(crate) mod threads;

use std::io;

/// Why a process could not start, or had to stop.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProcessError {
    /// The directory could not be opened.
    #[error(transparent)]
    Open(#[from] quipu_adapters::embedded::OpenError),
    /// An address could not be listened on.
    #[error("cannot listen on {address}: {error}; choose another with --{option}")]
    Listen {
        address: std::net::SocketAddr,
        option: &'static str,
        error: io::Error,
    },
    /// An address is none.
    #[cfg(feature = "cluster")]
    #[error("{text:?} is no address for --{option}: {reason}")]
    Address {
        text: String,
        option: &'static str,
        reason: String,
    },
    /// Anybody on the network could call.
    #[error(
        "anybody on the network could call {address}: make a key with \
         `quipu key create --id NAME --namespace '*' --allow read,write,admin --file keys.toml` and \
         start with --keys keys.toml, or let anybody call with --anonymous"
    )]
    Exposed { address: std::net::SocketAddr },
    /// Keys or certificates cannot be used.
    #[error("{0}")]
    Security(String),
    /// A role failed in a way that no retry can mend.
    #[error("{role} stopped: {reason}")]
    Role { role: &'static str, reason: String },
    /// The system refused a thread, a signal handler or a recorder.
    #[error("cannot {what}: {reason}")]
    System { what: &'static str, reason: String },
}

impl From<ProcessError> for crate::commands::exit::Failed {
    fn from(error: ProcessError) -> Self {
        Self::new(crate::commands::exit::Exit::Internal, error.to_string())
    }
}

/// Takes SIGTERM and SIGINT from now on, and resolves at the first. Called before anybody is told
/// that the server is up: whoever stops it then must not kill it.
pub(crate) fn stop_signal() -> Result<impl Future<Output = ()>, ProcessError> {
    use tokio::signal::unix::{SignalKind, signal};
    let refused = |error: io::Error| ProcessError::System {
        what: "handle signals",
        reason: error.to_string(),
    };
    let mut terminate = signal(SignalKind::terminate()).map_err(refused)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(refused)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
