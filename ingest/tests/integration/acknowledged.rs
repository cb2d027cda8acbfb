//! Events that a gateway had to acknowledge, and that are refused all the same (R7).

use crate::fixtures::{added, book, machine, second};
use quipu_core::time::Micros;
use quipu_ingest::{batch::Batch, machine::Present};

/// How many are refused of those that had to be acknowledged, after a record appended at 100 s.
fn refused_after_100(append_time: Micros, event_time: Micros) -> (usize, u64) {
    let policy = book(second(1_000), &[]);
    let present = Present {
        now: second(101),
        policy: &policy,
    };
    let records = vec![
        added(0, second(100), second(100)),
        added(1, append_time, event_time),
    ];
    let mut batch = Batch::default();
    machine(0)
        .decide(present, 0, records, &mut batch)
        .expect("it decides");
    (batch.dead_letters.len(), batch.acknowledged_and_refused)
}

#[test]
fn a_clock_that_went_back_by_more_than_the_guard_is_counted_where_it_made_a_promise_false() {
    // Fresh by its own append time, late by the time that counts.
    assert_eq!(refused_after_100(second(90), second(89)), (1, 1));
    // Within the guard the gateway did not acknowledge it.
    assert_eq!(refused_after_100(second(99), second(95)), (1, 0));
    // Late by its own append time: nobody acknowledged it.
    assert_eq!(refused_after_100(second(90), second(80)), (1, 0));
    assert_eq!(refused_after_100(second(90), second(97)), (0, 0));
}
