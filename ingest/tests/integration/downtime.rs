//! A node that was down for longer than anybody planned.

use crate::fixtures::{self, counter, key, settings};
use quipu_adapters::{
    clock::{Clock, ManualClock},
    embedded::{Embedded, EmbeddedSettings},
    ports::{ControlPlane, EventStore, Lookup, NewRecord, Producer, Topic},
};
use quipu_core::{
    event::{CounterKey, NamespaceId},
    time::Micros,
};
use quipu_ingest::{IngestError, Ports, Settings};
use std::{path::Path, time::Duration};

const START: Micros = Micros::new(1_700_000_000_000_000);
const DAY: Duration = Duration::from_hours(24);

fn open(directory: &Path, clock: &Clock) -> Embedded {
    Embedded::open(directory, EmbeddedSettings::default(), clock.clone()).expect("it opens")
}

/// Appends an add to the namespace that every node has.
async fn add(node: &Embedded, event_time: Micros) {
    let record = NewRecord {
        partition: 0,
        body: fixtures::add("default", key("t", event_time)),
    };
    node.producer()
        .append(Topic::Events, vec![record])
        .await
        .expect("appended");
}

/// Runs ingest until the low watermark reaches a time, and the clock goes on meanwhile.
async fn ingest_until(
    node: &Embedded,
    clock: &Clock,
    hands: &ManualClock,
    through: Micros,
) -> Result<(), IngestError> {
    let ports = Ports {
        log: node.producer(),
        events: node.events(),
        watermarks: node.watermarks(),
        policies: node.control().policies(),
        clock: clock.clone(),
    };
    let board = node.watermarks();
    let caught_up = async {
        for _ in 0..1_000 {
            if board.low() >= through {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            hands.advance(Duration::from_millis(10));
        }
        panic!(
            "after ten seconds the low watermark is only {}",
            board.low()
        );
    };
    let settings = Settings {
        batch_rows: 1_000,
        linger: Duration::from_millis(300),
        ..settings()
    };
    let consumer = node.consumer(Topic::Events, "ingest");
    quipu_ingest::run(consumer, ports, settings, caught_up).await
}

#[tokio::test]
async fn what_was_undecided_before_years_of_downtime_is_decided_after_them() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (clock, hands) = Clock::manual(START);
    let mut node = open(directory.path(), &clock);
    let mut times = vec![];
    // In one batch with what is years older.
    for days in [0, 550, 550] {
        drop(node);
        hands.advance(days * DAY);
        node = open(directory.path(), &clock);
        times.push(clock.now());
        add(&node, clock.now()).await;
    }
    let now = clock.now();
    ingest_until(&node, &clock, &hands, now)
        .await
        .expect("ingest goes on");
    let counter = CounterKey {
        namespace: NamespaceId(1),
        name: counter(),
    };
    for time in times {
        let found = node.events().lookup(&counter, &key("t", time)).await;
        assert!(matches!(found, Ok(Lookup::Stored(_))), "{time}: {found:?}");
    }
    let slices = node.events().slices().await.expect("slices").len();
    assert!(slices < 10, "only slices that are needed, and not {slices}");
}
