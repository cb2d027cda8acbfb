//! The distributed roles, on Kafka, Cassandra and Redis.

mod admin;
mod certify;
mod connect;
mod consuming;
mod decisions;
mod declared;
mod dependencies;
mod fitness;
mod follower;
mod gated;
mod gateway;
mod health;
mod import;
mod ingest;
mod joining;
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
use declared::Asked;
use quipu_adapters::config::Config;

pub(crate) use certify::run as certify;
pub(crate) use import::run as import;

/// Runs a role until it is asked to stop, or an operator's command.
pub(crate) async fn run(
    role: Role,
    config: Config,
    cluster: Option<String>,
) -> Result<Exit, Failed> {
    let asked = Asked { config, cluster };
    match role {
        Role::Gateway => Box::pin(gateway::run(asked.config)).await,
        Role::Ingest => Box::pin(ingest::run(asked)).await,
        Role::RollupWorker => Box::pin(rollup::run(asked)).await,
        Role::Setup => admin::setup(&asked.find().await?).await,
        Role::Check => admin::check(&asked.find().await?).await,
        Role::AddPartitions { total } => admin::add_partitions(&asked.find().await?, total).await,
        Role::SetFrontier(frontier) => operator::set_frontier(&asked.find().await?, frontier).await,
        Role::CapTime(cap) => operator::cap_time(&asked.find().await?, cap).await,
    }
}
