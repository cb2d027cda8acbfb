//! `quipu serve`: all roles in one process on one directory.

mod roles;
mod telemetry;

use crate::commands::exit::Exit;
use clap::Args;
use quipu_adapters::{
    clock::Clock,
    embedded::{Embedded, EmbeddedSettings},
};
use quipu_gateway::{Gateway, Limits, Probes};
use roles::Roles;
use std::{
    io::{self, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

/// Options of `quipu serve`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServeArgs {
    /// The directory that holds everything; made when it does not exist
    #[arg(long, value_name = "DIR", env = "QUIPU_DATA")]
    data: PathBuf,
    /// The address for HTTP/JSON; port 0 picks a free one
    #[arg(
        long,
        value_name = "ADDR",
        env = "QUIPU_HTTP",
        default_value = "127.0.0.1:7070"
    )]
    http: SocketAddr,
    /// The address for gRPC; port 0 picks a free one. Both addresses answer both protocols
    #[arg(
        long,
        value_name = "ADDR",
        env = "QUIPU_GRPC",
        default_value = "127.0.0.1:7071"
    )]
    grpc: SocketAddr,
}

/// Why the server could not start, or had to stop.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    /// The directory could not be opened.
    #[error(transparent)]
    Open(#[from] quipu_adapters::embedded::OpenError),
    /// An address could not be listened on.
    #[error("cannot listen on {address}: {error}; choose another with --{option}")]
    Listen {
        address: SocketAddr,
        option: &'static str,
        error: io::Error,
    },
    /// A role failed in a way that no retry can mend.
    #[error("{role} stopped: {reason}")]
    Role { role: &'static str, reason: String },
    /// The system refused a thread, a signal handler or a recorder.
    #[error("cannot {what}: {reason}")]
    System { what: &'static str, reason: String },
}

/// Calls under way get this long to end, then ingest and rollups get what they need (at most 5 s).
const DRAIN_CALLS: Duration = Duration::from_secs(4);

/// A running server.
pub(crate) struct Server {
    pub(crate) http: SocketAddr,
    pub(crate) grpc: SocketAddr,
    stop_calls: watch::Sender<bool>,
    listeners: Vec<JoinHandle<io::Result<()>>>,
    roles: Roles,
    node: Embedded,
}

/// Serves until SIGTERM or SIGINT, or until a role fails.
pub(crate) async fn run(args: &ServeArgs) -> Result<Exit, ServeError> {
    let stop = stop_signal()?;
    let mut server = Server::start(&args.data, args.http, args.grpc).await?;
    server.announce(&args.data);
    let failure = tokio::select! {
        failure = server.roles.failed() => Some(failure),
        () = stop => None,
    };
    tracing::info!("stopping");
    server.stop().await?;
    failure.map_or(Ok(Exit::Done), Err)
}

impl Server {
    /// Opens the directory, starts every role, and listens.
    pub(crate) async fn start(
        data: &Path,
        http: SocketAddr,
        grpc: SocketAddr,
    ) -> Result<Self, ServeError> {
        let clock = Clock::system();
        let metrics = telemetry::install()?;
        // Ports are taken before the directory is touched: the commoner mistake fails first.
        let (http_listener, http) = listen(http, "http").await?;
        let (grpc_listener, grpc) = listen(grpc, "grpc").await?;
        let node = Embedded::open(data, EmbeddedSettings::default(), clock.clone())?;
        let roles = Roles::start(&node, &clock)?;
        let ports = quipu_gateway::Ports {
            log: node.producer(),
            events: node.events(),
            rollups: node.rollups(),
            cache: node.cache(),
            control: node.control(),
        };
        let settings = quipu_gateway::Settings::default();
        let (gateway, signals) = Gateway::new(ports, node.watermarks(), clock, settings);
        tokio::spawn(signals);
        let probes = Probes {
            ready: Arc::new(|| Ok(())),
            metrics,
        };
        let router = quipu_gateway::router(Arc::new(gateway), probes);
        let (stop_calls, stopped) = watch::channel(false);
        let listeners = [http_listener, grpc_listener].map(|listener| {
            let shutdown = roles::until(stopped.clone());
            let limits = Limits {
                drain: DRAIN_CALLS,
                ..Limits::default()
            };
            tokio::spawn(quipu_gateway::serve(
                listener,
                router.clone(),
                limits,
                shutdown,
            ))
        });
        Ok(Self {
            http,
            grpc,
            stop_calls,
            listeners: listeners.into(),
            roles,
            node,
        })
    }

    fn announce(&self, data: &Path) {
        let mut out = io::stdout().lock();
        // Whoever closed standard output does not want to read this.
        let _ = writeln!(
            out,
            "quipu serves {} on http://{} (HTTP/JSON) and http://{} (gRPC)",
            data.display(),
            self.http,
            self.grpc
        );
        let _ = out.flush();
    }

    /// Stops in the order of the flow: calls end, what they appended is ingested and rolled up as
    /// far as it is closed, and the directory is closed. What is left is done after the next start.
    pub(crate) async fn stop(self) -> Result<(), ServeError> {
        self.stop_calls.send_replace(true);
        for listener in self.listeners {
            match listener.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(%error, "a listener failed"),
                Err(error) => tracing::error!(%error, "a listener panicked"),
            }
        }
        let stopped = self.roles.stop().await;
        drop(self.node);
        stopped
    }
}

async fn listen(
    address: SocketAddr,
    option: &'static str,
) -> Result<(TcpListener, SocketAddr), ServeError> {
    let bound = async {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    bound.await.map_err(|error| ServeError::Listen {
        address,
        option,
        error,
    })
}

/// Takes SIGTERM and SIGINT from now on, and resolves at the first. Called before anybody is told
/// that the server is up: whoever stops it then must not kill it.
pub(crate) fn stop_signal() -> Result<impl Future<Output = ()>, ServeError> {
    use tokio::signal::unix::{SignalKind, signal};
    let refused = |error: io::Error| ServeError::System {
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
