//! The `quipu` binary: reads the command line, runs one command, and ends with its exit code.

mod allocator;
mod args;
mod args_import;
mod client;
mod commands;
mod demo;
mod import;
mod process;
mod serve;

use args::{Cli, Command, NamespaceCommand};
use clap::Parser;
use commands::exit::{Exit, Failed};
use std::{
    io::{self, IsTerminal},
    process::ExitCode,
};
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

fn main() -> ExitCode {
    let cli = Cli::parse();
    start_logging(default_level(&cli));
    if matches!(cli.command, Command::Serve(_) | Command::Demo(_)) {
        allocator::settle();
    }
    let json = wants_json(&cli.command);
    match run(cli.command) {
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

fn run(command: Command) -> Result<Exit, Failed> {
    match command {
        Command::Serve(args) => on_many_threads(async { Ok(serve::run(&args).await?) }),
        Command::Demo(args) => on_many_threads(demo::run(args)),
        Command::Add(args) => on_one_thread(commands::mutate::add(args)),
        Command::Get(args) => on_one_thread(commands::get::run(args)),
        Command::Clear(args) => on_one_thread(commands::mutate::clear(args)),
        Command::Import(args) => on_one_thread(commands::import::run(args)),
        Command::Namespace(command) => commands::namespace::run(command),
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
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failed::new(Exit::Internal, format!("cannot start: {error}")))?
        .block_on(command)
}

/// Whether errors are to be JSON as well.
fn wants_json(command: &Command) -> bool {
    match command {
        Command::Serve(_) | Command::Demo(_) => false,
        Command::Add(args) => args.server.json,
        Command::Get(args) => args.server.json,
        Command::Clear(args) => args.server.json,
        Command::Import(args) => args.server.json,
        Command::Namespace(
            NamespaceCommand::Apply { server, .. }
            | NamespaceCommand::List { server }
            | NamespaceCommand::Show { server, .. }
            | NamespaceCommand::Delete { server, .. },
        ) => server.json,
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

fn start_logging(level: LevelFilter) {
    // The storage engine tells of every file that it writes.
    let default = format!("{level},fjall=warn,lsm_tree=warn");
    let filter = std::env::var("QUIPU_LOG").unwrap_or(default);
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::builder().parse_lossy(filter))
        .with_writer(io::stderr)
        // A file or a pipe would get the colours as bytes.
        .with_ansi(io::stderr().is_terminal())
        .compact()
        .init();
}
