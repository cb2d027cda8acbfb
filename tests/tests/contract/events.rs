//! Writes, scans and look-ups of the event store.

use crate::fixtures::{SLICE, counter, event, everything, key, row, scan, window};
use quipu_adapters::ports::{Durability, EventStore, Extent, Lookup};
use quipu_core::{
    event::{CounterKey, EventRow, LogPosition, Mutation, NamespaceId, StoredEvent},
    slice::SliceId,
    time::Micros,
};
use std::{ops::ControlFlow, slice};

run_against!(
    [
        memory = crate::fixtures::memory_events,
        embedded = crate::fixtures::embedded_events,
        embedded_in_short_buckets = crate::fixtures::embedded_events_in_short_buckets,
        embedded_in_event_buckets = crate::fixtures::embedded_events_in_event_buckets,
    ],
    [
        an_event_written_again_is_one_event,
        of_several_copies_the_earliest_in_the_log_is_read,
        events_come_in_the_order_of_time_token_and_item,
        a_window_holds_its_end_and_not_its_start,
        every_part_of_a_range_is_in_exactly_one_of_adjacent_windows,
        the_ends_of_time_are_no_windows_of_their_own,
        counters_do_not_mix,
        tokens_with_zero_bytes_stay_apart,
        a_look_up_finds_one_identity_only,
        a_sync_after_writes_is_durable,
        a_long_scan_loses_nothing_between_pages,
        a_scan_ends_where_its_sink_breaks,
        an_extent_covers_what_a_scan_reads,
    ],
    cluster [
        cassandra = crate::cassandra::events,
        cassandra_in_event_buckets = crate::cassandra::events_in_event_buckets,
    ]
);

async fn an_event_written_again_is_one_event<S: EventStore>(store: S) {
    store.prepare(everything()).await.expect("prepared");
    let rows = [row("a", 5, "t", 3), row("a", 5, "t", 3)];
    store.write(&rows).await.expect("written");
    store.write(&rows[..1]).await.expect("written again");
    assert_eq!(
        scan(&store, "a", everything()).await,
        slice::from_ref(&rows[0].event)
    );
}

async fn of_several_copies_the_earliest_in_the_log_is_read<S: EventStore>(store: S) {
    store.prepare(everything()).await.expect("prepared");
    let copy = |effective, partition, offset, mutation| {
        let effective_time = Micros::new(effective);
        let source = LogPosition {
            effective_time,
            partition,
            offset,
        };
        let event = StoredEvent {
            key: key(-7, "t", "i"),
            mutation,
            source,
        };
        EventRow {
            counter: counter("a"),
            event,
        }
    };
    let first = copy(-100, 9, 900, Mutation::Clear);
    let copies = [
        copy(300, 0, 0, Mutation::Add(1)),
        copy(-99, 0, 0, Mutation::Add(2)),
        copy(-100, 10, 0, Mutation::Add(3)),
        first.clone(),
        copy(-100, 9, 901, Mutation::Add(4)),
        copy(i64::MAX, 0, 0, Mutation::Add(5)),
    ];
    for copy in copies {
        store.write(&[copy]).await.expect("written");
    }
    assert_eq!(
        scan(&store, "a", everything()).await,
        slice::from_ref(&first.event)
    );
    let found = store
        .lookup(&counter("a"), &key(-7, "t", "i"))
        .await
        .expect("looked up");
    assert_eq!(found, Lookup::Stored(first.event));
}

