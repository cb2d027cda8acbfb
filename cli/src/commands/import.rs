//! `quipu import`.

use super::{
    connect::client,
    exit::{Exit, Failed, advice},
    print,
};
use crate::{
    args_import::{Format, ImportArgs},
    import::{
        block::ADDS_MOST,
        identity::Identity,
        journal::{Header, Journal, JournalError},
        plan::{Ended, Plan},
        progress::Progress,
        reader,
        report::{Rejections, Tally},
        send::Transfer,
        source::{Input, Opened, Source, SourceError},
        stopped::Stopped,
        target::Target,
        template::{Layout, Template},
    },
};
use quipu_adapters::clock::Clock;
use quipu_client::{Client, Entropy, Failure};
use quipu_core::name::Namespace;
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::sync::mpsc;

/// How many blocks the reader may be ahead.
const BLOCKS_AHEAD: usize = 16;

/// What is known of the file before its first row is read.
struct Prepared {
    identity: Option<Identity>,
    token_prefix: String,
    journal: Option<Journal>,
    plan: Plan,
    format: Format,
}

/// Imports a file.
pub(crate) async fn run(args: ImportArgs) -> Result<Exit, Failed> {
    let clock = Clock::system();
    check(&args)?;
    let prepared = prepare(&args)?;
    if let Some(ended) = prepared.plan.ended() {
        let rejected = rejected_path(&args).filter(|path| ended.rejected > 0 && path.exists());
        return already_finished(&args, ended, rejected.as_deref());
    }
    let layout = Layout::new(&args.counters, args.delta.as_deref());
    let Opened { input, position } =
        Input::open(&args.file).map_err(|error| internal(&args, &error))?;
    let source =
        Source::new(input, prepared.format, &layout.columns).map_err(|error| match error {
            SourceError::Header(_) => {
                Failed::new(Exit::Usage, format!("{}: {error}", args.file.display()))
            }
            SourceError::Io { .. } => internal(&args, &error),
        })?;
    let started = clock.read().steady;
    let target = Target {
        client: connect(&args).await?,
        namespace: args.namespace.clone(),
        token_prefix: prepared.token_prefix,
        patience: args.server.timeout,
        templates: layout.adds_per_row() as u64,
    };
    let size = prepared.identity.as_ref().map(|identity| identity.size);
    let progress = Progress::new(size, position, clock.clone());
    let rejections = Rejections::new(rejected_path(&args), progress).map_err(|error| {
        Failed::new(
            Exit::Internal,
            format!("the file of rejected rows: {error}"),
        )
    })?;
    let journal = (prepared.journal, prepared.plan);
    let mut transfer = Transfer::new(target, clock.clone(), journal, rejections);

    let (blocks, received) = mpsc::channel(BLOCKS_AHEAD);
    let reading = tokio::task::spawn_blocking(move || reader::read_all(source, &layout, &blocks));
    let sent = transfer.run(received).await;
    let rejected = transfer
        .rejections
        .flush()
        .map(|path| path.map(Path::to_owned));
    transfer.rejections.progress.clear();
    sent.map_err(|stopped| explain(&args, &stopped))?;
    let rows = reading
        .await
        .map_err(|error| internal(&args, &error))?
        .map_err(|error| internal(&args, &error))?;
    if let Some(identity) = &prepared.identity
        && !identity
            .still_holds(&args.file)
            .map_err(|error| internal(&args, &error))?
    {
        return Err(internal(&args, &"it was changed while it was imported"));
    }
    transfer
        .end(rows)
        .await
        .map_err(|error| explain(&args, &error.into()))?;
    let took = clock.read().steady.saturating_sub(started);
    let rejected = rejected.map_err(|error| explain(&args, &error.into()))?;
    summarise(&args, transfer.tally, took, rejected.as_deref())
}

/// Checks what the command line's grammar cannot.
fn check(args: &ImportArgs) -> Result<(), Failed> {
    let usage = |message: String| Err(Failed::new(Exit::Usage, message));
    if let Err(error) = Namespace::new(&args.namespace) {
        return usage(error.to_string());
    }
    if args.counters.len() > ADDS_MOST / 10 {
        return usage(format!(
            "{} counters for each row; {} is the most",
            args.counters.len(),
            ADDS_MOST / 10
        ));
    }
    if is_stdin(args) && args.journal.is_some() {
        return usage("standard input cannot be read again, so it has no journal".to_owned());
    }
    // Both are written to, so neither may be the file itself.
    for (option, path) in [("--journal", &args.journal), ("--rejected", &args.rejected)] {
        let Some(path) = path else { continue };
        if path
            .canonicalize()
            .is_ok_and(|path| args.file.canonicalize().is_ok_and(|file| file == path))
        {
            return usage(format!("{option} {} is the file to import", path.display()));
        }
    }
    Ok(())
}

fn is_stdin(args: &ImportArgs) -> bool {
    args.file == Path::new("-")
}

