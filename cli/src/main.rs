//! The `quipu` binary: reads the command line, runs one command, and ends with its exit code.

mod args;
mod args_import;
mod client;
mod commands;
mod import;

use args::{Cli, Command, NamespaceCommand};
use clap::Parser;
use commands::exit::{Exit, Failed};
use std::{io, process::ExitCode};
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

fn main() -> ExitCode {
    let cli = Cli::parse();
    start_logging(cli.verbose);
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

/// Whether errors are to be JSON as well.
fn wants_json(command: &Command) -> bool {
    match command {
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

fn start_logging(verbose: u8) {
    let level = match verbose {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        _ => LevelFilter::DEBUG,
    };
    let filter = EnvFilter::builder()
        .with_default_directive(level.into())
        .with_env_var("QUIPU_LOG")
        .from_env_lossy();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .compact()
        .init();
}
