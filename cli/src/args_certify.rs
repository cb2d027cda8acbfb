//! The command line of `quipu admin certify`.

use crate::{args::ServerArgs, args_cluster::ConfigArgs};
use clap::Args;
use quipu_adapters::config::Sources;
use std::{path::PathBuf, time::Duration};

/// `quipu admin certify`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CertifyArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(flatten)]
    config: ConfigArgs,
    /// At least so many events are attempted.
    #[arg(long, default_value_t = 100_000)]
    pub(crate) events: u64,
    /// So many in a second.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rate: u32,
    /// On so many counters.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) counters: u32,
    /// The accept limit of the namespace.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = humantime::parse_duration)]
    pub(crate) accept_limit: Duration,
    /// A command of the shell that breaks something and returns when it is well again, such as
    /// 'systemctl restart kafka'; may be given several times, and they are run in turn. Without any,
    /// nothing is broken.
    #[arg(long = "fault", value_name = "COMMAND")]
    pub(crate) faults: Vec<String>,
    /// How long after one fault the next begins.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = humantime::parse_duration)]
    pub(crate) every: Duration,
    /// How often each fault is injected.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) rounds: u32,
    /// Where report.html, report.json and the ledger go.
    #[arg(long, value_name = "DIR", default_value = "quipu-certify")]
    pub(crate) report: PathBuf,
}

impl CertifyArgs {
    /// Where the configuration of the installation comes from.
    pub(crate) fn sources(&self) -> Sources {
        self.config.sources([])
    }
}
