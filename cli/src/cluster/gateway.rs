//! `quipu gateway`.

use super::{
    connect::Cluster,
    declared::Asked,
    dependencies::{Dependencies, LookAt},
    follower,
    gated::Gated,
    joining,
    later::Later,
    serving::{self, Serving},
    watched::Watch,
};
use crate::{
    commands::exit::{Exit, Failed},
    process::{
        ProcessError, metrics, readiness::Readiness, security::Security, stop_signal,
        threads::Threads,
    },
};
use quipu_adapters::{
    cassandra::{CassandraEventStore, CassandraRollupStore},
    clock::Clock,
    config::{Config, GatewaySection},
    kafka::KafkaProducer,
    metered::{MeteredBestEffort, MeteredCache, MeteredEvents, MeteredRollups},
    ports::ControlPlane,
    redis::{RedisBestEffort, RedisCache},
};
use quipu_gateway::{Gateway, Limits, Ports, Probes, ScanBounds, Served, Settings};
use std::{pin::pin, sync::Arc};

/// Runs the role until it is asked to stop.
pub(super) async fn run(config: Config) -> Result<Exit, Failed> {
    let mut stop = pin!(stop_signal()?);
    let metrics = metrics::install()?;
    let http = serving::take(&config.gateway.http, "http").await?;
    let grpc = serving::take(&config.gateway.grpc, "grpc").await?;
    let clock = Clock::system();
    let addresses = [http.address, grpc.address];
    let security = Security::open(&config.auth, &config.tls, &addresses, &clock)?;
    let scheme = security.transport.scheme();
    let text = format!(
        "quipu gateway serves {scheme}://{} (HTTP/JSON) and {scheme}://{} (gRPC)",
        http.address, grpc.address
    );
    let later = Later::default();
    let router = later.router(Arc::clone(&metrics));
    let router = quipu_gateway::authenticated(router, security.access.clone());
    let limits = limits(&config.gateway);
    let serving = Serving::start(vec![http, grpc], &security.transport, &router, limits);
    let asked = Asked {
        config,
        cluster: None,
    };
    let (cluster, _) = tokio::select! {
        joined = Cluster::join_patiently(&asked) => joined?,
        () = &mut stop => return Ok(Exit::Done),
    };
    let config = asked.config;
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
    let ready = readiness.clone();
    let probes = Probes {
        ready: Arc::new(move || {
            let own = ready.check().and_then(|()| security.check());
            own.and_then(|()| dependencies.check())
        }),
        metrics,
    };
    let home = Arc::new(of_cluster(&cluster, &config, &mut roles)?);
    let clusters = cluster.cassandra.clusters(config.clone()).await?;
    let most_calls = config.gateway.max_requests / 2;
    let (served, members) = Served::new(home, Arc::new(clusters.clone()), most_calls);
    later.answer_with(quipu_gateway::router(Arc::new(served), probes));
    readiness.started();
    serving::announce(&text);
    let failure = tokio::select! {
        failure = serving::until_stopped(&mut roles, stop) => failure,
        () = joining::follow(clusters, config, members) => {
            unreachable!("it follows declarations for ever")
        }
    };
    readiness.stopping();
    serving.stop().await;
    roles.stop().await?;
    failure.map_or(Ok(Exit::Done), |failure| Err(failure.into()))
}

/// The gateway of one cluster.
pub(super) type OfCluster = Gateway<
    KafkaProducer,
    MeteredEvents<CassandraEventStore>,
    MeteredRollups<CassandraRollupStore>,
    MeteredCache<RedisCache>,
    Gated,
>;

/// The gateway of a cluster; and the role that follows its watermarks.
pub(super) fn of_cluster(
    cluster: &Cluster,
    config: &Config,
    roles: &mut Threads,
) -> Result<OfCluster, ProcessError> {
    let (board, control) = follower::start(cluster, roles)?;
    let ports = Ports {
        log: cluster.log.clone(),
        events: MeteredEvents::new(cluster.events.clone()),
        rollups: MeteredRollups::new(cluster.rollups.clone()),
        cache: MeteredCache::new(cluster.cache.clone()),
        best_effort: Arc::new(MeteredBestEffort::new(best_effort(config)?)),
        control,
    };
    let settings = Settings {
        append_guard: config.gateway.append_guard,
        scan: ScanBounds {
            partitions: config.gateway.max_scan_partitions,
            events: config.gateway.max_scan_events,
        },
    };
    let (gateway, signals) = Gateway::new(ports, board, cluster.clock.clone(), settings);
    tokio::spawn(signals);
    Ok(gateway)
}

fn best_effort(config: &Config) -> Result<RedisBestEffort, ProcessError> {
    let refused = |reason: String| ProcessError::System {
        what: "use Redis",
        reason,
    };
    let settings = config.redis.settings();
    let settings = settings.map_err(|error| refused(error.to_string()))?;
    RedisBestEffort::connect(&settings).map_err(|error| refused(error.to_string()))
}

/// What clients can use up.
pub(super) fn limits(section: &GatewaySection) -> Limits {
    Limits {
        connections: section.max_connections,
        requests: section.max_requests,
        request: section.request_timeout,
        drain: section.drain,
        ..Limits::default()
    }
}
