//! Records that a log stamped far ahead, until an operator decides (R3).

use crate::fixtures::{added, book, machine, second};
use quipu_adapters::ports::{Body, Record, Stamp};
use quipu_core::{caps::CappedRange, policy::PolicyBook, time::Micros};
use quipu_ingest::{
    batch::Batch,
    machine::{Machine, Present, Stall, Stalled},
};
use std::time::Duration;

/// Nobody may decide beyond this when the cap is made.
const GRANTED: Micros = second(105);
const SECOND: Duration = Duration::from_secs(1);
const A_YEAR_AHEAD: Micros = second(31_536_000);

/// Two events and a tick stamped a year ahead, and an event after the clock was set right.
fn records() -> Vec<Record> {
    let tick = Record {
        offset: 2,
        stamp: Stamp::Log(A_YEAR_AHEAD),
        body: Body::Tick,
    };
    vec![
        added(0, second(100), second(100)),
        added(1, A_YEAR_AHEAD, second(101)),
        tick,
        added(3, second(102), second(102)),
    ]
}

fn decide(
    machine: &mut Machine,
    policy: &PolicyBook,
    records: Vec<Record>,
    batch: &mut Batch,
) -> Result<(), Stalled> {
    let present = Present {
        now: second(103),
        policy,
    };
    machine.decide(present, 7, records, batch)
}

const CAP: CappedRange = CappedRange {
    partition: 7,
    first: 1,
    last: 2,
    time: second(101),
    above: GRANTED,
};

#[test]
fn a_partition_stops_before_a_record_that_is_stamped_ahead_and_says_what_an_operator_can_do() {
    let (mut machine, mut batch) = (machine(7), Batch::default());
    let policy = book(GRANTED, &[]);
    let stalled = decide(&mut machine, &policy, records(), &mut batch).expect_err("it stops");
    assert_eq!(stalled.offset, 1);
    assert!(matches!(stalled.reason, Stall::StampAhead { .. }));
    let remedy = stalled.remedy(7).expect("there is one");
    let command = "quipu admin cap-time --partition 7 --from 1 --time 1970-01-01T00:01:40Z";
    assert!(remedy.ends_with(command), "{remedy}");
    assert_eq!(batch.rows.len(), 1, "what lies before is decided");
}

#[test]
fn capped_records_are_decided_by_the_time_that_the_operator_gave() {
    let (mut machine, mut batch) = (machine(7), Batch::default());
    let policy = book(GRANTED + SECOND, &[CAP]);
    decide(&mut machine, &policy, records(), &mut batch).expect("it goes on");
    let times = batch.rows.iter().map(|row| row.event.source.effective_time);
    assert_eq!(
        times.collect::<Vec<_>>(),
        [second(100), second(101), second(102)]
    );
    assert_eq!(batch.dead_letters, []);
    let moved = machine.finish(&batch.ranges);
    assert_eq!(
        moved[&7].effective_time,
        second(102),
        "a tick is capped too"
    );
}

#[test]
fn an_ingest_that_does_not_know_of_a_cap_decides_nothing_that_it_changes() {
    // Just beyond what was granted: only the policy stops it, whatever its clock shows.
    let jumped = added(1, GRANTED + SECOND, second(101));
    let mut without = machine(7);
    let stale = book(GRANTED, &[]);
    let present = Present {
        now: GRANTED + SECOND,
        policy: &stale,
    };
    let mut batch = Batch::default();
    let stalled = without.decide(present, 7, vec![jumped.clone()], &mut batch);
    let reason = stalled.expect_err("it waits").reason;
    assert!(matches!(reason, Stall::PolicyBehind { .. }));
    // What it may decide is not capped.
    let allowed = added(2, GRANTED, second(101));
    for caps in [&[][..], &[CAP]] {
        let (mut machine, mut batch) = (machine(7), Batch::default());
        let present = Present {
            now: GRANTED,
            policy: &book(GRANTED, caps),
        };
        let records = vec![allowed.clone()];
        machine
            .decide(present, 7, records, &mut batch)
            .expect("decided");
        assert_eq!(batch.rows[0].event.source.effective_time, GRANTED);
    }
}

#[test]
fn a_dead_letter_shows_the_stamp_that_the_log_gave() {
    let (mut machine, mut batch) = (machine(7), Batch::default());
    let policy = book(GRANTED + SECOND, &[CAP]);
    let late = vec![
        added(0, second(100), second(100)),
        added(1, A_YEAR_AHEAD, second(10)),
    ];
    decide(&mut machine, &policy, late, &mut batch).expect("decided");
    let [letter] = &batch.dead_letters[..] else {
        panic!("one is refused: {:?}", batch.dead_letters);
    };
    assert_eq!(letter.refusal.reason(), "late");
    assert_eq!(letter.timestamp, A_YEAR_AHEAD);
}
