//! The command line.

use crate::{
    args_cluster::{self, AdminCommand, ConfigCommand, GatewayArgs, RoleArgs},
    commands::exit,
};
pub(crate) use crate::{
    args_clusters::ClusterCommand, args_import::ImportArgs, args_key::KeyCommand,
    args_namespace::NamespaceCommand, demo::DemoArgs, serve::ServeArgs,
};
use clap::{ArgAction, Args, Parser, Subcommand};
use quipu_core::time::Micros;
use quipu_schemas::timestamp;
use std::{path::PathBuf, time::Duration};

/// Counts events exactly: a server, and the client verbs for it.
#[derive(Debug, Parser)]
#[command(name = "quipu", version, propagate_version = true, after_long_help = exit::help(ROOT))]
pub(crate) struct Cli {
    /// Say more on standard error; twice for everything. `QUIPU_LOG` overrides it.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const ROOT: &str = "  quipu serve --data ./quipu-data
  quipu add page_views                      # in the namespace default, which is always there
  quipu get page_views
  quipu import flights.csv.gz --counter 'flights/{carrier}/{origin}'
  echo '{\"namespace\": \"web\"}' | quipu namespace apply -f -
  quipu add page_views --namespace web";

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the whole service in this process, on one directory.
    #[command(after_long_help = exit::help(SERVE))]
    Serve(ServeArgs),
    /// Serve a fresh directory with a month of real flights in it, to look at.
    #[command(after_long_help = exit::help("  quipu demo"))]
    Demo(DemoArgs),
    /// Add to a counter, once, however often it has to be tried.
    #[command(after_long_help = exit::help(ADD))]
    Add(AddArgs),
    /// Read a counter, or several.
    #[command(after_long_help = exit::help(GET))]
    Get(GetArgs),
    /// List the counters of a namespace.
    #[command(after_long_help = exit::help(LIST))]
    List(ListArgs),
    /// Zero a counter: everything before this moment no longer counts.
    #[command(after_long_help = exit::help(CLEAR))]
    Clear(ClearArgs),
    /// Add every row of a CSV or NDJSON file, each exactly once, also when interrupted.
    #[command(after_long_help = exit::help(crate::args_import::EXAMPLES))]
    Import(ImportArgs),
    /// Declare, compare, show and delete namespaces.
    #[command(subcommand)]
    Namespace(NamespaceCommand),
    /// Declare and show clusters: topics, a keyspace and a cache of their own.
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Make and list API keys.
    #[command(subcommand)]
    Key(KeyCommand),
    /// Answer calls, on Kafka, Cassandra and Redis; any number of these share the work.
    #[command(after_long_help = exit::help(args_cluster::GATEWAY))]
    Gateway(GatewayArgs),
    /// Bring events from Kafka into Cassandra; any number of these share the partitions.
    #[command(after_long_help = exit::help(args_cluster::INGEST))]
    Ingest(RoleArgs),
    /// Roll counters up, from Cassandra into Redis; any number of these share the counters.
    #[command(after_long_help = exit::help(args_cluster::ROLLUP))]
    RollupWorker(RoleArgs),
    /// Set up and check the cluster that the roles run on.
    #[command(subcommand, after_long_help = exit::help(args_cluster::ADMIN))]
    Admin(AdminCommand),
    /// Check or print the configuration of the roles.
    #[command(subcommand, after_long_help = exit::help(args_cluster::CONFIG))]
    Config(ConfigCommand),
}

impl Command {
    /// Whether it serves until it is stopped.
    pub(crate) fn runs_for_long(&self) -> bool {
        matches!(
            self,
            Self::Serve(_)
                | Self::Demo(_)
                | Self::Gateway(_)
                | Self::Ingest(_)
                | Self::RollupWorker(_)
        )
    }
}

const SERVE: &str = "  quipu serve --data ./quipu-data
  quipu serve --data ./quipu-data --http 127.0.0.1:0      # on a free port, which is printed";
const ADD: &str = "  quipu add page_views                      # adds 1, in the namespace default
  quipu add balance -250
  quipu add page_views 5 --token order-17 --generation-time \"$(date -u +%Y-%m-%dT%H:%M:%SZ)\"

A --generation-time must be recent: one that is older than the namespace's accept_limit (5 seconds
by default) is refused as late. To try again, give the same token and the same time.";
const GET: &str = "  quipu get page_views
  quipu get page_views --json
  quipu get page_views logins orders --json      # one document a line
  quipu get page_views --min-freshness \"$(date -u +%Y-%m-%dT%H:%M:%SZ)\"

With --min-freshness the answer comes once every event up to that time is in the count: about a second
after the namespace's accept_limit (5 seconds by default). A time that cannot be reached within
--timeout (at most 30 seconds) is refused at once.

