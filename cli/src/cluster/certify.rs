//! `quipu admin certify`: proves of the installation that runs that nothing is lost and nothing
//! counted twice, in a namespace of its own.

use crate::{
    args_certify::CertifyArgs,
    commands::{
        connect::client,
        exit::{Exit, Failed},
        print,
    },
};
use quipu_adapters::{clock::Clock, config::Config};
use quipu_certify::{
    Failure, Journal, Mix, Run, Volume,
    report::{Case, Label, Memory, Report},
};
use quipu_core::name::Namespace;
use std::{fs, process::Command};

/// Runs the load with its faults, and says what came of it.
pub(crate) async fn run(args: CertifyArgs, config: Config) -> Result<Exit, Failed> {
    let clock = Clock::system();
    let began = clock.read();
    let seed = began.wall.get().unsigned_abs();
    let namespace = Namespace::new(&format!("certify-{seed:x}"));
    let namespace = namespace.expect("a prefix and hexadecimal digits are a namespace");
    fs::create_dir_all(&args.report).map_err(|error| unsaved(&args, &error))?;
    let plan = Run {
        client: client(&args.server)?,
        config,
        ledger: args.report.join(format!("{namespace}.ledger")),
        namespace,
        accept_limit: args.accept_limit,
        counters: args.counters,
        mix: Mix::default(),
        volume: Volume {
            rate: args.rate,
            events: args.events,
        },
        seed,
    };
    let chaos = async |journal: &Journal| inject(&args, journal).await;
    let outcome = Box::pin(quipu_certify::run(&plan, chaos)).await;
    let outcome = outcome.map_err(|failure| Failed::new(Exit::Internal, failure.to_string()))?;
    let label = Label {
        name: "certify".to_owned(),
        about: "Adds, clears and reads in a namespace of its own.".to_owned(),
        run: 1,
        seed,
    };
    let took = clock.read().steady.saturating_sub(began.steady);
    let case = Case::new(label, outcome, Memory::default(), took);
    let (summary, survived) = (case.summary(), case.survived);
    let report = Report {
        title: format!("quipu admin certify: {}", args.server.server),
        cases: vec![case],
    };
    let saved = report.save(&args.report);
    saved.map_err(|error| unsaved(&args, &error))?;
    if args.server.json {
        let json = serde_json::to_string(&report);
        print(&json.map_err(|error| Failed::new(Exit::Internal, error.to_string()))?)?;
    } else {
        print(&summary)?;
    }
    if survived {
        return Ok(Exit::Done);
    }
    let page = args.report.join("report.html");
    let message = format!(
        "the installation is not exact: {} tells why",
        page.display()
    );
    Err(Failed::new(Exit::Internal, message))
}

/// Runs the operator's commands in turn.
async fn inject(args: &CertifyArgs, journal: &Journal) -> Result<(), Failure> {
    for command in (0..args.rounds).flat_map(|_| &args.faults) {
        let run = shell(command.clone());
        journal.during(command, run).await?;
        tokio::time::sleep(args.every).await;
    }
    Ok(())
}

async fn shell(command: String) -> Result<(), Failure> {
    let running = tokio::task::spawn_blocking(move || {
        let status = Command::new("sh").arg("-c").arg(&command).status()?;
        if status.success() {
            return Ok(());
        }
        Err(Failure::new(format!(
            "the fault {command:?} ended with {status}"
        )))
    });
    running.await?
}

fn unsaved(args: &CertifyArgs, error: &std::io::Error) -> Failed {
    let message = format!("cannot write to {}: {error}", args.report.display());
    Failed::new(Exit::Internal, message)
}
