//! The arguments of `quipu cluster`.

use crate::{
    args::ServerArgs,
    args_namespace::{ChangeArgs, FileArgs},
    commands::exit,
};
use clap::Subcommand;

const APPLY: &str = "  quipu cluster apply -f billing.json
  quipu admin setup --cluster billing      # makes its topics and tables
  quipu ingest --cluster billing
  quipu rollup-worker --cluster billing

A file holds one document, an array of documents, or one after another (as NDJSON does). All are checked
before the first is applied; one that is in force already changes nothing.

A document; what it leaves out is as the configuration of the roles says:
  {
    \"cluster\": \"billing\",
    \"kafka\": {\"topic_prefix\": \"billing-\"},
    \"cassandra\": {\"keyspace\": \"quipu_billing\"},
    \"redis\": {\"database\": 1},
    \"dataset\": {\"name\": \"events_90d\", \"retention\": \"90days\"}
  }";

/// `quipu cluster ...`.
#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Declare clusters, or change how they are reached, from their JSON documents.
    #[command(after_long_help = exit::help(APPLY))]
    Apply {
        #[command(flatten)]
        files: FileArgs,
        #[command(flatten)]
        change: ChangeArgs,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// List all declared clusters.
    #[command(after_long_help = exit::help("  quipu cluster list --json"))]
    List {
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Show one cluster's document.
    #[command(after_long_help = exit::help("  quipu cluster show billing"))]
    Show {
        /// The cluster.
        name: String,
        #[command(flatten)]
        server: ServerArgs,
    },
}

impl ClusterCommand {
    /// Where its server is.
    pub(crate) fn server(&self) -> &ServerArgs {
        match self {
            Self::Apply { server, .. } | Self::List { server } | Self::Show { server, .. } => {
                server
            }
        }
    }
}
