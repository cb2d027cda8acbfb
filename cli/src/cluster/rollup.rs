//! `quipu rollup-worker`.

use super::{
    consuming::{self, Identity},
    declared::Asked,
    follower,
    watched::Watched,
};
use crate::{
    commands::exit::{Exit, Failed},
    process::{slices, stop_signal},
};
use futures::{FutureExt, future};
use quipu_adapters::{
    config::Config,
    kafka::KafkaConsumer,
    metered::{MeteredCache, MeteredEvents, MeteredRollups},
    ports::{ControlPlane, LogError},
};
use quipu_rollup_worker::{
    Ports, RollupError, Settings, aggregate::Stores, machine::Limits, sweep::SweepSettings,
};
use std::{pin::pin, time::Duration};

/// Counters that lag less than this are on their way.
const SWEEP_GRACE: Duration = Duration::from_secs(30);

/// Runs the role until it is asked to stop.
pub(super) async fn run(asked: Asked) -> Result<Exit, Failed> {
    let mut stop = pin!(stop_signal()?);
    let identity = Identity {
        name: "rollup-worker",
        http: &asked.config.rollup.http,
        stuck_after: asked.config.rollup.stuck_after,
    };
    let Some(mut joined) = consuming::join(&asked, identity, stop.as_mut()).await? else {
        return Ok(Exit::Done);
    };
    let (cluster, config) = (&joined.cluster, &joined.config);
    let (events, slicing) = (
        cluster.events.clone(),
        config.cassandra.dataset()?.shape.slicing,
    );
    tokio::spawn(slices::follow(cluster.clock.clone(), slicing, move || {
        let events = events.clone();
        async move { events.slice_sizes().await }
    }));
    let (board, control) = follower::start(cluster, &mut joined.roles)?;
    let (kafka, group) = (cluster.kafka.clone(), config.rollup.group.clone());
    let watch = joined.watch.clone();
    let connect = move || {
        let consumer = KafkaConsumer::signals(kafka.clone(), &group);
        let consumer = consumer.map(|consumer| Watched::new(consumer, watch.clone()));
        future::ready(consumer)
    };
    let consumer = connect().await?;
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
    let stopped = joined.roles.asked_to_stop().shared();
    let (settings, until) = (settings(config), stopped.clone());
    let run =
        move |consumer| quipu_rollup_worker::run(consumer, ports.clone(), settings, until.clone());
    let is_lost = |error: &_| matches!(error, RollupError::Log(LogError::ClientLost(_)));
    let work = consuming::run_with(consumer, connect, run, is_lost, stopped);
    joined.roles.spawn("rollup-worker", work)?;
    joined.work(stop.as_mut(), Duration::ZERO).await
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
