//! The command line of the distributed roles.

use crate::args::Command;
use clap::{Args, Subcommand};
use quipu_adapters::config::Sources;
use std::{env, path::PathBuf};

/// Where the configuration comes from.
#[derive(Clone, Debug, Args)]
pub(crate) struct ConfigArgs {
    /// A TOML file; every key is also an environment variable.
    #[arg(long, value_name = "FILE", env = "QUIPU_CONFIG")]
    config: Option<PathBuf>,
}

impl ConfigArgs {
    /// The sources, with what flags say on top.
    pub(crate) fn sources(
        &self,
        flags: impl IntoIterator<Item = (&'static str, Option<String>)>,
    ) -> Sources {
        let flags = flags.into_iter();
        let given = flags.filter_map(|(key, value)| Some((key, value?)));
        // What is no text is no setting of ours.
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Sources {
            flags: given.collect(),
            environment: env::vars_os().filter_map(text).collect(),
            file: self.config.clone(),
        }
    }
}

/// `quipu gateway`.
#[derive(Clone, Debug, Args)]
pub(crate) struct GatewayArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// The address for HTTP/JSON; port 0 picks a free one [default: 127.0.0.1:7070]
    #[arg(long, value_name = "ADDR")]
    http: Option<String>,
    /// The address for gRPC; port 0 picks a free one [default: 127.0.0.1:7071]
    #[arg(long, value_name = "ADDR")]
    grpc: Option<String>,
}

/// `quipu ingest` and `quipu rollup-worker`.
#[derive(Clone, Debug, Args)]
pub(crate) struct RoleArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// The address for health and metrics; port 0 picks a free one
    #[arg(long, value_name = "ADDR")]
    http: Option<String>,
}

/// What a cluster is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Gateway,
    Ingest,
    RollupWorker,
    Setup,
    Check,
    AddPartitions { total: u32 },
}

impl Command {
    /// The role that a command runs, and where its configuration comes from; or the command, if it
    /// needs no cluster.
    pub(crate) fn role(self) -> Result<(Role, Sources), Box<Self>> {
        Ok(match self {
            Self::Gateway(GatewayArgs { config, http, grpc }) => {
                let flags = [("gateway.http", http), ("gateway.grpc", grpc)];
                (Role::Gateway, config.sources(flags))
            }
            Self::Ingest(RoleArgs { config, http }) => {
                (Role::Ingest, config.sources([("ingest.http", http)]))
            }
            Self::RollupWorker(RoleArgs { config, http }) => {
                (Role::RollupWorker, config.sources([("rollup.http", http)]))
            }
            Self::Admin(AdminCommand::Setup(config)) => (Role::Setup, config.sources([])),
            Self::Admin(AdminCommand::Check(config)) => (Role::Check, config.sources([])),
            Self::Admin(AdminCommand::AddPartitions { total, config }) => {
                (Role::AddPartitions { total }, config.sources([]))
            }
            other => return Err(Box::new(other)),
        })
    }
}

/// `quipu admin ...`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum AdminCommand {
    /// Make the topics and tables that are missing. Changes nothing that is there.
    Setup(ConfigArgs),
    /// Say what is wrong with the cluster, and how each is mended.
    Check(ConfigArgs),
    /// Give the events topic more partitions: registered first, then made.
    AddPartitions {
        /// How many there are to be in all.
        #[arg(long)]
        total: u32,
        #[command(flatten)]
        config: ConfigArgs,
    },
}

/// `quipu config ...`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Read the configuration as the roles do, and say what is wrong.
    Check(ConfigArgs),
    /// Print what holds, from all sources together, without secrets.
    Print(ConfigArgs),
}

pub(crate) const ADMIN: &str = "  quipu admin setup --config quipu.toml
  quipu admin check
  quipu admin add-partitions --total 8";
pub(crate) const CONFIG: &str = "  quipu config check --config quipu.toml
  QUIPU_REDIS_ADDRESS=redis:6379 quipu config print";
pub(crate) const GATEWAY: &str = "  quipu gateway --config quipu.toml
  QUIPU_KAFKA_BROKERS=kafka:9092 quipu gateway --http 127.0.0.1:0";
pub(crate) const INGEST: &str = "  quipu ingest --config quipu.toml";
pub(crate) const ROLLUP: &str = "  quipu rollup-worker --config quipu.toml";