Of several counters, each that can be read is printed; the others are told of on standard error, and
the first of them decides how the command ends.";
const LIST: &str = "  quipu list
  quipu list --limit 1000
  quipu list --json                         # a page a line

Counters are in no order that means anything, and one appears some seconds after its first add. Where
a --limit ends the list, the token of the next page is told, to go on with --page-token.";
const CLEAR: &str = "  quipu clear page_views";
/// Where the server is and how to talk about it.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServerArgs {
    /// The server's URL.
    #[arg(
        long,
        env = "QUIPU_SERVER",
        value_name = "URL",
        default_value = "http://127.0.0.1:7070"
    )]
    pub(crate) server: String,
    /// The authorities of an https:// server's certificate, in PEM; by default the system's.
    #[arg(long, value_name = "FILE", env = "QUIPU_CA")]
    pub(crate) ca: Option<PathBuf>,
    /// A file with the API key; by default `QUIPU_API_KEY` has it, if the server asks for one.
    #[arg(long, value_name = "FILE", env = "QUIPU_API_KEY_FILE")]
    pub(crate) api_key_file: Option<PathBuf>,
    /// Give up when there was no answer for this long.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = humantime::parse_duration)]
    pub(crate) timeout: Duration,
    /// Print JSON for machines, errors (on standard error) included.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which counter.
#[derive(Clone, Debug, Args)]
pub(crate) struct CounterArgs {
    /// The counter: 1 to 1,024 bytes.
    pub(crate) counter: String,
    /// Its namespace.
    #[arg(short, long, value_name = "NS", default_value = "default")]
    pub(crate) namespace: String,
}

/// A token of the caller's own.
#[derive(Clone, Debug, Args)]
pub(crate) struct TokenArgs {
    /// The idempotency token: with the same token and time, a mutation is applied once. By default
    /// a new one is made, and kept for all attempts of this call.
    #[arg(long, requires = "generation_time")]
    token: Option<String>,
    /// When the token was made, in RFC 3339. It is the time of the event, and must be recent.
    #[arg(long, requires = "token", value_name = "RFC3339", value_parser = timestamp::from_rfc3339)]
    generation_time: Option<Micros>,
}

impl TokenArgs {
    /// The caller's token and its time, when there is one.
    pub(crate) fn given(self) -> Option<(String, Micros)> {
        self.token.zip(self.generation_time)
    }
}

/// `quipu add`.
#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    #[command(flatten)]
    pub(crate) counter: CounterArgs,
    /// How much to add, a signed 64-bit integer.
    #[arg(default_value_t = 1, allow_negative_numbers = true)]
    pub(crate) delta: i64,
    #[command(flatten)]
    pub(crate) token: TokenArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// `quipu get`.
#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// The counters: 1 to 1,024 bytes each.
    #[arg(required = true, value_name = "COUNTER")]
    pub(crate) counters: Vec<String>,
    /// Their namespace.
    #[arg(short, long, value_name = "NS", default_value = "default")]
    pub(crate) namespace: String,
    /// Wait until the count is complete through this time, in RFC 3339.
    #[arg(long, value_name = "RFC3339", value_parser = timestamp::from_rfc3339)]
    pub(crate) min_freshness: Option<Micros>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// `quipu list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// The namespace.
    #[arg(short, long, value_name = "NS", default_value = "default")]
    pub(crate) namespace: String,
    /// Stop after so many counters; by default all are listed.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,
    /// Begin where another list of this namespace ended.
    #[arg(long, value_name = "TOKEN")]
    pub(crate) page_token: Option<String>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// `quipu clear`.
#[derive(Debug, Args)]
pub(crate) struct ClearArgs {
    #[command(flatten)]
    pub(crate) counter: CounterArgs,
    #[command(flatten)]
    pub(crate) token: TokenArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args_namespace::APPLY;
    use clap::CommandFactory;
    use quipu_schemas::namespace::NamespaceDocument;

    #[test]
    fn the_document_in_the_help_is_one_with_the_defaults() {
        let document = &APPLY[APPLY.rfind('{').unwrap()..];
        assert_eq!(
            NamespaceDocument::from_json(document.as_bytes()).unwrap(),
            NamespaceDocument::with_defaults("web")
        );
    }

    #[test]
    fn an_example_names_a_namespace_only_after_it_was_applied() {
        let root = Cli::command();
        for command in std::iter::once(&root).chain(root.get_subcommands()) {
            let help = command.get_after_long_help().map(ToString::to_string);
            let help = help.unwrap_or_default();
            let named = help.find("--namespace ");
            let applied = help.find("namespace apply");
            assert!(
                named.is_none() || applied.is_some() && applied < named,
                "{help}"
            );
        }
    }
}
