//! The arguments of `quipu namespace`.

use crate::{args::ServerArgs, commands::exit};
use clap::{Args, Subcommand};
use quipu_schemas::namespace::Author;
use std::path::PathBuf;

pub(crate) const APPLY: &str = "  echo '{\"namespace\": \"web\"}' | quipu namespace apply -f -
  quipu namespace apply -f web.json billing.json       # all are checked before the first is applied
  quipu namespace apply -f tenants/*.json --dry-run    # what would change
  quipu namespace apply -f web.json --if-version 3     # unless somebody changed it since

A file holds one document, an array of documents, or one after another (as NDJSON does). Each that is
applied is told in a line; at the first that the server refuses it ends, and what was applied stays.
A document that is in force already changes nothing, so all may be applied again.

A document; all but the name may be left out, and these are the defaults:
  {
    \"namespace\": \"web\",
    \"type\": \"EVENTUALLY_CONSISTENT\",
    \"accept_limit\": \"5s\",
    \"max_future\": \"5s\"
  }";

/// As `diff` has it: 1 is no failure.
const DIFF: &str = "Examples:
  quipu namespace diff -f web.json
  quipu namespace diff -f tenants/*.json || quipu namespace apply -f tenants/*.json

Fields are compared by what they mean: defaults are filled in, and \"60s\" is \"1m\".

Exit codes:
  0  nothing differs
  1  something differs
  2  the command line is wrong, or a file could not be read
  3  a document is refused, or the call
  4  the server did not answer
  5  the server could not be reached";

const HISTORY: &str = "  quipu namespace history web
  quipu namespace history web --json";

/// Files with documents.
#[derive(Clone, Debug, Args)]
pub(crate) struct FileArgs {
    /// Files with documents; `-` reads standard input.
    #[arg(short, long = "file", value_name = "FILE", num_args = 1.., required = true)]
    pub(crate) files: Vec<PathBuf>,
}

/// Who makes a change, and of what.
#[derive(Clone, Debug, Args)]
pub(crate) struct ChangeArgs {
    /// Who makes the change, for the history: 1 to 128 bytes. By default `USER@HOST`.
    #[arg(long, env = "QUIPU_AUTHOR", value_name = "TEXT", value_parser = author)]
    pub(crate) author: Option<Author>,
    /// Make the change only while this version is in force; 0: while the namespace does not exist.
    #[arg(long, value_name = "N")]
    pub(crate) if_version: Option<u64>,
}

fn author(text: &str) -> Result<Author, String> {
    Author::new(text).map_err(|error| error.to_string())
}

/// `quipu namespace ...`.
#[derive(Debug, Subcommand)]
pub(crate) enum NamespaceCommand {
    /// Create or change namespaces from their JSON documents.
    #[command(after_long_help = exit::help(APPLY))]
    Apply {
        #[command(flatten)]
        files: FileArgs,
        /// Show what would change, and change nothing.
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        change: ChangeArgs,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Show how documents differ from what is in force, field by field.
    #[command(after_long_help = DIFF)]
    Diff {
        #[command(flatten)]
        files: FileArgs,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// List all namespaces.
    #[command(after_long_help = exit::help("  quipu namespace list --json"))]
    List {
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Show one namespace's document.
    #[command(after_long_help = exit::help("  quipu namespace show web"))]
    Show {
        /// The namespace.
        name: String,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Show every version of a namespace: who made it, when, and what it changed.
    #[command(after_long_help = exit::help(HISTORY))]
    History {
        /// The namespace; it may be deleted.
        name: String,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Delete a namespace with all its counters. Made again, it starts at zero.
    #[command(after_long_help = exit::help("  quipu namespace delete web"))]
    Delete {
        /// The namespace.
        name: String,
        #[command(flatten)]
        change: ChangeArgs,
        #[command(flatten)]
        server: ServerArgs,
    },
}

impl NamespaceCommand {
    /// Where its server is.
    pub(crate) fn server(&self) -> &ServerArgs {
        match self {
            Self::Apply { server, .. }
            | Self::Diff { server, .. }
            | Self::List { server }
            | Self::Show { server, .. }
            | Self::History { server, .. }
            | Self::Delete { server, .. } => server,
        }
    }
}
