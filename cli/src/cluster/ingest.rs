//! `quipu ingest`.

use super::{
    connect::Cluster,
    dependencies::{Dependencies, LookAt},
    health,
    serving::{self, Serving},
    watched::{Watch, Watched},
};
use crate::{
    commands::exit::{Exit, Failed},
    process::{metrics, readiness::Readiness, stop_signal, threads::Threads},
};
use quipu_adapters::{
    config::{Config, IngestSection},
    kafka::{KafkaConsumer, watermarks},
    metered::MeteredEvents,
    ports::ControlPlane,
    watermarks::WatermarkBoard,
};
use quipu_core::watermark::Watermarks;
use quipu_ingest::{Ports, Settings, ticks::TickSettings};
use std::{pin::pin, sync::Arc, time::Duration};

/// The last watermarks are published this soon after their commit.
const LAST_WATERMARKS: Duration = Duration::from_millis(200);

/// Runs the role until it is asked to stop.
pub(super) async fn run(config: Config) -> Result<Exit, Failed> {
    let mut stop = pin!(stop_signal()?);
    let metrics = metrics::install()?;
    let taken = serving::take(&config.ingest.http, "http").await?;
    let (readiness, watch) = (Readiness::starting(), Watch::default());
    let dependencies = Dependencies::unknown();
    let (ready, watched, answers) = (readiness.clone(), watch.clone(), dependencies.clone());
    let stuck_after = config.ingest.stuck_after;
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

    let registered = cluster.registered.borrow().clone();
    let initial = registered.iter().map(|(partition, at)| (*partition, *at));
    let board = WatermarkBoard::new(Watermarks::new(initial));
    tokio::spawn(watermarks::publish(cluster.log.clone(), board.clone()));
    let consumer = KafkaConsumer::events(
        cluster.kafka.clone(),
        &config.ingest.group,
        cluster.registered.clone(),
    );
    let consumer = Watched::new(consumer.await?, watch.clone());
    let ports = Ports {
        log: cluster.log.clone(),
        events: MeteredEvents::new(cluster.events.clone()),
        watermarks: board,
        policies: cluster.control.policies(),
        clock: cluster.clock.clone(),
    };
    let mut roles = Threads::new(readiness.clone());
    let settings = settings(
        &config.ingest,
        &config.kafka.topics.events,
        config.gateway.append_guard,
    );
    let work = quipu_ingest::run(consumer, ports, settings, roles.asked_to_stop());
    roles.spawn("ingest", work)?;

    readiness.started();
    serving::announce(&format!(
        "quipu ingest runs; health and metrics on http://{address}"
    ));
    let failure = serving::until_stopped(&mut roles, stop).await;
    readiness.stopping();
    let stopped = roles.stop().await;
    tokio::time::sleep(LAST_WATERMARKS).await;
    serving.stop().await;
    stopped?;
    failure.map_or(Ok(Exit::Done), |failure| Err(failure.into()))
}

fn settings(section: &IngestSection, topic: &str, append_guard: Duration) -> Settings {
    Settings {
        // Once in the life of the process.
        topic: topic.to_owned().leak(),
        batch_rows: section.batch_rows,
        linger: section.linger,
        in_flight: section.in_flight,
        ticks: TickSettings {
            active: section.tick_active,
            idle: section.tick_idle,
            idle_after: section.idle_after,
        },
        most_refused_percent: section.most_refused_percent,
        append_guard,
    }
}
