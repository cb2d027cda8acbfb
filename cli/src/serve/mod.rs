//! `quipu serve`: all roles in one process on one directory.

mod roles;

use crate::{
    commands::exit::{Exit, Failed},
    process::{
        ProcessError, listen, metrics,
        readiness::Readiness,
        security::{Security, SecurityArgs},
        slices, stop_signal,
        threads::{Threads, until},
    },
};
use clap::{Args, value_parser};
use quipu_adapters::{
    clock::Clock,
    embedded::{Embedded, EmbeddedBestEffort, EmbeddedSettings},
    metered::{MeteredBestEffort, MeteredCache, MeteredEvents, MeteredRollups},
};
use quipu_gateway::{Gateway, Limits, Probes, ScanBounds, Served};
use std::{
    future,
    io::{self, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{sync::watch, task::JoinHandle};

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
        default_value = "127.0.0.1:7070",
        value_parser = listen::address
    )]
    http: SocketAddr,
    /// The address for gRPC; port 0 picks a free one. Both addresses answer both protocols
    #[arg(
        long,
        value_name = "ADDR",
        env = "QUIPU_GRPC",
        default_value = "127.0.0.1:7071",
        value_parser = listen::address
    )]
    grpc: SocketAddr,
    #[command(flatten)]
    scan: ScanArgs,
    #[command(flatten)]
    security: SecurityArgs,
}

/// How much one read of a counter in an `ACCURATE` namespace may scan.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct ScanArgs {
    /// Partitions of events that one read of an ACCURATE counter may scan
    #[arg(
        long,
        value_name = "N",
        default_value_t = ScanBounds::default().partitions,
        value_parser = value_parser!(u64).range(1..)
    )]
    max_scan_partitions: u64,
    /// Events that one read of an ACCURATE counter may scan
    #[arg(
        long,
        value_name = "N",
        default_value_t = ScanBounds::default().events,
        value_parser = value_parser!(u64).range(1..)
    )]
    max_scan_events: u64,
}

impl From<ScanArgs> for ScanBounds {
    fn from(args: ScanArgs) -> Self {
        Self {
            partitions: args.max_scan_partitions,
            events: args.max_scan_events,
        }
    }
}

/// Calls under way get this long to end, then ingest and rollups get what they need (at most 5 s).
const DRAIN_CALLS: Duration = Duration::from_secs(4);

/// A running server.
pub(crate) struct Server {
    pub(crate) http: SocketAddr,
    pub(crate) grpc: SocketAddr,
    stop_calls: watch::Sender<bool>,
    listeners: Vec<JoinHandle<io::Result<()>>>,
    roles: Threads,
    readiness: Readiness,
    slices: JoinHandle<()>,
    node: Embedded,
}

/// Serves until SIGTERM or SIGINT, or until a role fails.
pub(crate) async fn run(args: &ServeArgs) -> Result<Exit, Failed> {
    let (auth, tls) = args.security.sections()?;
    let clock = Clock::system();
    let security = Security::open(&auth, &tls, &[args.http, args.grpc], &clock)?;
    let stop = stop_signal()?;
    let scheme = security.transport.scheme();
    let scan = args.scan.into();
    let mut server = Server::start(&args.data, args.http, args.grpc, scan, security).await?;
    server.announce(&args.data, scheme);
    let failure = tokio::select! {
        failure = server.roles.failed() => Some(failure),
        () = stop => None,
    };
    tracing::info!("stopping");
    server.stop().await?;
    failure.map_or(Ok(Exit::Done), |failure| Err(failure.into()))
}

impl Server {
    /// Opens the directory, starts every role, and listens.
    pub(crate) async fn start(
        data: &Path,
        http: SocketAddr,
        grpc: SocketAddr,
        scan: ScanBounds,
        security: Security,
    ) -> Result<Self, ProcessError> {
        let clock = Clock::system();
        let metrics = metrics::install()?;
        // Ports are taken before the directory is touched: the commoner mistake fails first.
        let (http_listener, http) = listen::bind(http, "http").await?;
        let (grpc_listener, grpc) = listen::bind(grpc, "grpc").await?;
        let node = Embedded::open(data, EmbeddedSettings::default(), clock.clone())?;
        let readiness = Readiness::starting();
        let (slicing, events) = (EmbeddedSettings::default().dataset.slicing, node.events());
        let slices = tokio::spawn(slices::follow(clock.clone(), slicing, move || {
            future::ready(Ok(events.slice_sizes()))
        }));
        let roles = roles::start(&node, &clock, readiness.clone())?;
        let ports = quipu_gateway::Ports {
            log: node.producer(),
            events: MeteredEvents::new(node.events()),
            rollups: MeteredRollups::new(node.rollups()),
            cache: MeteredCache::new(node.cache()),
            best_effort: Arc::new(MeteredBestEffort::new(EmbeddedBestEffort::new(
                EmbeddedBestEffort::DEFAULT_BYTES,
                clock.clone(),
            ))),
            control: node.control(),
        };
        let settings = quipu_gateway::Settings {
            scan,
            ..quipu_gateway::Settings::default()
        };
        let (gateway, signals) = Gateway::new(ports, node.watermarks(), clock, settings);
        tokio::spawn(signals);
        let (ready, files) = (readiness.clone(), security.clone());
        let probes = Probes {
            ready: Arc::new(move || ready.check().and_then(|()| files.check())),
            metrics,
        };
        let served = Served::alone(Arc::new(gateway));
        let router = quipu_gateway::router(Arc::new(served), probes);
        let router = quipu_gateway::authenticated(router, security.access);
        let (stop_calls, stopped) = watch::channel(false);
        let listeners = [http_listener, grpc_listener].map(|listener| {
            let shutdown = until(stopped.clone());
            let limits = Limits {
                drain: DRAIN_CALLS,
                ..Limits::default()
            };
            tokio::spawn(quipu_gateway::serve(
                listener,
                security.transport.clone(),
                router.clone(),
                limits,
                shutdown,
            ))
        });
        readiness.started();
        Ok(Self {
            http,
            grpc,
            stop_calls,
            listeners: listeners.into(),
            roles,
            readiness,
            slices,
            node,
        })
    }

    fn announce(&self, data: &Path, scheme: &str) {
        let mut out = io::stdout().lock();
        // Whoever closed standard output does not want to read this.
        let _ = writeln!(
            out,
            "quipu serves {} on {scheme}://{} (HTTP/JSON) and {scheme}://{} (gRPC)",
            data.display(),
            self.http,
            self.grpc
        );
        let _ = out.flush();
    }

    /// Stops in the order of the flow: calls end, what they appended is ingested and rolled up as
    /// far as it is closed, and the directory is closed. What is left is done after the next start.
    pub(crate) async fn stop(self) -> Result<(), ProcessError> {
        self.readiness.stopping();
        self.stop_calls.send_replace(true);
        for listener in self.listeners {
            match listener.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(%error, "a listener failed"),
                Err(error) => tracing::error!(%error, "a listener panicked"),
            }
        }
        let stopped = self.roles.stop().await;
        self.slices.abort();
        drop(self.node);
        stopped
    }
}
