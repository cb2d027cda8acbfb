//! `quipu admin`.

use super::{
    connect::{self, Control, plan},
    declared::Target,
    fitness::{Found, never_accepted},
};
use crate::commands::{
    exit::{Exit, Failed},
    print,
};
use quipu_adapters::{clock::Clock, finding::Severity, kafka::admin};
use quipu_core::time::Micros;
use quipu_schemas::timestamp::to_rfc3339;
use std::time::Duration;

/// How far the brokers' clocks may be behind this one.
const BROKER_SKEW: Duration = Duration::from_secs(1);

/// Makes what is missing, and says what it made.
pub(super) async fn setup(target: &Target) -> Result<Exit, Failed> {
    let config = &target.config;
    let kafka = config.kafka.settings()?;
    // Topics first: their partitions are registered from a moment on, and must be there by then.
    let made = admin::setup(&kafka, config.kafka.topic_settings()).await?;
    let cassandra = connect::cassandra(config, &Clock::system()).await?;
    cassandra.setup(&plan(target)?).await?;
    let topics = if made.is_empty() {
        "none".to_owned()
    } else {
        made.join(", ")
    };
    print(&format!(
        "tables are in the keyspace {}; topics made: {topics}\n",
        config.cassandra.keyspace
    ))?;
    let found = look(target).await?;
    found.print()?;
    // What namespaces ask for, or what was changed since, keeps no role from its start.
    found.conclude(Severity::Passing)
}

/// Says what is wrong with the cluster, and what is worth knowing.
pub(super) async fn check(target: &Target) -> Result<Exit, Failed> {
    let found = look(target).await?;
    found.print()?;
    found.conclude(Severity::Problem)
}

async fn look(target: &Target) -> Result<Found, Failed> {
    let (clock, config) = (Clock::system(), &target.config);
    let cassandra = connect::cassandra(config, &clock).await?;
    let Some(control) = Control::open(target, &clock, &cassandra).await? else {
        let topics = admin::check(&config.kafka.settings()?, None).await?;
        return Ok(Found::new([cassandra.check().await?, topics].concat()));
    };
    let limits = never_accepted(&control.documents().await?, config.gateway.append_guard);
    Ok(control.check().await?.with(limits))
}

/// Registers partitions of the events topic, and makes them once their moment has come (R12).
pub(super) async fn add_partitions(target: &Target, total: u32) -> Result<Exit, Failed> {
    let control = Control::connect(target).await?;
    let topic = &control.kafka.topics.events;
    let registered = control.plane.add_partitions(topic, total).await;
    let registered = registered.map_err(|error| Failed::new(Exit::Refused, error.to_string()))?;
    let begins = registered.iter().map(|partition| partition.effective_from);
    let begins = begins.max().unwrap_or(Micros::MIN);
    print(&format!(
        "{topic} has {total} registered partitions; the last begins at {}",
        to_rfc3339(begins)
    ))?;
    loop {
        let left = (begins + BROKER_SKEW).since(control.clock.now());
        if left.is_zero() {
            break;
        }
        tokio::time::sleep(left).await;
    }
    admin::add_partitions(&control.kafka, total).await?;
    print(&format!("{topic} has {total} partitions in Kafka"))?;
    Ok(Exit::Done)
}
