//! Any events, read through any windows, make the counts of a naive model.

use crate::fixtures::{
    SLICE, counter, embedded_events, embedded_events_in_event_buckets, event, key, scan, window,
};
use proptest::prelude::*;
use quipu_adapters::{embedded::EmbeddedEventStore, ports::EventStore};
use quipu_core::{
    aggregate::{Count, OrderedFold},
    event::{EventKey, EventRow, LogPosition, Mutation, StoredEvent},
};
use std::{collections::BTreeMap, path::Path};

fn events() -> impl Strategy<Value = Vec<StoredEvent>> {
    let time = prop_oneof![
        -3..3_i64,
        -2 * SLICE..2 * SLICE,
        (-2..3_i64).prop_map(|n| n * SLICE - 1)
    ];
    let token = prop::sample::select(vec!["a", "b", "ba", "c"]);
    let item = prop::sample::select(vec!["", "", "i"]);
    let mutation = prop_oneof![
        4 => any::<i64>().prop_map(Mutation::Add),
        1 => Just(Mutation::Clear),
    ];
    let event =
        (time, token, item, mutation, 0..4_u64).prop_map(|(time, token, item, mutation, n)| {
            let event = event(key(time, token, item), mutation, n);
            // A copy is the same wherever it is read from.
            let mutation = if n == 0 {
                mutation
            } else {
                Mutation::Add(i64::try_from(n).unwrap_or(0))
            };
            StoredEvent { mutation, ..event }
        });
    prop::collection::vec(event, 0..60)
}

/// The first write of a position stays: a record of the log never changes.
fn distinct_records(events: Vec<StoredEvent>) -> Vec<StoredEvent> {
    let mut records: BTreeMap<(EventKey, LogPosition), StoredEvent> = BTreeMap::new();
    for event in events {
        records
            .entry((event.key.clone(), event.source))
            .or_insert(event);
    }
    records.into_values().collect()
}

fn naive_fold(records: &[StoredEvent]) -> Count {
    let mut winners: BTreeMap<&EventKey, &StoredEvent> = BTreeMap::new();
    for record in records {
        let winner = winners.entry(&record.key).or_insert(record);
        if record.source < winner.source {
            *winner = record;
        }
    }
    winners
        .values()
        .fold(Count::ZERO, |count, event| count.after(event.mutation))
}

async fn count_through_windows(store: &EmbeddedEventStore, mut cuts: Vec<i64>) -> Count {
    cuts.push(3 * SLICE);
    cuts.sort_unstable();
    let mut fold = OrderedFold::from(Count::ZERO);
    let mut after = -3 * SLICE;
    for through in cuts {
        for event in scan(store, "a", window(after, through)).await {
            fold.push(&event.key, event.mutation);
        }
        after = through;
    }
    fold.count()
}

fn check(
    open: fn(&Path) -> EmbeddedEventStore,
    events: Vec<StoredEvent>,
    cuts: Vec<i64>,
    order: &[prop::sample::Index],
) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let records = distinct_records(events);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let count = runtime.block_on(async {
        let store = open(directory.path());
        store
            .prepare(window(-3 * SLICE, 3 * SLICE))
            .await
            .expect("prepared");
        let row = |event: &StoredEvent| EventRow {
            counter: counter("a"),
            event: event.clone(),
        };
        let mut rows: Vec<_> = records.iter().map(row).collect();
        for (at, other) in order.iter().enumerate().take(rows.len()) {
            let other = other.index(rows.len());
            rows.swap(at, other);
        }
        for batch in rows.chunks(11) {
            store.write(batch).await.expect("written");
        }
        // A replay writes some of them again.
        store
            .write(&rows[rows.len() / 2..])
            .await
            .expect("written again");
        count_through_windows(&store, cuts).await
    });
    assert_eq!(count, naive_fold(&records));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn scanned_windows_fold_to_the_naive_count(
        events in events(),
        cuts in prop::collection::vec(-3 * SLICE..3 * SLICE, 0..6),
        order in prop::collection::vec(any::<prop::sample::Index>(), 60),
    ) {
        check(embedded_events, events.clone(), cuts.clone(), &order);
        check(embedded_events_in_event_buckets, events, cuts, &order);
    }
}
