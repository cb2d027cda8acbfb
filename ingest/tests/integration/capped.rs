//! Records that a log stamped far ahead, until an operator decides (R3).

use quipu_adapters::ports::{Assignment, Body, Committed, Record, Stamp};
use quipu_core::{
    caps::{CappedRange, CappedRanges},
    event::{EventKey, Mutation, NamespaceId},
    name::{CounterName, ItemKey, Namespace, Token},
    policy::{Cardinality, Incarnation, Limits, NamespaceHistory, PolicyBook, RollupSettings},
    time::Micros,
};
use quipu_ingest::{
    batch::Batch,
    machine::{Machine, Present, Stall, Stalled},
};
use quipu_schemas::event::{self, CheckedEvent};
use std::{collections::BTreeMap, time::Duration};

const TOPIC: &str = "quipu-events";
/// Nobody may decide beyond this when the cap is made.
const GRANTED: i64 = 105;
const A_YEAR_AHEAD: i64 = 31_536_000;

const fn second(s: i64) -> Micros {
    Micros::new(s * 1_000_000)
}

fn book(valid_through: i64, caps: &[CappedRange]) -> PolicyBook {
    let limits = Limits {
        accept_limit: Duration::from_secs(5),
        max_future: Duration::from_secs(5),
    };
    let rollup = RollupSettings {
        coalesce: Duration::from_secs(1),
        cardinality: Cardinality::Low,
    };
    let life = Incarnation::new(NamespaceId(1), second(0), limits);
    let name = Namespace::new("n").expect("a valid name");
    let history = NamespaceHistory::new(TOPIC, rollup, life);
    let mut book = PolicyBook::new([(name, history)], second(valid_through));
    let mut ranges = CappedRanges::none();
    for cap in caps {
        ranges.add(*cap).expect("in order");
    }
    book.set_caps(BTreeMap::from([(TOPIC.to_owned(), ranges)]));
    book
}

fn add(offset: u64, append_time: i64, event_time: i64) -> Record {
    let event = CheckedEvent {
        namespace: Namespace::new("n").expect("a valid name"),
        counter: CounterName::new("c").expect("a valid name"),
        key: EventKey {
            event_time: second(event_time),
            event_id: Token::new(&offset.to_string()).expect("a valid token"),
            item_key: ItemKey::new("").expect("a valid item key"),
        },
        mutation: Mutation::Add(1),
    };
    Record {
        offset,
        stamp: Stamp::Log(second(append_time)),
        body: Body::value(event::encode(&event)),
    }
}

/// Two events and a tick stamped a year ahead, and an event after the clock was set right.
fn records() -> Vec<Record> {
    let tick = Record {
        offset: 2,
        stamp: Stamp::Log(second(A_YEAR_AHEAD)),
        body: Body::Tick,
    };
    vec![
        add(0, 100, 100),
        add(1, A_YEAR_AHEAD, 101),
        tick,
        add(3, 102, 102),
    ]
}

fn machine() -> Machine {
    let mut machine = Machine::new(TOPIC, 100, Duration::from_secs(1));
    let start = Committed {
        next_offset: 0,
        effective_time: second(0),
    };
    machine.assign(Assignment {
        partition: 7,
        start,
    });
    machine
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
    above: second(GRANTED),
};

#[test]
fn a_partition_stops_before_a_record_that_is_stamped_ahead_and_says_what_an_operator_can_do() {
    let (mut machine, mut batch) = (machine(), Batch::default());
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
    let (mut machine, mut batch) = (machine(), Batch::default());
    let policy = book(GRANTED + 1, &[CAP]);
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
    let jumped = add(1, GRANTED + 1, 101);
    let mut without = machine();
    let stale = book(GRANTED, &[]);
    let present = Present {
        now: second(GRANTED + 1),
        policy: &stale,
    };
    let mut batch = Batch::default();
    let stalled = without.decide(present, 7, vec![jumped.clone()], &mut batch);
    let reason = stalled.expect_err("it waits").reason;
    assert!(matches!(reason, Stall::PolicyBehind { .. }));
    // What it may decide is not capped.
    let allowed = add(2, GRANTED, 101);
    for caps in [&[][..], &[CAP]] {
        let (mut machine, mut batch) = (machine(), Batch::default());
        let present = Present {
            now: second(GRANTED),
            policy: &book(GRANTED, caps),
        };
        let records = vec![allowed.clone()];
        machine
            .decide(present, 7, records, &mut batch)
            .expect("decided");
        assert_eq!(batch.rows[0].event.source.effective_time, second(GRANTED));
    }
}

#[test]
fn a_dead_letter_shows_the_stamp_that_the_log_gave() {
    let (mut machine, mut batch) = (machine(), Batch::default());
    let policy = book(GRANTED + 1, &[CAP]);
    let late = vec![add(0, 100, 100), add(1, A_YEAR_AHEAD, 10)];
    decide(&mut machine, &policy, late, &mut batch).expect("decided");
    let [letter] = &batch.dead_letters[..] else {
        panic!("one is refused: {:?}", batch.dead_letters);
    };
    assert_eq!(letter.refusal.reason(), "late");
    assert_eq!(letter.timestamp, second(A_YEAR_AHEAD));
}
