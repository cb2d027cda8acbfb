//! Checkpoints, last writes and parked signals.

use crate::fixtures::{checkpoint, counter, embedded_rollups};
use quipu_adapters::ports::{Durability, ListPosition, Parked, RollupRow, RollupStore};
use quipu_core::{
    checkpoint::Checkpoint,
    event::{CounterKey, NamespaceId},
    time::Micros,
};

run_against!(
    [
        memory = crate::fixtures::memory_rollups,
        embedded = crate::fixtures::embedded_rollups
    ],
    [
        an_older_checkpoint_never_wins,
        a_later_generation_wins_over_a_later_time,
        checkpoints_hold_counts_beyond_64_bits,
        last_writes_only_move_forward,
        rows_come_in_the_order_asked,
        a_signal_is_parked_with_its_latest_write,
        a_later_write_stays_parked,
        parked_signals_come_in_pages_of_one_partition,
        a_sync_after_writes_is_durable,
        counters_are_listed_once_they_are_rolled_up,
        a_list_passes_over_any_number_of_other_counters,
    ],
    cluster [
        cassandra = crate::cassandra::rollups,
    ]
);

async fn load<S: RollupStore>(store: &S, name: &str) -> RollupRow {
    store.load(&[counter(name)]).await.expect("loaded")[0]
}

async fn put<S: RollupStore>(store: &S, name: &str, checkpoint: Checkpoint) -> Option<Checkpoint> {
    store
        .put(vec![(counter(name), checkpoint)])
        .await
        .expect("put");
    load(store, name).await.checkpoint
}

async fn an_older_checkpoint_never_wins<S: RollupStore>(store: S) {
    assert_eq!(load(&store, "a").await, RollupRow::default());
    let (old, new) = (checkpoint(0, 1, -5), checkpoint(0, 2, 5));
    assert_eq!(put(&store, "a", old).await, Some(old));
    assert_eq!(put(&store, "a", new).await, Some(new));
    assert_eq!(put(&store, "a", old).await, Some(new));
    let both = vec![
        (counter("b"), old),
        (counter("b"), new),
        (counter("b"), old),
    ];
    store.put(both).await.expect("put");
    assert_eq!(load(&store, "b").await.checkpoint, Some(new));
}

async fn a_later_generation_wins_over_a_later_time<S: RollupStore>(store: S) {
    let (first, recount) = (checkpoint(1, 7, 1_000), checkpoint(2, 6, 10));
    assert_eq!(put(&store, "a", first).await, Some(first));
    assert_eq!(put(&store, "a", recount).await, Some(recount));
    assert_eq!(put(&store, "a", first).await, Some(recount));
    assert_eq!(
        put(&store, "a", checkpoint(1, 8, 2_000)).await,
        Some(recount)
    );
}

async fn checkpoints_hold_counts_beyond_64_bits<S: RollupStore>(store: S) {
    for (count, time) in [
        (i128::MAX, i64::MIN),
        (0, -1),
        (-1, 0),
        (i128::MIN, i64::MAX),
    ] {
        let checkpoint = checkpoint(2_047, count, time);
        assert_eq!(put(&store, "a", checkpoint).await, Some(checkpoint));
    }
}

async fn last_writes_only_move_forward<S: RollupStore>(store: S) {
    for (write, expected) in [(-5, -5), (3, 3), (2, 3), (3, 3)] {
        let written = store
            .note_writes(vec![(counter("a"), Micros::new(write))])
            .await;
        written.expect("noted");
        let row = load(&store, "a").await;
        assert_eq!(
            row,
            RollupRow {
                checkpoint: None,
                last_write: Some(Micros::new(expected))
            }
        );
    }
}

async fn rows_come_in_the_order_asked<S: RollupStore>(store: S) {
    let (a, b) = (checkpoint(0, 1, 1), checkpoint(0, 2, 2));
    store
        .put(vec![(counter("a"), a), (counter("b"), b)])
        .await
        .expect("put");
    let asked = ["b", "missing", "a", "b"].map(counter);
    let rows = store.load(&asked).await.expect("loaded");
    let found: Vec<_> = rows.iter().map(|row| row.checkpoint).collect();
    assert_eq!(found, [Some(b), None, Some(a), Some(b)]);
}

fn parked(name: &str, last_write: i64) -> Parked {
    Parked {
        counter: counter(name),
        last_write: Micros::new(last_write),
    }
}

async fn a_signal_is_parked_with_its_latest_write<S: RollupStore>(store: S) {
    store
        .park(1, vec![parked("a", 5), parked("a", 7), parked("a", 6)])
        .await
        .expect("parked");
    store.park(1, vec![parked("a", 4)]).await.expect("parked");
    assert_eq!(
        store.parked(1, None, 9).await.expect("listed"),
        [parked("a", 7)]
    );
}

async fn a_later_write_stays_parked<S: RollupStore>(store: S) {
    store
        .park(1, vec![parked("a", 5), parked("b", 5), parked("c", 5)])
        .await
        .expect("parked");
    let finished = vec![
        parked("a", 4),
        parked("b", 5),
        parked("c", 6),
        parked("d", 1),
    ];
    store.unpark(1, finished).await.expect("unparked");
    store
        .unpark(2, vec![parked("a", 9)])
        .await
        .expect("unparked");
    assert_eq!(
        store.parked(1, None, 9).await.expect("listed"),
        [parked("a", 5)]
    );
}

