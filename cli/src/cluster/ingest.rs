//! `quipu ingest`.

use super::{
    consuming::{self, Identity},
    declared::Asked,
    watched::Watched,
};
use crate::{
    commands::exit::{Exit, Failed},
    process::stop_signal,
};
use futures::FutureExt;
use quipu_adapters::{
    config::IngestSection,
    kafka::{KafkaConsumer, watermarks},
    metered::MeteredEvents,
    ports::{ControlPlane, LogError},
    watermarks::WatermarkBoard,
};
use quipu_core::watermark::Watermarks;
use quipu_ingest::{IngestError, Ports, Settings, ticks::TickSettings};
use std::{pin::pin, time::Duration};

/// The last watermarks are published this soon after their commit.
const LAST_WATERMARKS: Duration = Duration::from_millis(200);

/// Runs the role until it is asked to stop.
pub(super) async fn run(asked: Asked) -> Result<Exit, Failed> {
    let mut stop = pin!(stop_signal()?);
    let identity = Identity {
        name: "ingest",
        http: &asked.config.ingest.http,
        stuck_after: asked.config.ingest.stuck_after,
    };
    let Some(mut joined) = consuming::join(&asked, identity, stop.as_mut()).await? else {
        return Ok(Exit::Done);
    };
    let (cluster, config) = (&joined.cluster, &joined.config);
    let registered = cluster.registered.borrow().clone();
    let initial = registered.iter().map(|(partition, at)| (*partition, *at));
    let board = WatermarkBoard::new(Watermarks::new(initial));
    tokio::spawn(watermarks::publish(cluster.log.clone(), board.clone()));
    let (kafka, registered) = (cluster.kafka.clone(), cluster.registered.clone());
    let (group, watch) = (config.ingest.group.clone(), joined.watch.clone());
    let connect = move || {
        let (kafka, registered) = (kafka.clone(), registered.clone());
        let (group, watch) = (group.clone(), watch.clone());
        async move {
            let consumer = KafkaConsumer::events(kafka, &group, registered).await?;
            Ok(Watched::new(consumer, watch))
        }
    };
    let consumer = connect().await?;
    let ports = Ports {
        log: cluster.log.clone(),
        events: MeteredEvents::new(cluster.events.clone()),
        watermarks: board,
        policies: cluster.control.policies(),
        clock: cluster.clock.clone(),
    };
    let settings = settings(
        &config.ingest,
        &config.kafka.topics.events,
        config.gateway.append_guard,
    );
    let stopped = joined.roles.asked_to_stop().shared();
    let until = stopped.clone();
    let run = move |consumer| quipu_ingest::run(consumer, ports.clone(), settings, until.clone());
    let is_lost = |error: &_| matches!(error, IngestError::Log(LogError::ClientLost(_)));
    let work = consuming::run_with(consumer, connect, run, is_lost, stopped);
    joined.roles.spawn("ingest", work)?;
    joined.work(stop.as_mut(), LAST_WATERMARKS).await
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
