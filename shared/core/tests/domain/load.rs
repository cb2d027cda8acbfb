//! Back-pressure and batch sizes: their bounds, and which way evidence moves them.

use proptest::prelude::*;
use quipu_core::{
    batch::BatchSizer,
    pressure::{Evidence, Pressure},
};
use std::time::Duration;

fn evidence() -> impl Strategy<Value = Evidence> {
    prop_oneof![
        Just(Evidence::Fast),
        Just(Evidence::Slow),
        Just(Evidence::Failed)
    ]
}

proptest! {
    #[test]
    fn the_rate_stays_in_its_bounds_and_follows_the_evidence(
        evidence in prop::collection::vec(evidence(), 0..200),
        took in 0_u64..5_000,
    ) {
        let mut pressure = Pressure::new();
        for evidence in evidence {
            let before = pressure.per_second();
            pressure.learn(evidence);
            let after = pressure.per_second();
            prop_assert!((0.5..=1000.0).contains(&after));
            match evidence {
                Evidence::Fast => prop_assert!(after > before || (before - 1000.0).abs() < 1e-9),
                Evidence::Slow | Evidence::Failed => {
                    prop_assert!(after < before || (before - 0.5).abs() < 1e-9);
                }
            }
            let took = Duration::from_millis(took);
            let pause = pressure.pause(took);
            prop_assert!(pause <= Duration::from_secs(2));
            prop_assert!(pause.is_zero() || (took + pause).as_secs_f64() <= 1.0 / after + 1e-6);
        }
    }

    #[test]
    fn a_failure_weighs_more_than_slowness(fast in 0_usize..60, failures in 0_usize..20) {
        let mut slow = Pressure::new();
        (0..failures).for_each(|_| slow.learn(Evidence::Failed));
        (0..fast).for_each(|_| slow.learn(Evidence::Fast));
        let mut failed = slow.clone();
        slow.learn(Evidence::Slow);
        failed.learn(Evidence::Failed);
        prop_assert!(failed.per_second() <= slow.per_second());
    }

    #[test]
    fn a_batch_stays_in_its_bounds_and_follows_the_evidence(
        smallest in 1_usize..20,
        more in 0_usize..500,
        batches in prop::collection::vec((evidence(), 0_usize..600), 0..100),
    ) {
        let largest = smallest + more;
        let mut sizer = BatchSizer::new(smallest, largest);
        for (evidence, pending) in batches {
            let before = sizer.next(usize::MAX);
            let size = sizer.next(pending);
            prop_assert_eq!(size, pending.min(before));
            sizer.learn(size, evidence);
            let after = sizer.next(usize::MAX);
            prop_assert!((smallest..=largest).contains(&after));
            match evidence {
                Evidence::Fast if size < before => prop_assert_eq!(after, before),
                Evidence::Fast => prop_assert!(after > before || before == largest),
                Evidence::Slow | Evidence::Failed => {
                    prop_assert!(after < before || before == smallest);
                }
            }
        }
    }
}

#[test]
fn a_loaded_store_gets_two_seconds_and_recovers() {
    let mut pressure = Pressure::default();
    (0..100).for_each(|_| pressure.learn(Evidence::Failed));
    assert_eq!(pressure.pause(Duration::ZERO), Duration::from_secs(2));
    (0..50).for_each(|_| pressure.learn(Evidence::Fast));
    assert_eq!(pressure.pause(Duration::from_millis(1)), Duration::ZERO);
}

#[test]
fn nothing_pending_is_an_empty_batch() {
    assert_eq!(BatchSizer::new(10, 20).next(0), 0);
}

#[test]
#[should_panic(expected = "batch sizes")]
fn a_batch_of_nothing_is_no_size() {
    BatchSizer::new(0, 1);
}

#[test]
#[should_panic(expected = "batch sizes")]
fn the_smallest_batch_is_not_over_the_largest() {
    BatchSizer::new(2, 1);
}
