//! Events that a gateway had to acknowledge, and that are refused all the same (R7).

use quipu_adapters::ports::{Assignment, Body, Committed, Record, Stamp};
use quipu_core::{
    event::{EventKey, Mutation, NamespaceId},
    name::{CounterName, ItemKey, Namespace, Token},
    policy::{Cardinality, Incarnation, Limits, NamespaceHistory, PolicyBook, RollupSettings},
    time::Micros,
};
use quipu_ingest::{
    batch::Batch,
    machine::{Machine, Present},
};
use quipu_schemas::event::{self, CheckedEvent};
use std::time::Duration;

fn second(s: i64) -> Micros {
    Micros::new(s * 1_000_000)
}

fn book() -> PolicyBook {
    let limits = Limits {
        accept_limit: Duration::from_secs(5),
        max_future: Duration::from_secs(5),
    };
    let rollup = RollupSettings {
        coalesce: Duration::from_secs(1),
        cardinality: Cardinality::Low,
    };
    let life = Incarnation::new(NamespaceId(1), second(0), limits);
    let history = NamespaceHistory::new("quipu-events", rollup, life);
    let name = Namespace::new("n").expect("a valid name");
    PolicyBook::new([(name, history)], second(1_000))
}

fn add(offset: u64, append_time: Micros, event_time: Micros) -> Record {
    let event = CheckedEvent {
        namespace: Namespace::new("n").expect("a valid name"),
        counter: CounterName::new("c").expect("a valid name"),
        key: EventKey {
            event_time,
            event_id: Token::new("t").expect("a valid token"),
            item_key: ItemKey::new("").expect("a valid item key"),
        },
        mutation: Mutation::Add(1),
    };
    Record {
        offset,
        stamp: Stamp::Log(append_time),
        body: Body::value(event::encode(&event)),
    }
}

/// How many are refused of those that had to be acknowledged, after a record appended at 100 s.
fn refused_after_100(append_time: Micros, event_time: Micros) -> (usize, u64) {
    let mut machine = Machine::new("quipu-events", 100, Duration::from_secs(1));
    let start = Committed {
        next_offset: 0,
        effective_time: second(0),
    };
    machine.assign(Assignment {
        partition: 0,
        start,
    });
    let policy = book();
    let present = Present {
        now: second(101),
        policy: &policy,
    };
    let records = vec![
        add(0, second(100), second(100)),
        add(1, append_time, event_time),
    ];
    let mut batch = Batch::default();
    machine
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
