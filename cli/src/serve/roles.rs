//! Ingest and rollup on the embedded node.

use crate::process::{ProcessError, readiness::Readiness, threads::Threads};
use quipu_adapters::{
    clock::Clock,
    embedded::{Embedded, EmbeddedSettings},
    metered::{MeteredCache, MeteredEvents, MeteredRollups},
    ports::{ControlPlane, Topic},
};
use quipu_ingest::ticks::TickSettings;
use quipu_rollup_worker::{aggregate::Stores, machine::Limits, sweep::SweepSettings};
use std::time::Duration;

const INGEST: quipu_ingest::Settings = quipu_ingest::Settings {
    topic: "quipu-events",
    batch_rows: 4_096,
    linger: Duration::from_millis(20),
    in_flight: 4,
    ticks: TickSettings {
        active: Duration::from_millis(100),
        idle: Duration::from_secs(1),
        idle_after: Duration::from_secs(30),
    },
    most_refused_percent: 100,
    append_guard: Duration::ZERO,
};

const ROLLUP_LIMITS: Limits = Limits {
    pending: 50_000,
    circulating: 10_000,
    park_after: Duration::from_secs(30),
    batch_target: Duration::from_millis(100),
    batch_sizes: (64, 4_096),
};

const SYNC_ROLLUPS_EVERY: Duration = Duration::from_millis(250);

fn sweep() -> SweepSettings {
    SweepSettings {
        every: Duration::from_mins(5),
        page_pause: Duration::from_millis(100),
        grace: Duration::from_secs(30),
        retention: EmbeddedSettings::default().dataset.retention,
    }
}

/// Starts ingest and rollup on an open node.
pub(super) fn start(
    node: &Embedded,
    clock: &Clock,
    readiness: Readiness,
) -> Result<Threads, ProcessError> {
    let mut threads = Threads::new(readiness);
    let ports = quipu_ingest::Ports {
        log: node.producer(),
        events: MeteredEvents::new(node.events()),
        watermarks: node.watermarks(),
        policies: node.control().policies(),
        clock: clock.clone(),
    };
    let consumer = node.consumer(Topic::Events, "ingest");
    let ingest = quipu_ingest::run(consumer, ports, INGEST, threads.asked_to_stop());
    threads.spawn("ingest", ingest)?;

    let stores = Stores {
        events: MeteredEvents::new(node.events()),
        rollups: MeteredRollups::new(node.rollups()),
        cache: MeteredCache::new(node.cache()),
    };
    let ports = quipu_rollup_worker::Ports {
        log: node.producer(),
        stores,
        sweep_rollups: MeteredRollups::new(node.rollups()),
        watermarks: node.watermarks(),
        policies: node.control().policies(),
        clock: clock.clone(),
    };
    let settings = quipu_rollup_worker::Settings {
        limits: ROLLUP_LIMITS,
        sync_every: SYNC_ROLLUPS_EVERY,
        sweep: sweep(),
    };
    let consumer = node.consumer(Topic::Signals, "rollup");
    let rollup = quipu_rollup_worker::run(consumer, ports, settings, threads.asked_to_stop());
    threads.spawn("rollup-worker", rollup)?;
    Ok(threads)
}
