//! `quipu import --kafka`: a gateway of its own, for the time of one import.
//!
//! What is accepted, and what became of an attempt whose answer was lost, is decided as any gateway
//! decides it (R7, R16): with the policy and the event store of the cluster. So an import may begin
//! one way and go on the other. It is of the cluster `default`: into any other, import through a
//! gateway.

use super::{
    connect::Cluster,
    declared::Target,
    gateway::{limits, of_cluster},
    serving::{self, Serving},
};
use crate::{
    args_import::ImportArgs,
    commands::{
        exit::{Exit, Failed},
        import,
    },
    process::{readiness::Readiness, threads::Threads},
};
use quipu_adapters::config::Config;
use quipu_gateway::{Access, Probes, Served, Transport};
use std::sync::Arc;

/// Only the import itself calls.
const LISTEN: &str = "127.0.0.1:0";

/// Imports a file through a gateway in this process.
pub(crate) async fn run(mut args: ImportArgs, config: Config) -> Result<Exit, Failed> {
    let cluster = Cluster::join(&Target::home(config.clone())).await?;
    let mut roles = Threads::new(Readiness::starting());
    let probes = Probes {
        ready: Arc::new(|| Ok(())),
        metrics: Arc::new(String::new),
    };
    let gateway = Arc::new(of_cluster(&cluster, &config, &mut roles)?);
    let router = quipu_gateway::router(Arc::new(Served::alone(gateway)), probes);
    let router = quipu_gateway::authenticated(router, Access::Anyone);
    let taken = serving::take(LISTEN, "kafka").await?;
    args.server.server = format!("http://{}", taken.address);
    let serving = Serving::start(
        vec![taken],
        &Transport::Plain,
        &router,
        limits(&config.gateway),
    );
    let imported = tokio::select! {
        imported = import::run(args) => imported,
        failure = roles.failed() => Err(failure.into()),
    };
    serving.stop().await;
    // What was acknowledged is in the log, whatever becomes of the follower of watermarks.
    let stopped = roles.stop().await;
    imported.and_then(|exit| stopped.map(|()| exit).map_err(Failed::from))
}
