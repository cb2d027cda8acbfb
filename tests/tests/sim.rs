//! The deterministic simulation: exact counts whatever fails, and planted bugs that are caught.

use quipu_tests::sim::{self, Bug, Plan};

#[test]
fn counts_are_exact_on_every_schedule() {
    for seed in 0..500 {
        let plan = Plan::new(seed, None);
        let outcome = sim::run(&plan);
        assert!(
            outcome.violation.is_none(),
            "seed {seed}: {:?}\nreplay: {}\n{}",
            outcome.violation,
            plan.shrink().replay(),
            outcome.tail[outcome.tail.len().saturating_sub(60)..].join("\n"),
        );
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..20 {
        let plan = Plan::new(seed, None);
        let (first, second) = (sim::run(&plan), sim::run(&plan));
        assert_eq!(
            (first.digest, first.lines),
            (second.digest, second.lines),
            "seed {seed}"
        );
    }
    let [first, second] = [0, 1].map(|seed| sim::run(&Plan::new(seed, None)));
    assert_ne!(first.digest, second.digest);
}

#[test]
fn every_planted_bug_is_caught() {
    let mut missed = Vec::new();
    for bug in Bug::ALL {
        let caught = (0..1_000)
            .find_map(|seed| Some((seed, sim::run(&Plan::new(seed, Some(bug))).violation?)));
        match caught {
            Some((seed, violation)) => {
                let what: String = violation.chars().take(150).collect();
                println!("{bug:?}: caught by schedule {}: {what}", seed + 1);
            }
            None => missed.push(bug),
        }
    }
    assert!(missed.is_empty(), "not caught: {missed:?}");
}

#[test]
fn a_schedule_that_breaks_an_invariant_is_made_smaller_and_still_breaks_it() {
    let plan = Plan::new(0, Some(Bug::WallClockClose));
    assert!(sim::run(&plan).violation.is_some(), "it is caught at once");
    let smallest = plan.shrink();
    assert!(sim::run(&smallest).violation.is_some(), "{smallest:?}");
    assert!(smallest.busy_steps < plan.busy_steps / 2, "{smallest:?}");
    assert!(
        smallest.strikes().len() < plan.strikes().len(),
        "{smallest:?}"
    );
}