async fn parked_signals_come_in_pages_of_one_partition<S: RollupStore>(store: S) {
    let signals = ["a", "a\u{1}", "aa", "b"].map(|name| parked(name, 1));
    store.park(255, signals.to_vec()).await.expect("parked");
    store
        .park(256, vec![parked("aaa", 1)])
        .await
        .expect("parked");
    store.park(0, vec![parked("aaa", 1)]).await.expect("parked");
    for limit in 1..=5 {
        let mut listed: Vec<Parked> = Vec::new();
        loop {
            let after = listed.last().map(|signal| signal.counter.clone());
            let page = store
                .parked(255, after.as_ref(), limit)
                .await
                .expect("listed");
            if page.is_empty() {
                break;
            }
            assert!(page.len() <= limit);
            listed.extend(page);
        }
        // The order is the store's own.
        listed.sort_by(|a, b| a.counter.cmp(&b.counter));
        assert_eq!(listed, signals, "pages of {limit}");
    }
    assert_eq!(store.parked(7, None, 9).await.expect("listed"), []);
}

async fn a_sync_after_writes_is_durable<S: RollupStore>(store: S) {
    store
        .put(vec![(counter("a"), checkpoint(0, 1, 1))])
        .await
        .expect("put");
    assert_eq!(store.sync().await.expect("synced"), Durability::Durable);
}

fn in_namespace(namespace: u32, name: &str) -> CounterKey {
    CounterKey {
        namespace: NamespaceId(namespace),
        ..counter(name)
    }
}

/// The sorted names of all pages, and how many pages there were.
async fn list<S: RollupStore>(store: &S, namespace: u32, limit: usize) -> (Vec<String>, usize) {
    let (mut names, mut pages, mut from) = (Vec::new(), 0, Some(ListPosition::START));
    while let Some(position) = from {
        let page = store
            .counters(NamespaceId(namespace), position, limit)
            .await;
        let page = page.expect("listed");
        assert!(page.counters.len() <= limit);
        names.extend(page.counters.iter().map(|name| name.as_str().to_owned()));
        (pages, from) = (pages + 1, page.next);
    }
    // The order is the store's own.
    names.sort();
    (names, pages)
}

async fn counters_are_listed_once_they_are_rolled_up<S: RollupStore>(store: S) {
    assert_eq!(list(&store, 1, 7).await, (Vec::new(), 1));
    let mut names: Vec<_> = (0..25).map(|n| format!("c/{n}")).collect();
    names.sort();
    let mine = names.iter().map(|name| in_namespace(1, name));
    let others = names
        .iter()
        .map(|name| in_namespace(2, &format!("other {name}")));
    let rows = mine
        .chain(others)
        .map(|counter| (counter, checkpoint(0, 1, 1)));
    store.put(rows.collect()).await.expect("put");
    let noted = vec![(in_namespace(1, "noted only"), Micros::new(5))];
    store.note_writes(noted).await.expect("noted");
    for limit in [1, 2, 7, 25, 1_000] {
        assert_eq!(list(&store, 1, limit).await.0, names, "pages of {limit}");
    }
    assert_eq!(list(&store, 3, 1_000).await.0, Vec::<String>::new());
}

async fn a_list_passes_over_any_number_of_other_counters<S: RollupStore>(store: S) {
    let others = (0..6_000).map(|n| in_namespace(2, &n.to_string()));
    let rows = others.chain([in_namespace(1, "mine")]);
    let rows = rows.map(|counter| (counter, checkpoint(0, 1, 1))).collect();
    store.put(rows).await.expect("put");
    let (names, pages) = list(&store, 1, 1_000).await;
    assert_eq!((names, pages), (vec!["mine".to_owned()], 2));
    let (names, pages) = list(&store, 2, 1_000).await;
    // Whether the last page is empty depends on where the one of the other namespace lies.
    assert_eq!(names.len(), 6_000);
    assert!((6..=7).contains(&pages), "{pages} pages");
}

#[tokio::test]
async fn an_embedded_store_is_the_same_after_it_was_opened_again() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let store = embedded_rollups(directory.path());
    let newest = checkpoint(3, -12, 99);
    store.put(vec![(counter("a"), newest)]).await.expect("put");
    store
        .note_writes(vec![(counter("a"), Micros::new(100))])
        .await
        .expect("noted");
    store.park(1, vec![parked("a", 100)]).await.expect("parked");
    store.sync().await.expect("synced");
    drop(store);
    let store = embedded_rollups(directory.path());
    let last_write = Some(Micros::new(100));
    assert_eq!(
        load(&store, "a").await,
        RollupRow {
            checkpoint: Some(newest),
            last_write
        }
    );
    assert_eq!(put(&store, "a", checkpoint(3, 5, 98)).await, Some(newest));
    assert_eq!(
        store.parked(1, None, 9).await.expect("listed"),
        [parked("a", 100)]
    );
}
