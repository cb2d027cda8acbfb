//! `quipu rollup-worker`.

use super::{
    connect::Cluster,
    dependencies::{Dependencies, LookAt},
    follower, health,
    serving::{self, Serving},
    watched::{Watch, Watched},
};
use crate::{
    commands::exit::{Exit, Failed},
    process::{metrics, readiness::Readiness, slices, stop_signal, threads::Threads},
};
use quipu_adapters::{
    config::Config,
    kafka::KafkaConsumer,
    metered::{MeteredCache, MeteredEvents, MeteredRollups},
    ports::ControlPlane,
};
use quipu_rollup_worker::{
    Ports, Settings, aggregate::Stores, machine::Limits, sweep::SweepSettings,
};
use std::{pin::pin, sync::Arc, time::Duration};

/// Counters that lag less than this are on their way.
const SWEEP_GRACE: Duration = Duration::from_secs(30);

/// Runs the role until it is asked to stop.
pub(super) async fn run(config: Config) -> Result<Exit, Failed> {
    let mut stop = pin!(stop_signal()?);
    let metrics = metrics::install()?;
    let taken = serving::take(&config.rollup.http, "http").await?;
    let (readiness, watch) = (Readiness::starting(), Watch::default());
    let dependencies = Dependencies::unknown();
    let (ready, watched, answers) = (readiness.clone(), watch.clone(), dependencies.clone());
    let stuck_after = config.rollup.stuck_after;
    let probes = health::Probes {
        live: Arc::new(move || watched.progress().check(stuck_after)),
        ready: Arc::new(move || ready.check().and_then(|()| answers.check())),
        metrics,
    };
    let address = taken.address;
    let serving = Serving::start(vec![taken], &health::router(probes), health::limits());
    let cluster = tokio::select! {
        cluster = Cluster::join_patiently(&config) => cluster?,
        () = &mut stop => return Ok(Exit::Done),
    };
    let look = LookAt {
        log: cluster.log.clone(),
        policies: cluster.control.policies(),
        clock: cluster.clock.clone(),
        watch: watch.clone(),
    };
    tokio::spawn(dependencies.clone().follow(look));
    let (events, slicing) = (
        cluster.events.clone(),
        config.cassandra.dataset()?.shape.slicing,
    );
    tokio::spawn(slices::follow(cluster.clock.clone(), slicing, move || {
        let events = events.clone();
        async move { events.slice_sizes().await }
    }));

    let mut roles = Threads::new(readiness.clone());
    let (board, control) = follower::start(&cluster, &mut roles)?;
    let consumer = KafkaConsumer::signals(cluster.kafka.clone(), &config.rollup.group)?;
    let ports = Ports {
        log: cluster.log.clone(),
        stores: Stores {
            events: MeteredEvents::new(cluster.events.clone()),
            rollups: MeteredRollups::new(cluster.rollups.clone()),
            cache: MeteredCache::new(cluster.cache.clone()),
        },
        sweep_rollups: MeteredRollups::new(cluster.sweep_rollups.clone()),
        watermarks: board,
        policies: control.policies(),
        clock: cluster.clock.clone(),
    };
    let consumer = Watched::new(consumer, watch.clone());
    let stopped = roles.asked_to_stop();
    let work = quipu_rollup_worker::run(consumer, ports, settings(&config), stopped);
    roles.spawn("rollup-worker", work)?;

    readiness.started();
    serving::announce(&format!(
        "quipu rollup-worker runs; health and metrics on http://{address}"
    ));
    let failure = serving::until_stopped(&mut roles, stop).await;
    readiness.stopping();
    let stopped = roles.stop().await;
    serving.stop().await;
    stopped?;
    failure.map_or(Ok(Exit::Done), |failure| Err(failure.into()))
}

fn settings(config: &Config) -> Settings {
    let section = &config.rollup;
    Settings {
        limits: Limits {
            pending: section.pending,
            circulating: section.circulating,
            park_after: section.park_after,
            batch_target: section.batch_target,
            batch_sizes: (section.batch_least, section.batch_most),
        },
        sync_every: section.sync_every,
        sweep: SweepSettings {
            every: section.sweep_every,
            page_pause: section.sweep_page_pause,
            grace: SWEEP_GRACE,
            retention: config.cassandra.retention,
        },
    }
}