/// Identifies the file and opens its journal.
fn prepare(args: &ImportArgs) -> Result<Prepared, Failed> {
    let format = args
        .format
        .or_else(|| Format::of_name(&args.file))
        .ok_or_else(|| {
            let file = args.file.display();
            Failed::new(
                Exit::Usage,
                format!("the name {file} tells no format: give --format csv or ndjson"),
            )
        })?;
    if is_stdin(args) {
        if !args.server.json {
            eprintln!("note: an import of standard input cannot be resumed when it is interrupted");
        }
        let token_prefix = Entropy::draw().uuid().simple().to_string()[..16].to_owned();
        let plan = Plan::default();
        return Ok(Prepared {
            identity: None,
            token_prefix,
            journal: None,
            plan,
            format,
        });
    }
    let identity = Identity::of_file(&args.file).map_err(|error| internal(args, &error))?;
    let header = Header {
        quipu_import_journal: 1,
        file_size: identity.size,
        file_hash: identity.hash.clone(),
        format: format.as_str().to_owned(),
        namespace: args.namespace.clone(),
        counters: args
            .counters
            .iter()
            .map(Template::as_str)
            .map(str::to_owned)
            .collect(),
        delta: args.delta.clone(),
    };
    let path = args
        .journal
        .clone()
        .unwrap_or_else(|| beside(&args.file, "quipu-journal"));
    let (journal, plan) = Journal::open(&path, &header).map_err(|error| {
        let exit = match error {
            JournalError::Different { .. } => Exit::Usage,
            _ => Exit::Internal,
        };
        Failed::new(exit, error.to_string())
    })?;
    let token_prefix = identity.token_prefix.clone();
    Ok(Prepared {
        identity: Some(identity),
        token_prefix,
        journal: Some(journal),
        plan,
        format,
    })
}

fn rejected_path(args: &ImportArgs) -> Option<PathBuf> {
    let beside_file = || (!is_stdin(args)).then(|| beside(&args.file, "rejected"));
    args.rejected.clone().or_else(beside_file)
}

fn beside(file: &Path, extension: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}

/// Connects and asks for the namespace before anything is noted in the journal as sent: a mistake
/// in the command can then be corrected.
async fn connect(args: &ImportArgs) -> Result<Client, Failed> {
    let server = &args.server;
    let client = client(server)?;
    client
        .ready()
        .await
        .map_err(|error| Failed::of_call(&error, &server.server))?;
    // A counter without a name is read of no namespace, and costs the server nothing.
    if let Err(failure @ Failure::Refused(_)) = client.get_once(&args.namespace, "").await
        && failure.code_and_reason().0 == "NOT_FOUND"
    {
        return Err(Failed::of_failure(Exit::Refused, &failure, &server.server));
    }
    // Who may only write is not told what the namespace is.
    let document = client.namespaces().show(&args.namespace).await;
    if document.is_ok_and(|document| document["type"] == "BEST_EFFORT") {
        let namespace = &args.namespace;
        return Err(Failed::new(
            Exit::Refused,
            format!(
                "namespace {namespace} is BEST_EFFORT: it counts an add that is sent again twice, so \
                 an import that is interrupted could not go on; import into a namespace of another \
                 type"
            ),
        ));
    }
    Ok(client)
}

fn already_finished(
    args: &ImportArgs,
    ended: Ended,
    rejected_file: Option<&Path>,
) -> Result<Exit, Failed> {
    let Ended {
        rows,
        adds,
        rejected,
    } = ended;
    if args.server.json {
        print(&json!({
            "status": "ALREADY_FINISHED",
            "rows": rows,
            "adds": adds,
            "rejected_rows": rejected,
            "rejected_file": rejected_file.map(|path| path.display().to_string()),
        }))?;
    } else {
        let file = args.file.display();
        print(&format!(
            "{file} was imported before: {rows} rows, {adds} adds, {rejected} rows rejected; nothing \
             was sent now"
        ))?;
        say_rejected(rejected_file)?;
    }
    Ok(exit_of(rejected))
}

fn summarise(
    args: &ImportArgs,
    tally: Tally,
    took: Duration,
    rejected: Option<&Path>,
) -> Result<Exit, Failed> {
    if args.server.json {
        let mut json = tally.to_json(took);
        json["rejected_file"] = rejected.map(|path| path.display().to_string()).into();
        print(&json)?;
    } else {
        print(&tally.to_text(took))?;
        say_rejected(rejected)?;
    }
    Ok(exit_of(tally.rejected))
}

fn say_rejected(file: Option<&Path>) -> Result<(), Failed> {
    file.map_or(Ok(()), |path| {
        print(&format!("rejected rows are in {}", path.display()))
    })
}

fn exit_of(rejected_rows: u64) -> Exit {
    if rejected_rows == 0 {
        Exit::Done
    } else {
        Exit::RowsRejected
    }
}

fn internal(args: &ImportArgs, error: &impl ToString) -> Failed {
    Failed::new(
        Exit::Internal,
        format!("{}: {}", args.file.display(), error.to_string()),
    )
}

/// Why an import stopped, and how to go on.
fn explain(args: &ImportArgs, stopped: &Stopped) -> Failed {
    let exit = match stopped {
        Stopped::Journal(_) | Stopped::Rejections(_) => Exit::Internal,
        Stopped::At {
            failure: Failure::OutcomeUnknown(_),
            ..
        }
        | Stopped::Call(Failure::OutcomeUnknown(_))
        | Stopped::GaveUp(..) => Exit::OutcomeUnknown,
        Stopped::At { .. } | Stopped::Call(_) | Stopped::AlwaysLate => Exit::Refused,
    };
    let unknown = matches!(
        stopped,
        Stopped::Call(Failure::OutcomeUnknown(_))
            | Stopped::At {
                failure: Failure::OutcomeUnknown(_),
                ..
            }
    );
    let how = if is_stdin(args) {
        "Some rows are counted and others not; standard input cannot be resumed."
    } else if unknown {
        "The server no longer keeps what would tell whether an earlier run counted these rows, and \
         sending them anew could count them twice. Compare the counters with the file."
    } else {
        "Run the same command again to go on: every row will be counted once."
    };
    let file = args.file.display();
    let advice = stopped.failure().and_then(advice);
    let advice = advice.map_or(String::new(), |advice| format!("\n{advice}"));
    let message = format!("the import of {file} stopped before its end: {stopped}{advice}\n{how}");
    let failed = Failed::new(exit, message);
    match stopped.failure() {
        Some(failure) => failed.because_of(failure),
        None => failed,
    }
}