async fn events_come_in_the_order_of_time_token_and_item<S: EventStore>(store: S) {
    store.prepare(everything()).await.expect("prepared");
    let mut rows = Vec::new();
    for time in [-SLICE - 1, -SLICE, -1, 0, 1, 2_999_999, 3_000_000, SLICE] {
        for (token, item) in [
            ("a", ""),
            ("a", "a"),
            ("a", "b"),
            ("aa", ""),
            ("b", ""),
            ("é", ""),
        ] {
            let mutation = if item == "a" {
                Mutation::Clear
            } else {
                Mutation::Add(time)
            };
            let event = event(key(time, token, item), mutation, 1);
            rows.push(EventRow {
                counter: counter("a"),
                event,
            });
        }
    }
    let sorted: Vec<_> = rows.iter().map(|row| row.event.clone()).collect();
    assert!(
        sorted.is_sorted_by(|a, b| a.key < b.key),
        "the test lists them in order"
    );
    rows.reverse();
    for part in rows.chunks(7) {
        store.write(part).await.expect("written");
    }
    assert_eq!(scan(&store, "a", everything()).await, sorted);
}

async fn a_window_holds_its_end_and_not_its_start<S: EventStore>(store: S) {
    store.prepare(everything()).await.expect("prepared");
    let rows = [
        row("a", -1, "t", 1),
        row("a", 0, "t", 2),
        row("a", 1, "t", 3),
    ];
    store.write(&rows).await.expect("written");
    let [before, at, after] = rows.map(|row| row.event);
    assert_eq!(scan(&store, "a", window(-1, 0)).await, slice::from_ref(&at));
    assert_eq!(
        scan(&store, "a", window(-2, -1)).await,
        slice::from_ref(&before)
    );
    assert_eq!(scan(&store, "a", window(-2, 0)).await, [before, at]);
    assert_eq!(scan(&store, "a", window(0, 1)).await, [after]);
    assert_eq!(scan(&store, "a", window(0, 0)).await, []);
    assert_eq!(scan(&store, "a", window(1, -1)).await, []);
    assert_eq!(scan(&store, "a", window(1, 2)).await, []);
}

async fn every_part_of_a_range_is_in_exactly_one_of_adjacent_windows<S: EventStore>(store: S) {
    store.prepare(everything()).await.expect("prepared");
    let rows: Vec<_> = (-20..20)
        .map(|n| row("a", n * SLICE / 10, &format!("t{}", n % 3), n))
        .collect();
    store.write(&rows).await.expect("written");
    let all: Vec<_> = rows.iter().map(|row| row.event.clone()).collect();
    for step in [SLICE / 10, SLICE / 7, SLICE, 3 * SLICE] {
        let mut joined = Vec::new();
        let mut after = -3 * SLICE;
        while after < 3 * SLICE {
            joined.extend(scan(&store, "a", window(after, after + step)).await);
            after += step;
        }
        assert_eq!(joined, all, "windows of {step} µs");
    }
}

async fn the_ends_of_time_are_no_windows_of_their_own<S: EventStore>(store: S) {
    store.prepare(everything()).await.expect("prepared");
    let row = row("a", 0, "t", 1);
    store.write(slice::from_ref(&row)).await.expect("written");
    assert_eq!(
        scan(&store, "a", window(i64::MIN, i64::MAX)).await,
        [row.event]
    );
    assert_eq!(scan(&store, "a", window(i64::MAX, i64::MAX)).await, []);
    assert_eq!(scan(&store, "a", window(i64::MIN, i64::MIN)).await, []);
}

async fn counters_do_not_mix<S: EventStore>(store: S) {
    store.prepare(everything()).await.expect("prepared");
    let names = ["a", "a\u{1}", "aa", "b", "A"];
    let mut rows: Vec<_> = names.iter().map(|name| row(name, 1, name, 1)).collect();
    let other = CounterKey {
        namespace: NamespaceId(2),
        ..counter("a")
    };
    rows.push(EventRow {
        counter: other,
        ..row("a", 2, "other", 1)
    });
    store.write(&rows).await.expect("written");
    for (name, row) in names.iter().zip(&rows) {
        assert_eq!(
            scan(&store, name, everything()).await,
            slice::from_ref(&row.event),
            "counter {name:?}"
        );
    }
}

