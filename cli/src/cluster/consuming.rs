//! What the roles that read a topic have in common: probes that answer while they start, the
//! cluster that they join, and their end.

use super::{
    connect::Cluster,
    dependencies::{Dependencies, LookAt},
    health,
    serving::{self, Serving},
    watched::Watch,
};
use crate::{
    commands::exit::{Exit, Failed},
    process::{metrics, readiness::Readiness, threads::Threads},
};
use quipu_adapters::{
    config::Config,
    ports::{ControlPlane, LogError},
    retry::Backoff,
};
use quipu_gateway::Transport;
use std::{net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

/// Who the role is.
pub(super) struct Identity<'a> {
    /// As in `quipu NAME`.
    pub(super) name: &'static str,
    /// Where its probes are answered.
    pub(super) http: &'a str,
    /// A partition that makes no progress for this long is no longer live.
    pub(super) stuck_after: Duration,
}

/// A role that has joined its cluster and does nothing yet.
pub(super) struct Joined {
    pub(super) cluster: Cluster,
    /// Told of the progress of each partition.
    pub(super) watch: Watch,
    /// Where its work runs.
    pub(super) roles: Threads,
    name: &'static str,
    readiness: Readiness,
    serving: Serving,
    address: SocketAddr,
}

/// Answers probes and joins the cluster; `None` when the process was asked to stop first.
pub(super) async fn join(
    config: &Config,
    identity: Identity<'_>,
    stop: Pin<&mut impl Future<Output = ()>>,
) -> Result<Option<Joined>, Failed> {
    let metrics = metrics::install()?;
    let taken = serving::take(identity.http, "http").await?;
    let (readiness, watch) = (Readiness::starting(), Watch::default());
    let dependencies = Dependencies::unknown();
    let (ready, watched, answers) = (readiness.clone(), watch.clone(), dependencies.clone());
    let stuck_after = identity.stuck_after;
    let probes = health::Probes {
        live: Arc::new(move || watched.progress().check(stuck_after)),
        ready: Arc::new(move || ready.check().and_then(|()| answers.check())),
        metrics,
    };
    let address = taken.address;
    let serving = Serving::start(
        vec![taken],
        &Transport::Plain,
        &health::router(probes),
        health::limits(),
    );
    let cluster = tokio::select! {
        cluster = Cluster::join_patiently(config) => cluster?,
        () = stop => return Ok(None),
    };
    let look = LookAt {
        log: cluster.log.clone(),
        policies: cluster.control.policies(),
        clock: cluster.clock.clone(),
        watch: watch.clone(),
    };
    tokio::spawn(dependencies.follow(look));
    Ok(Some(Joined {
        cluster,
        watch,
        roles: Threads::new(readiness.clone()),
        name: identity.name,
        readiness,
        serving,
        address,
    }))
}

impl Joined {
    /// Lets the role work until it is to stop or has failed. Probes are answered for `afterwards`
    /// once its work has ended.
    pub(super) async fn work(
        mut self,
        stop: Pin<&mut impl Future<Output = ()>>,
        afterwards: Duration,
    ) -> Result<Exit, Failed> {
        self.readiness.started();
        serving::announce(&format!(
            "quipu {} runs; health and metrics on http://{}",
            self.name, self.address
        ));
        let failure = serving::until_stopped(&mut self.roles, stop).await;
        self.readiness.stopping();
        let stopped = self.roles.stop().await;
        tokio::time::sleep(afterwards).await;
        self.serving.stop().await;
        stopped?;
        failure.map_or(Ok(Exit::Done), |failure| Err(failure.into()))
    }
}

/// Runs a role with one consumer after another, until it is to stop or has failed: the next one
/// takes the place of one that has lost its cluster, and goes on from what is committed.
pub(super) async fn run_with<C, E, Connecting, Running>(
    first: C,
    connect: impl Fn() -> Connecting,
    run: impl Fn(C) -> Running,
    is_lost: impl Fn(&E) -> bool,
    stopped: impl Future<Output = ()> + Clone,
) -> Result<(), E>
where
    E: From<LogError> + std::fmt::Display,
    Connecting: Future<Output = Result<C, LogError>>,
    Running: Future<Output = Result<(), E>>,
{
    let mut consumer = first;
    loop {
        match run(consumer).await {
            Err(error) if is_lost(&error) => {
                tracing::info!(%error, "going on from what is committed, with another consumer");
            }
            ended => return ended,
        }
        consumer = tokio::select! {
            next = connect_patiently(&connect) => next?,
            () = stopped.clone() => return Ok(()),
        };
    }
}

async fn connect_patiently<C, Connecting>(connect: &impl Fn() -> Connecting) -> Result<C, LogError>
where
    Connecting: Future<Output = Result<C, LogError>>,
{
    let mut backoff = Backoff::new("join the group with another consumer");
    loop {
        match connect().await {
            Err(error @ LogError::Unavailable(_)) => backoff.wait(&error).await,
            made => return made,
        }
    }
}
