//! What the tests of this role have in common: one namespace, its events, and how the role is set.

use quipu_adapters::{
    memory::MemoryEventStore,
    ports::{Assignment, Body, Committed, Record, Stamp},
};
use quipu_core::{
    caps::{CappedRange, CappedRanges},
    event::{EventKey, Mutation, NamespaceId},
    name::{CounterName, ItemKey, Namespace, Token},
    policy::{Cardinality, Incarnation, Limits, NamespaceHistory, PolicyBook, RollupSettings},
    slice::Slicing,
    time::Micros,
};
use quipu_ingest::{Settings, machine::Machine, ticks::TickSettings};
use quipu_schemas::event::{self, CheckedEvent};
use std::{collections::BTreeMap, time::Duration};

pub(crate) const TOPIC: &str = "quipu-events";

pub(crate) const fn second(s: i64) -> Micros {
    Micros::new(s * 1_000_000)
}

pub(crate) fn counter() -> CounterName {
    CounterName::new("c").expect("a valid name")
}

/// One namespace, as old as time, that accepts what is up to 5 s late or early.
pub(crate) fn book(valid_through: Micros, caps: &[CappedRange]) -> PolicyBook {
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
    let mut book = PolicyBook::new([(name, history)], valid_through);
    let mut ranges = CappedRanges::none();
    for cap in caps {
        ranges.add(*cap).expect("in order");
    }
    book.set_caps(BTreeMap::from([(TOPIC.to_owned(), ranges)]));
    book
}

pub(crate) fn key(token: &str, event_time: Micros) -> EventKey {
    EventKey {
        event_time,
        event_id: Token::new(token).expect("a valid token"),
        item_key: ItemKey::new("").expect("a valid item key"),
    }
}

/// An add of one, as producers write it.
pub(crate) fn add(namespace: &str, key: EventKey) -> Body {
    let event = CheckedEvent {
        namespace: Namespace::new(namespace).expect("a valid name"),
        counter: counter(),
        key,
        mutation: Mutation::Add(1),
    };
    Body::value(event::encode(&event))
}

/// An add to the namespace, as the log brings it.
pub(crate) fn added(offset: u64, append_time: Micros, event_time: Micros) -> Record {
    Record {
        offset,
        stamp: Stamp::Log(append_time),
        body: add("n", key(&offset.to_string(), event_time)),
    }
}

/// A partition that starts with the log and with time.
pub(crate) fn assignment(partition: u32) -> Assignment {
    let start = Committed {
        next_offset: 0,
        effective_time: second(0),
    };
    Assignment { partition, start }
}

/// A machine that owns one partition, whatever is refused of it.
pub(crate) fn machine(partition: u32) -> Machine {
    let mut machine = Machine::new(TOPIC, 100, Duration::from_secs(1));
    machine.assign(assignment(partition));
    machine
}

pub(crate) fn store() -> MemoryEventStore {
    MemoryEventStore::new(Slicing::new(Duration::from_hours(24)).expect("a valid length"))
}

/// A role that takes small batches, soon, and ticks often.
pub(crate) fn settings() -> Settings {
    let tick = Duration::from_millis(10);
    Settings {
        topic: TOPIC,
        batch_rows: 10,
        linger: tick,
        in_flight: 2,
        ticks: TickSettings {
            active: tick,
            idle: tick,
            idle_after: tick,
        },
        most_refused_percent: 100,
        append_guard: Duration::ZERO,
    }
}
