//! The deterministic simulation: exact counts whatever fails, and planted bugs that are caught.

use quipu_tests::sim::{self, Bug};

#[test]
fn counts_are_exact_on_every_schedule() {
    for seed in 0..300 {
        let outcome = sim::run(seed, None);
        assert!(
            outcome.violation.is_none(),
            "seed {seed}: {:?}\nreplay: quipu-sim --first-seed {seed} --seeds 1 --tail 400\n{}",
            outcome.violation,
            outcome.tail[outcome.tail.len().saturating_sub(60)..].join("\n"),
        );
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..20 {
        let (first, second) = (sim::run(seed, None), sim::run(seed, None));
        assert_eq!(
            (first.digest, first.lines),
            (second.digest, second.lines),
            "seed {seed}"
        );
    }
    assert_ne!(sim::run(0, None).digest, sim::run(1, None).digest);
}

#[test]
fn every_planted_bug_is_caught() {
    let mut missed = Vec::new();
    for bug in Bug::ALL {
        let caught = (0..400).find_map(|seed| Some((seed, sim::run(seed, Some(bug)).violation?)));
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
