//! `quipu gateway`.

use super::{
    connect::Cluster,
    dependencies::{Dependencies, LookAt},
    follower,
    serving::{self, Serving},
    watched::Watch,
};
use crate::{
    commands::exit::{Exit, Failed},
    process::{metrics, readiness::Readiness, stop_signal, threads::Threads},
};
use quipu_adapters::{
    config::{Config, GatewaySection},
    metered::{MeteredCache, MeteredEvents, MeteredRollups},
    ports::ControlPlane,
};
use quipu_gateway::{Gateway, Limits, Ports, Probes, Settings};
use std::{pin::pin, sync::Arc};

/// Runs the role until it is asked to stop.
pub(super) async fn run(config: Config) -> Result<Exit, Failed> {
    let mut stop = pin!(stop_signal()?);
    let metrics = metrics::install()?;
    let http = serving::take(&config.gateway.http, "http").await?;
    let grpc = serving::take(&config.gateway.grpc, "grpc").await?;
    let cluster = tokio::select! {
        cluster = Cluster::join_patiently(&config) => cluster?,
        () = &mut stop => return Ok(Exit::Done),
    };
    let readiness = Readiness::starting();
    let dependencies = Dependencies::unknown();
    let look = LookAt {
        log: cluster.log.clone(),
        policies: cluster.control.policies(),
        clock: cluster.clock.clone(),
        watch: Watch::default(),
    };
    tokio::spawn(dependencies.clone().follow(look));

    let mut roles = Threads::new(readiness.clone());
    let (board, control) = follower::start(&cluster, &mut roles)?;
    let ports = Ports {
        log: cluster.log.clone(),
        events: MeteredEvents::new(cluster.events.clone()),
        rollups: MeteredRollups::new(cluster.rollups.clone()),
        cache: MeteredCache::new(cluster.cache.clone()),
        control,
    };
    let settings = Settings {
        append_guard: config.gateway.append_guard,
    };
    let (gateway, signals) = Gateway::new(ports, board, cluster.clock.clone(), settings);
    tokio::spawn(signals);
    let ready = readiness.clone();
    let probes = Probes {
        ready: Arc::new(move || ready.check().and_then(|()| dependencies.check())),
        metrics,
    };
    let router = quipu_gateway::router(Arc::new(gateway), probes);
    readiness.started();
    let text = format!(
        "quipu gateway serves http://{} (HTTP/JSON) and http://{} (gRPC)",
        http.address, grpc.address
    );
    let serving = Serving::start(vec![http, grpc], &router, limits(&config.gateway));
    serving::announce(&text);
    let failure = serving::until_stopped(&mut roles, stop).await;
    readiness.stopping();
    serving.stop().await;
    roles.stop().await?;
    failure.map_or(Ok(Exit::Done), |failure| Err(failure.into()))
}

fn limits(section: &GatewaySection) -> Limits {
    Limits {
        connections: section.max_connections,
        requests: section.max_requests,
        request: section.request_timeout,
        drain: section.drain,
        ..Limits::default()
    }
}