async fn tokens_with_zero_bytes_stay_apart<S: EventStore>(store: S) {
    store.prepare(everything()).await.expect("prepared");
    let keys = [
        key(1, "a", ""),
        key(1, "a", "\0"),
        key(1, "a\0", ""),
        key(1, "a\0\u{1}", ""),
    ];
    let rows = keys.each_ref().map(|key| EventRow {
        counter: counter("a"),
        event: event(key.clone(), Mutation::Add(1), 1),
    });
    store.write(&rows).await.expect("written");
    let found = scan(&store, "a", everything()).await;
    assert_eq!(
        found.into_iter().map(|event| event.key).collect::<Vec<_>>(),
        keys
    );
}

async fn a_look_up_finds_one_identity_only<S: EventStore>(store: S) {
    store.prepare(everything()).await.expect("prepared");
    let row = row("a", 5, "token", 3);
    store.write(slice::from_ref(&row)).await.expect("written");
    let found = store
        .lookup(&counter("a"), &row.event.key)
        .await
        .expect("looked up");
    assert_eq!(found, Lookup::Stored(row.event));
    for absent in [
        key(5, "toke", ""),
        key(5, "tokens", ""),
        key(5, "token", "i"),
        key(6, "token", ""),
    ] {
        let found = store
            .lookup(&counter("a"), &absent)
            .await
            .expect("looked up");
        assert_eq!(found, Lookup::Absent, "{absent:?}");
    }
    let found = store
        .lookup(&counter("b"), &key(5, "token", ""))
        .await
        .expect("looked up");
    assert_eq!(found, Lookup::Absent);
}

async fn a_sync_after_writes_is_durable<S: EventStore>(store: S) {
    store.prepare(everything()).await.expect("prepared");
    store.write(&[row("a", 1, "t", 1)]).await.expect("written");
    let (a, b, c) = tokio::join!(store.sync(), store.sync(), store.sync());
    for durability in [a, b, c] {
        assert_eq!(durability.expect("synced"), Durability::Durable);
    }
}

async fn a_long_scan_loses_nothing_between_pages<S: EventStore>(store: S) {
    store.prepare(everything()).await.expect("prepared");
    // Many of one moment, so that pages end between tokens as well as between times.
    let rows: Vec<_> = (0..5_000)
        .map(|n| row("a", n / 700, &format!("t{n:04}"), n))
        .collect();
    store.write(&rows).await.expect("written");
    let all: Vec<_> = rows.into_iter().map(|row| row.event).collect();
    assert!(
        scan(&store, "a", everything()).await == all,
        "some were lost or out of order"
    );
}

async fn a_scan_ends_where_its_sink_breaks<S: EventStore>(store: S) {
    store.prepare(everything()).await.expect("prepared");
    let rows: Vec<_> = (-5..5).map(|n| row("a", n * SLICE / 2, "t", 1)).collect();
    store.write(&rows).await.expect("written");
    for most in 1..=rows.len() {
        let mut seen = Vec::new();
        let mut sink = |event| {
            seen.push(event);
            if seen.len() == most {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let scanned = store.scan(&counter("a"), everything(), &mut sink).await;
        scanned.expect("scanned");
        let expected: Vec<_> = rows[..most].iter().map(|row| row.event.clone()).collect();
        assert_eq!(seen, expected);
    }
}

async fn an_extent_covers_what_a_scan_reads<S: EventStore>(store: S) {
    let extent = async |window| store.extent(window).await.expect("told");
    assert_eq!(
        extent(everything()).await,
        Extent::default(),
        "there are no slices"
    );
    store.prepare(everything()).await.expect("prepared");
    assert_eq!(extent(window(5, 5)).await, Extent::default());
    let one = extent(window(0, 1)).await.partitions;
    assert!(
        (1..=4).contains(&one),
        "one time bucket with its event buckets: {one}"
    );
    let all = extent(everything()).await;
    assert!(all.partitions >= 6 * one && !all.has_dropped, "{all:?}");
    store.drop_slice(SliceId(1)).await.expect("dropped");
    let less = extent(everything()).await;
    assert!(
        less.partitions < all.partitions && less.has_dropped,
        "{less:?}"
    );
    assert!(!extent(window(0, SLICE - 1)).await.has_dropped);
}
