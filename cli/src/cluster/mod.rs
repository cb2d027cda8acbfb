//! The distributed roles, on Kafka, Cassandra and Redis.

mod admin;
mod connect;
mod consuming;
mod decisions;
mod dependencies;
mod fitness;
mod follower;
mod gated;
mod gateway;
mod health;
mod import;
mod ingest;
mod later;
mod operator;
mod progress;
mod registered;
mod rollup;
mod serving;
mod watched;

use crate::{
    args_cluster::Role,
    commands::exit::{Exit, Failed},
};
use quipu_adapters::config::Config;

pub(crate) use import::run as import;

/// Runs a role until it is asked to stop, or an operator's command.
pub(crate) async fn run(role: Role, config: Config) -> Result<Exit, Failed> {
    match role {
        Role::Gateway => gateway::run(config).await,
        Role::Ingest => ingest::run(config).await,
        Role::RollupWorker => rollup::run(config).await,
        Role::Setup => admin::setup(&config).await,
        Role::Check => admin::check(&config).await,
        Role::AddPartitions { total } => admin::add_partitions(&config, total).await,
        Role::SetFrontier(asked) => operator::set_frontier(&config, asked).await,
        Role::CapTime(asked) => operator::cap_time(&config, asked).await,
    }
}
