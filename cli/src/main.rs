//! The `quipu` binary: reads the command line, runs one command, and ends with its exit code.

mod allocator;
mod args;
mod args_certify;
mod args_cluster;
mod args_clusters;
mod args_import;
mod args_key;
mod args_namespace;
#[cfg(feature = "cluster")]
mod cluster;
#[cfg(not(feature = "cluster"))]
#[path = "no_cluster.rs"]
mod cluster;
mod commands;
mod demo;
mod import;
mod logging;
mod process;
mod serve;

use args::{Cli, Command};
use args_cluster::AdminCommand;
use clap::Parser;
use commands::exit::{Exit, Failed};
use std::{process::ExitCode, time::Duration};
use tracing_subscriber::filter::LevelFilter;

/// What still runs after a command's end is cut off after this.
const LAST_CALLS: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let cli = Cli::parse();
    if cli.command.runs_for_long() {
        allocator::settle();
    }
    let json = wants_json(&cli.command);
    match run(cli) {
        Ok(exit) => exit.into(),
        Err(failed) => {
            if json {
                eprintln!("{}", failed.to_json());
            } else {
                eprintln!("error: {}", failed.message());
            }
            failed.exit.into()
        }
    }
}

fn run(cli: Cli) -> Result<Exit, Failed> {
    let level = default_level(&cli);
    let command = match cli.command.role() {
        Ok(asked) => {
            let config = asked.sources.load()?;
            config.check()?;
            logging::start_as(&config.telemetry, cli.verbose);
            return on_many_threads(cluster::run(asked.role, config, asked.cluster));
        }
        Err(command) => command,
    };
    logging::start(level);
    match *command {
        Command::Serve(args) => on_many_threads(async move { serve::run(&args).await }),
        Command::Demo(args) => on_many_threads(demo::run(args)),
        Command::Add(args) => on_one_thread(commands::mutate::add(args)),
        Command::Get(args) => on_one_thread(commands::get::run(args)),
        Command::List(args) => on_one_thread(commands::list::run(args)),
        Command::Clear(args) => on_one_thread(commands::mutate::clear(args)),
        Command::Import(args) => match args.sources() {
            None => on_one_thread(commands::import::run(args)),
            Some(sources) => {
                let config = sources.load()?;
                config.check()?;
                on_many_threads(cluster::import(args, config))
            }
        },
        Command::Namespace(command) => on_one_thread(commands::namespace::run(command)),
        Command::Cluster(command) => on_one_thread(commands::cluster::run(command)),
        Command::Config(command) => commands::config::run(command),
        Command::Key(command) => commands::key::run(command),
        Command::Admin(AdminCommand::Certify(args)) => {
            let config = args.sources().load()?;
            config.check()?;
            on_many_threads(cluster::certify(args, config))
        }
        Command::Gateway(_) | Command::Ingest(_) | Command::RollupWorker(_) | Command::Admin(_) => {
            unreachable!("it is a role")
        }
    }
}

/// Client verbs wait far more than they compute.
fn on_one_thread(command: impl Future<Output = Result<Exit, Failed>>) -> Result<Exit, Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failed::new(Exit::Internal, format!("cannot start: {error}")))?;
    let ended = runtime.block_on(command);
    // A thread may still wait for standard input.
    runtime.shutdown_background();
    ended
}

/// The server's calls; its other roles have threads of their own.
fn on_many_threads(command: impl Future<Output = Result<Exit, Failed>>) -> Result<Exit, Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failed::new(Exit::Internal, format!("cannot start: {error}")))?;
    let ended = runtime.block_on(command);
    // A thread may still wait for a broker that does not answer.
    runtime.shutdown_timeout(LAST_CALLS);
    ended
}

/// Whether errors are to be JSON as well.
fn wants_json(command: &Command) -> bool {
    match command {
        Command::Admin(AdminCommand::Certify(args)) => args.server.json,
        Command::Serve(_)
        | Command::Demo(_)
        | Command::Gateway(_)
        | Command::Ingest(_)
        | Command::RollupWorker(_)
        | Command::Admin(_)
        | Command::Config(_)
        | Command::Key(_) => false,
        Command::Add(args) => args.server.json,
        Command::Get(args) => args.server.json,
        Command::List(args) => args.server.json,
        Command::Clear(args) => args.server.json,
        Command::Import(args) => args.server.json,
        Command::Namespace(command) => command.server().json,
        Command::Cluster(command) => command.server().json,
    }
}

/// A server tells what it does, a client verb only what went wrong.
fn default_level(cli: &Cli) -> LevelFilter {
    match (cli.verbose, &cli.command) {
        (0, Command::Serve(_)) | (1, _) => LevelFilter::INFO,
        (0, _) => LevelFilter::WARN,
        _ => LevelFilter::DEBUG,
    }
}
