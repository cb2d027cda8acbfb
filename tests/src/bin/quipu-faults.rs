//! `quipu-faults`: runs cases of the fault suite on a stack of its own.

use clap::Parser;
use quipu_certify::{Failure, Volume, report::Report};
use quipu_tests::faults::{self, Case, Options, Stack};
use std::{
    env,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};
use tokio::signal::unix::{SignalKind, signal};

/// Breaks the distributed roles and what they stand on in many ways while a producer keeps a ledger,
/// and checks that nothing is lost and nothing counted twice.
#[derive(Debug, Parser)]
#[command(
    after_help = "All cases, three times: scripts/faults --times 3 --report faults
One of them:            scripts/faults --case kill-cassandra --events 100000"
)]
struct Arguments {
    /// A case to run, by its name; may be given several times. By default all are run.
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<String>,
    /// Print the names of all cases, and what each does.
    #[arg(long)]
    list: bool,
    /// How often each case is run.
    #[arg(long, default_value_t = 1)]
    times: u32,
    /// At least so many events are attempted in each run.
    #[arg(long, default_value_t = 100_000)]
    events: u64,
    /// So many in a second.
    #[arg(long, default_value_t = 2_000)]
    rate: u32,
    /// On so many counters.
    #[arg(long, default_value_t = 200)]
    counters: u32,
    /// Where report.html and report.json go, and the logs of the roles.
    #[arg(long, default_value = "faults-report")]
    report: PathBuf,
    /// Where the stack has its data, which are removed first.
    #[arg(long, default_value = "target/faults-stack")]
    stack: PathBuf,
    /// Added to every port of the stack.
    #[arg(long, default_value_t = 2_000)]
    port_offset: u16,
    /// A quipu with its distributed roles; by default the one beside this program.
    #[arg(long)]
    quipu: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("quipu-faults: {failure}");
            ExitCode::from(2)
        }
    }
}

/// Whether all that was run survived.
fn run(arguments: &Arguments) -> Result<bool, Failure> {
    let cases = chosen(&arguments.cases)?;
    if arguments.list {
        for case in cases {
            println!("{:22} {}", case.name, case.about);
        }
        return Ok(true);
    }
    let options = Options {
        binary: binary(arguments)?,
        volume: Volume {
            rate: arguments.rate,
            events: arguments.events,
        },
        counters: arguments.counters,
        directory: arguments.report.join("runs"),
    };
    let runtime = tokio::runtime::Runtime::new()?;
    let stack = Stack::start(Path::new("."), &arguments.stack, arguments.port_offset)?;
    let stack = Arc::new(stack);
    let mut report = Report {
        title: "Fault suite".to_owned(),
        cases: Vec::new(),
    };
    for number in 1..=arguments.times {
        for case in &cases {
            println!("{} run {number}: {}", case.name, case.about);
            let servers = (&stack.addresses, Some(&stack));
            let done = runtime.block_on(async {
                tokio::select! {
                    // However this ends, servers that were frozen must go on, and roles end.
                    done = faults::run(case, number, &options, servers) => done,
                    _ = tokio::signal::ctrl_c() => Err(Failure::new("interrupted")),
                    () = terminated() => Err(Failure::new("terminated")),
                }
            });
            let done = done?;
            println!("{}", done.summary());
            for violation in done.first_violations.iter().take(5) {
                println!("  {violation}");
            }
            report.cases.push(done);
            // What is known so far is there whatever comes.
            report.save(&arguments.report)?;
        }
    }
    let survived = report.cases.iter().filter(|case| case.survived).count();
    let ran = report.cases.len();
    println!(
        "{survived} of {ran} runs survived; see {}",
        arguments.report.join("report.html").display()
    );
    Ok(survived == ran)
}

/// Returns when this program is asked to end.
async fn terminated() {
    match signal(SignalKind::terminate()) {
        Ok(mut asked) => {
            asked.recv().await;
        }
        Err(_) => std::future::pending().await,
    }
}

fn chosen(names: &[String]) -> Result<Vec<Case>, Failure> {
    let all = faults::all();
    if names.is_empty() {
        return Ok(all);
    }
    let of = |name: &String| {
        let found = all.iter().find(|case| case.name == name).cloned();
        found.ok_or_else(|| Failure::new(format!("there is no case {name:?}; --list prints all")))
    };
    names.iter().map(of).collect()
}

fn binary(arguments: &Arguments) -> Result<PathBuf, Failure> {
    let binary = match &arguments.quipu {
        Some(binary) => binary.clone(),
        None => env::current_exe()?.with_file_name("quipu"),
    };
    if binary.exists() {
        return Ok(binary);
    }
    let binary = binary.display();
    Err(Failure::new(format!(
        "{binary} is not there; build it: cargo build --release -p quipu --features cluster"
    )))
}
