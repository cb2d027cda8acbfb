//! The command line of `quipu import`.

use crate::{args::ServerArgs, args_cluster::ConfigArgs, import::template::Template};
use clap::{Args, ValueEnum};
use quipu_adapters::config::Sources;
use std::path::{Path, PathBuf};

pub(crate) const EXAMPLES: &str =
    "  quipu import flights.csv.gz --counter 'flights/{carrier}/{origin}'
  quipu import flights.csv --counter 'miles/{carrier}' --delta distance
  quipu import events.ndjson --counter 'views/{page}' --counter 'users/{user}'
  zcat old.csv.gz | quipu import - --format csv --counter all
  quipu import flights.csv --counter 'miles/{carrier}' --kafka kafka:9092 --config quipu.toml

With --kafka it appends to Kafka itself, and needs the cluster as a gateway does: the policy and the
event store in Cassandra tell which adds are accepted, and which were before an interruption. Its
journal is the same, so an import may go on with or without it.

An import that was interrupted goes on where it stopped when the same command is run again: its
journal knows which rows were sent, and every row is counted once. Keep FILE as it is until then.
Each row's token is a hash of the file and the number of the row; its item key is empty for the
first template, and `1`, `2`, ... for the others.";

/// `quipu import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The file, also compressed with gzip; `-` reads standard input.
    pub(crate) file: PathBuf,
    /// The namespace that the counters are in.
    #[arg(short, long, value_name = "NS", default_value = "default")]
    pub(crate) namespace: String,
    /// The counter that a row adds to: text with columns or fields in braces (`{{` and `}}` are
    /// braces). Give it several times to add each row to several counters.
    #[arg(short, long = "counter", value_name = "TEMPLATE", required = true)]
    pub(crate) counters: Vec<Template>,
    /// The column or field with how much to add, an integer. By default each row adds 1.
    #[arg(long, value_name = "COLUMN")]
    pub(crate) delta: Option<String>,
    /// The format, when the file's name does not tell.
    #[arg(long)]
    pub(crate) format: Option<Format>,
    /// Where to note what was sent. By default FILE.quipu-journal.
    #[arg(long, value_name = "PATH")]
    pub(crate) journal: Option<PathBuf>,
    /// Where to put rows that cannot be counted, as `line<TAB>reason<TAB>row`. By default
    /// FILE.rejected; for standard input they are only counted.
    #[arg(long, value_name = "PATH")]
    pub(crate) rejected: Option<PathBuf>,
    /// Append to the events topic on these brokers, instead of calling --server; `HOST:PORT`,
    /// separated by commas. Everything else is as in the configuration.
    #[arg(long, value_name = "BROKERS")]
    kafka: Option<String>,
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

impl ImportArgs {
    /// Where the configuration comes from, when the import is to reach the cluster by itself.
    pub(crate) fn sources(&self) -> Option<Sources> {
        let brokers = self.kafka.clone()?;
        Some(self.config.sources([("kafka.brokers", Some(brokers))]))
    }
}

/// The formats of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Comma-separated values with a header.
    Csv,
    /// A JSON object a line.
    Ndjson,
}

impl Format {
    /// The format that a file's name tells, with or without `.gz`.
    pub(crate) fn of_name(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let name = name.strip_suffix(".gz").unwrap_or(&name);
        match name.rsplit_once('.')?.1 {
            "csv" => Some(Self::Csv),
            "ndjson" | "jsonl" => Some(Self::Ndjson),
            _ => None,
        }
    }

    /// As the journal names it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Ndjson => "ndjson",
        }
    }
}
