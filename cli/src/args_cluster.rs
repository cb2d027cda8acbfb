//! The command line of the distributed roles.

use crate::{args::Command, args_certify::CertifyArgs, process::security::SecurityArgs};
use clap::{Args, Subcommand};
use quipu_adapters::config::Sources;
use quipu_core::time::Micros;
use quipu_schemas::timestamp::from_rfc3339;
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

/// Of which cluster, and where the configuration comes from.
#[derive(Clone, Debug, Args)]
pub(crate) struct OfArgs {
    /// A cluster that was declared with `quipu cluster apply`; by default the one that the
    /// configuration says.
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    #[command(flatten)]
    config: ConfigArgs,
}

/// What the command line asks of a cluster.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) role: Role,
    pub(crate) sources: Sources,
    /// None: the one that the configuration says.
    pub(crate) cluster: Option<String>,
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
    #[command(flatten)]
    security: SecurityArgs,
}

/// `quipu ingest` and `quipu rollup-worker`.
#[derive(Clone, Debug, Args)]
pub(crate) struct RoleArgs {
    #[command(flatten)]
    of: OfArgs,
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
    SetFrontier(FrontierArgs),
    CapTime(CapArgs),
}

impl Command {
    /// The role that a command runs, and where its configuration comes from; or the command, if it
    /// needs no cluster.
    pub(crate) fn role(self) -> Result<Asked, Box<Self>> {
        let of = |role, of: OfArgs, flag: Option<(&'static str, Option<String>)>| Asked {
            role,
            sources: of.config.sources(flag),
            cluster: of.cluster,
        };
        Ok(match self {
            Self::Gateway(GatewayArgs {
                config,
                http,
                grpc,
                security,
            }) => {
                let flags = [("gateway.http", http), ("gateway.grpc", grpc)];
                let flags = flags.into_iter().chain(security.flags());
                Asked {
                    role: Role::Gateway,
                    sources: config.sources(flags),
                    cluster: None,
                }
            }
            Self::Ingest(args) => of(Role::Ingest, args.of, Some(("ingest.http", args.http))),
            Self::RollupWorker(args) => of(
                Role::RollupWorker,
                args.of,
                Some(("rollup.http", args.http)),
            ),
            Self::Admin(AdminCommand::Setup(args)) => of(Role::Setup, args, None),
            Self::Admin(AdminCommand::Check(args)) => of(Role::Check, args, None),
            Self::Admin(AdminCommand::AddPartitions { total, of: args }) => {
                of(Role::AddPartitions { total }, args, None)
            }
            Self::Admin(AdminCommand::SetFrontier { asked, of: args }) => {
                of(Role::SetFrontier(asked), args, None)
            }
            Self::Admin(AdminCommand::CapTime { asked, of: args }) => {
                of(Role::CapTime(asked), args, None)
            }
            other => return Err(Box::new(other)),
        })
    }
}

/// `quipu admin set-frontier`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Args)]
pub(crate) struct FrontierArgs {
    /// The partition of the events topic.
    #[arg(long, value_name = "N")]
    pub(crate) partition: u32,
    /// The first offset that is to be decided.
    #[arg(long, value_name = "N")]
    pub(crate) offset: u64,
    /// The effective time there: no earlier than that of any record before.
    #[arg(long, value_name = "RFC3339", value_parser = from_rfc3339)]
    pub(crate) effective_time: Micros,
    /// Do not ask.
    #[arg(long)]
    pub(crate) yes: bool,
}

/// `quipu admin cap-time`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Args)]
pub(crate) struct CapArgs {
    /// The partition of the events topic.
    #[arg(long, value_name = "N")]
    pub(crate) partition: u32,
    /// The first record that was stamped wrongly: the one before which ingest stopped.
    #[arg(long, value_name = "OFFSET")]
    pub(crate) from: u64,
    /// The last one; by default the newest record of the partition. Records between that were
    /// stamped rightly keep their time.
    #[arg(long, value_name = "OFFSET")]
    pub(crate) through: Option<u64>,
    /// When they were appended. The effective time before them delays nothing and makes no later
    /// event late.
    #[arg(long, value_name = "RFC3339", value_parser = from_rfc3339)]
    pub(crate) time: Micros,
    /// Do not ask.
    #[arg(long)]
    pub(crate) yes: bool,
}

/// `quipu admin ...`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum AdminCommand {
    /// Make the topics and tables that are missing. Changes nothing that is there.
    Setup(OfArgs),
    /// Say what is wrong with the cluster, and how each is mended.
    Check(OfArgs),
    /// Give the events topic more partitions: registered first, then made.
    AddPartitions {
        /// How many there are to be in all.
        #[arg(long)]
        total: u32,
        #[command(flatten)]
        of: OfArgs,
    },
    /// Decide where ingest goes on with a partition of which that is not known, or not there any
    /// more. No ingest may run.
    SetFrontier {
        #[command(flatten)]
        asked: FrontierArgs,
        #[command(flatten)]
        of: OfArgs,
    },
    /// Prove that nothing is lost and nothing counted twice: attempt adds and clears in a namespace
    /// of its own, keep a ledger of them, and compare everything that is there with it.
    Certify(CertifyArgs),
    /// Decide when records were appended that a broker with a wrong clock stamped far ahead, before
    /// which ingest stopped.
    CapTime {
        #[command(flatten)]
        asked: CapArgs,
        #[command(flatten)]
        of: OfArgs,
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
  quipu admin certify --events 20000 --fault 'systemctl restart kafka'
  quipu admin setup --cluster billing     # of a cluster that was declared
  quipu admin add-partitions --total 8
  quipu admin set-frontier --partition 3 --offset 1200 --effective-time 2025-03-01T12:00:00Z
  quipu admin cap-time --partition 3 --from 1200 --time 2025-03-01T12:00:00Z";
pub(crate) const CONFIG: &str = "  quipu config check --config quipu.toml
  QUIPU_REDIS_ADDRESS=redis:6379 quipu config print";
pub(crate) const GATEWAY: &str = "  quipu gateway --config quipu.toml
  QUIPU_KAFKA_BROKERS=kafka:9092 quipu gateway --http 127.0.0.1:0";
pub(crate) const INGEST: &str = "  quipu ingest --config quipu.toml
  quipu ingest --cluster billing";
pub(crate) const ROLLUP: &str = "  quipu rollup-worker --config quipu.toml
  quipu rollup-worker --cluster billing";
