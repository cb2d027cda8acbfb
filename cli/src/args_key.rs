//! The command line of `quipu key`.

use crate::commands::exit;
use clap::{Args, Subcommand, ValueEnum};
use quipu_core::time::Micros;
use quipu_gateway::auth::Permission;
use quipu_schemas::timestamp::from_rfc3339;
use std::path::PathBuf;

/// `quipu key ...`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make an API key: prints its secret, once, and what a server needs to know it.
    #[command(after_long_help = exit::help(CREATE))]
    Create(CreateArgs),
    /// List the keys that a file declares.
    #[command(after_long_help = exit::help("  quipu key list --file keys.toml"))]
    List {
        /// The file of keys.
        #[arg(long, value_name = "FILE", env = "QUIPU_AUTH_KEYS_FILE")]
        file: PathBuf,
    },
}

const CREATE: &str =
    "  quipu key create --id ci --namespace 'billing*' --allow read,write --file keys.toml
  quipu key create --id prometheus --allow metrics

The first line of the output is the secret; nothing stores it. Servers read the file again when it
changes. To revoke a key, remove its entry.";

/// `quipu key create`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CreateArgs {
    /// The key's name: 1 to 64 of a-z, 0-9 and -.
    #[arg(long)]
    pub(crate) id: String,
    /// A namespace that it is for, or the beginning of names and `*`; may be repeated.
    #[arg(long = "namespace", value_name = "NAME", value_delimiter = ',')]
    pub(crate) namespaces: Vec<String>,
    /// What it may do there; `metrics` concerns no namespace.
    #[arg(long, required = true, value_delimiter = ',')]
    pub(crate) allow: Vec<Allowed>,
    /// When it ends; never by default.
    #[arg(long, value_name = "RFC3339", value_parser = from_rfc3339)]
    pub(crate) expires: Option<Micros>,
    /// The file of keys to add it to; made when it does not exist. By default the entry is printed.
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

/// A permission, as the command line names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Allowed {
    Read,
    Write,
    Admin,
    Metrics,
}

impl From<Allowed> for Permission {
    fn from(allowed: Allowed) -> Self {
        match allowed {
            Allowed::Read => Self::Read,
            Allowed::Write => Self::Write,
            Allowed::Admin => Self::Admin,
            Allowed::Metrics => Self::Metrics,
        }
    }
}
