use crate::at;
use proptest::prelude::*;
use quipu_core::{
    aggregate::Count,
    checkpoint::{Checkpoint, Generation, converged},
};
use std::time::Duration;

/// The last moment that a write timestamp can tell apart: 2^52 - 1 µs, in the year 2112.
const LAST: i64 = (1 << 52) - 1;

fn checkpoint(generation: u16, last_rollup: i64) -> Checkpoint {
    Checkpoint {
        generation: Generation::new(generation).expect("below the limit"),
        count: Count::ZERO,
        last_rollup: at(last_rollup),
    }
}

#[test]
fn generations_end_where_a_write_timestamp_would_overflow() {
    assert_eq!(Generation::new(2047).map(Generation::get), Some(2047));
    assert_eq!(Generation::new(2048), None);
    assert_eq!(checkpoint(2047, LAST).write_timestamp(), i64::MAX);
    assert_eq!(checkpoint(0, 0).write_timestamp(), 0);
}

#[test]
fn write_timestamps_never_change() {
    assert_eq!(
        checkpoint(0, 1_700_000_000_000_000).write_timestamp(),
        1_700_000_000_000_000
    );
    assert_eq!(
        checkpoint(3, 5).write_timestamp(),
        3 * 4_503_599_627_370_496 + 5
    );
}

#[test]
fn a_checkpoint_outside_1970_to_2112_never_takes_a_later_generations_place() {
    for time in [i64::MIN, -1, LAST + 1, i64::MAX] {
        assert!(checkpoint(1, time).write_timestamp() < checkpoint(2, 0).write_timestamp());
        assert!(checkpoint(1, time).write_timestamp() >= checkpoint(1, 0).write_timestamp());
    }
}

#[test]
fn the_origin_is_zero_in_the_first_generation() {
    let origin = Checkpoint::origin(at(-7));
    assert_eq!((origin.count, origin.last_rollup), (Count::ZERO, at(-7)));
    assert_eq!(origin.generation.get(), 0);
}

#[test]
fn a_counter_has_converged_once_its_last_write_is_covered() {
    assert!(converged(at(5), at(5)));
    assert!(converged(at(6), at(5)));
    assert!(!converged(at(4), at(5)));
    assert_eq!(checkpoint(0, 4).lag(at(9)), Duration::from_micros(5));
    assert_eq!(checkpoint(0, 9).lag(at(4)), Duration::ZERO);
}

proptest! {
    #[test]
    fn a_store_that_keeps_the_larger_write_timestamp_keeps_the_newer_checkpoint(
        ours in (0_u16..4, 0..=LAST),
        theirs in (0_u16..4, 0..=LAST),
        nudge in 0_i64..2,
    ) {
        // Half of the cases are neighbours in one generation.
        let theirs = if theirs.0 == ours.0 { (ours.0, (ours.1 + nudge).min(LAST)) } else { theirs };
        let (ours, theirs) = (checkpoint(ours.0, ours.1), checkpoint(theirs.0, theirs.1));
        prop_assert_eq!(
            ours.supersedes(&theirs),
            ours.write_timestamp() > theirs.write_timestamp()
        );
        prop_assert!(!(ours.supersedes(&theirs) && theirs.supersedes(&ours)));
        prop_assert!(!ours.supersedes(&ours));
    }
}
