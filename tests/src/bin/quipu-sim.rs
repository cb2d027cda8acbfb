//! `quipu-sim`: runs seeded schedules of the simulator, or replays one.

use clap::Parser;
use quipu_tests::sim::{self, Bug, Plan};
use std::process::ExitCode;

/// Runs the production machines in a simulated world, one schedule a seed, and checks that every
/// count is exact whatever fails.
#[derive(Debug, Parser)]
#[command(
    after_help = "Replay one schedule and print its whole tail: quipu-sim --first-seed 42 --seeds 1 --tail 400"
)]
struct Options {
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    first_seed: u64,
    /// How many seeds.
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// How many of the last things that happened are printed for a violation.
    #[arg(long, default_value_t = 40)]
    tail: usize,
    /// A bug to plant: the simulator must find it.
    #[arg(long)]
    plant: Option<Bug>,
    /// A fault that is not to strike, by the name that a replay gives it; any number.
    #[arg(long)]
    without: Vec<String>,
    /// For how many steps there are calls and faults, before all must become quiet.
    #[arg(long, default_value_t = 2_000)]
    busy_steps: u64,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let (mut violations, mut first) = (0_u64, None);
    for seed in options.first_seed..options.first_seed.saturating_add(options.seeds) {
        let plan = Plan {
            seed,
            bug: options.plant,
            without: options.without.clone(),
            busy_steps: options.busy_steps,
        };
        let outcome = sim::run(&plan);
        let Some(violation) = outcome.violation else {
            continue;
        };
        violations += 1;
        first.get_or_insert(seed);
        println!("seed {seed}: {violation}");
        if violations == 1 {
            let skipped = outcome.tail.len().saturating_sub(options.tail);
            outcome.tail[skipped..]
                .iter()
                .for_each(|line| println!("  {line}"));
        }
        println!("  replay: {}", plan.replay());
        if violations == 1 && options.seeds > 1 {
            let smallest = plan.shrink();
            println!("  smaller, with {:?}:", smallest.strikes());
            println!("  {}", smallest.replay());
        }
    }
    let first = first.map_or_else(|| "none".to_owned(), |seed| seed.to_string());
    println!(
        "schedules {}, violations {violations}, first violating seed {first}",
        options.seeds
    );
    if violations == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
