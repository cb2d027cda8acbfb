//! The life of slices, and the walk over their counters.

use crate::fixtures::{
    SLICE, counter, embedded_events, embedded_events_in_event_buckets, event, everything, key, row,
    scan, window,
};
use quipu_adapters::ports::{EventStore, Lookup, SliceState, StoreError};
use quipu_core::{
    event::{EventRow, Mutation},
    slice::SliceId,
    time::Micros,
};

run_against!(
    [
        memory = crate::fixtures::memory_events,
        embedded = crate::fixtures::embedded_events,
        embedded_in_event_buckets = crate::fixtures::embedded_events_in_event_buckets,
    ],
    [
        a_slice_that_is_not_there_refuses_the_whole_write,
        preparing_makes_each_touched_slice_ready_once,
        a_dropped_slice_is_gone_and_its_rows_are_skipped,
        a_slice_dropped_before_it_existed_stays_dropped,
        counters_of_a_slice_come_in_pages,
    ],
    cluster [
        cassandra = crate::cassandra::events,
        cassandra_in_event_buckets = crate::cassandra::events_in_event_buckets,
    ]
);

async fn a_slice_that_is_not_there_refuses_the_whole_write<S: EventStore>(store: S) {
    store.prepare(window(-1, 0)).await.expect("prepared");
    let error = store
        .write(&[row("a", 1, "t", 1), row("a", SLICE, "t", 1)])
        .await;
    assert!(
        matches!(error, Err(StoreError::SliceNotReady(SliceId(1)))),
        "{error:?}"
    );
    assert_eq!(scan(&store, "a", everything()).await, []);
    let found = store
        .lookup(&counter("a"), &key(SLICE, "t", ""))
        .await
        .expect("looked up");
    assert_eq!(found, Lookup::Absent);
}

async fn preparing_makes_each_touched_slice_ready_once<S: EventStore>(store: S) {
    assert_eq!(store.slices().await.expect("listed"), []);
    store.prepare(window(0, 0)).await.expect("prepared");
    assert_eq!(store.slices().await.expect("listed"), []);
    store
        .prepare(window(-SLICE - 1, SLICE - 1))
        .await
        .expect("prepared");
    store
        .prepare(window(-1, 2 * SLICE))
        .await
        .expect("prepared");
    let slices = store.slices().await.expect("listed");
    assert_eq!(
        slices.iter().map(|slice| slice.id.0).collect::<Vec<_>>(),
        [-1, 0, 1, 2]
    );
    for slice in slices {
        assert_eq!(slice.state, SliceState::Ready);
        assert_eq!(slice.last, Micros::new((slice.id.0 + 1) * SLICE - 1));
    }
}

async fn a_dropped_slice_is_gone_and_its_rows_are_skipped<S: EventStore>(store: S) {
    store.prepare(everything()).await.expect("prepared");
    let rows = [
        row("a", -1, "t", 1),
        row("a", 0, "t", 1),
        row("a", SLICE, "t", 1),
    ];
    store.write(&rows).await.expect("written");
    store.drop_slice(SliceId(0)).await.expect("dropped");
    store.drop_slice(SliceId(0)).await.expect("dropped again");
    store
        .write(&rows)
        .await
        .expect("written, but for the dropped");
    store.prepare(everything()).await.expect("prepared");
    let [before, dropped, after] = rows.map(|row| row.event);
    assert_eq!(scan(&store, "a", everything()).await, [before, after]);
    let found = store
        .lookup(&counter("a"), &dropped.key)
        .await
        .expect("looked up");
    assert_eq!(found, Lookup::Dropped);
    assert_eq!(
        store.counters(SliceId(0), None, 9).await.expect("listed"),
        []
    );
    let slices = store.slices().await.expect("listed");
    let state = slices
        .iter()
        .find(|slice| slice.id == SliceId(0))
        .map(|slice| slice.state);
    assert_eq!(state, Some(SliceState::Dropped));
}

async fn a_slice_dropped_before_it_existed_stays_dropped<S: EventStore>(store: S) {
    store.drop_slice(SliceId(0)).await.expect("dropped");
    store.prepare(everything()).await.expect("prepared");
    store.write(&[row("a", 0, "t", 1)]).await.expect("skipped");
    assert_eq!(scan(&store, "a", everything()).await, []);
}

async fn counters_of_a_slice_come_in_pages<S: EventStore>(store: S) {
    store.prepare(everything()).await.expect("prepared");
    let names = ["a", "a\u{1}", "a\u{1}b", "aa", "b", "é"];
    let mut rows = Vec::new();
    for (name, n) in names.iter().zip(0..) {
        rows.extend((0..=n).map(|time| row(name, time, "t", 1)));
    }
    rows.push(row("elsewhere", -1, "t", 1));
    store.write(&rows).await.expect("written");
    let all = names.map(counter);
    for limit in 1..=names.len() + 1 {
        let mut listed = Vec::new();
        loop {
            let page = store
                .counters(SliceId(0), listed.last(), limit)
                .await
                .expect("listed");
            let full = page.len() == limit;
            listed.extend(page);
            if !full {
                break;
            }
        }
        // Each store has an order of its own.
        listed.sort();
        assert_eq!(listed, all, "pages of {limit}");
    }
    assert_eq!(
        store.counters(SliceId(0), None, 0).await.expect("listed"),
        []
    );
    assert_eq!(
        store.counters(SliceId(9), None, 9).await.expect("listed"),
        []
    );
}

#[tokio::test]
async fn an_embedded_store_is_the_same_after_it_was_opened_again() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let store = embedded_events_in_event_buckets(directory.path());
    store.prepare(everything()).await.expect("prepared");
    let clear = event(key(3, "c", ""), Mutation::Clear, 1);
    let rows = [
        row("a", -1, "t", 1),
        row("a", 0, "t", -2),
        EventRow {
            counter: counter("a"),
            event: clear,
        },
        row("a", SLICE, "t", i64::MIN),
    ];
    store.write(&rows).await.expect("written");
    store.drop_slice(SliceId(-1)).await.expect("dropped");
    let before = (
        store.slices().await.expect("listed"),
        scan(&store, "a", everything()).await,
    );
    store.sync().await.expect("synced");
    drop(store);
    // The layout of new slices may change; those that exist keep theirs.
    let store = embedded_events(directory.path());
    let after = (
        store.slices().await.expect("listed"),
        scan(&store, "a", everything()).await,
    );
    assert_eq!(after, before);
    assert_eq!(after.1.len(), 3);
    store.prepare(window(0, 5 * SLICE)).await.expect("prepared");
    store
        .write(&[row("a", 4 * SLICE, "t", 1)])
        .await
        .expect("written");
    assert_eq!(scan(&store, "a", window(0, 5 * SLICE)).await.len(), 3);
}
