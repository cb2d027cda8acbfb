//! The log as its producers and consumers see it.

use super::{
    Embedded, EmbeddedConsumer, OpenError,
    tests::{START, append, clock, copy, open},
};
use crate::ports::{
    Assignment, Body, Committed, Consumer, LogError, NewRecord, Polled, Producer, Record, Topic,
};
use std::time::Duration;

/// Polls until this many records have come.
pub(super) async fn read_all(consumer: &mut EmbeddedConsumer, count: usize) -> Vec<(u32, Record)> {
    let mut all = Vec::new();
    while all.len() < count {
        if let Polled::Records { partition, records } = consumer.poll().await.unwrap() {
            all.extend(records.into_iter().map(|record| (partition, record)));
        }
    }
    assert_eq!(all.len(), count);
    all
}

async fn assigned(consumer: &mut EmbeddedConsumer) -> Vec<Assignment> {
    match consumer.poll().await.unwrap() {
        Polled::Assigned(assigned) => assigned,
        other => panic!("the first poll assigns, but brought {other:?}"),
    }
}

/// The next poll, if it brings something at once.
async fn poll_now(consumer: &mut EmbeddedConsumer) -> Option<Polled> {
    let poll = tokio::time::timeout(Duration::from_millis(50), consumer.poll());
    poll.await.ok().map(Result::unwrap)
}

fn at(next_offset: u64) -> Committed {
    Committed {
        next_offset,
        effective_time: START,
    }
}

#[tokio::test]
async fn records_are_read_in_the_order_of_appends_and_offsets_go_on_after_a_reopening() {
    let directory = tempfile::tempdir().unwrap();
    let (clock, _) = clock();
    let node = open(directory.path(), &clock);
    append(&node, 1, &["a", "b"]).await.unwrap();
    let headers = vec![("reason".to_owned(), "late".into())];
    let body = Body::Data {
        value: "c".into(),
        headers,
    };
    let records = [body.clone(), Body::Tick].map(|body| NewRecord { partition: 1, body });
    node.producer()
        .append(Topic::Events, records.into())
        .await
        .unwrap();
    drop(node);
    let node = open(directory.path(), &clock);
    let next = append(&node, 1, &["d"]).await.unwrap();
    assert_eq!(next[0].offset, 4);
    let mut consumer = node.consumer(Topic::Events, "ingest");
    let read = read_all(&mut consumer, 5).await;
    let bodies: Vec<Body> = read.into_iter().map(|(_, record)| record.body).collect();
    let expected = [
        Body::value("a"),
        Body::value("b"),
        body,
        Body::Tick,
        Body::value("d"),
    ];
    assert_eq!(bodies, expected);
}

#[tokio::test]
async fn a_consumer_hears_of_each_end_once_and_wakes_when_records_come() {
    let directory = tempfile::tempdir().unwrap();
    let (clock, _) = clock();
    let node = open(directory.path(), &clock);
    let mut consumer = node.consumer(Topic::Events, "ingest");
    let start = assigned(&mut consumer).await;
    assert_eq!(start.len(), 4);
    assert!(start.iter().all(|assignment| assignment.start == at(0)));
    for partition in 0..4 {
        assert_eq!(
            poll_now(&mut consumer).await,
            Some(Polled::End { partition })
        );
    }
    assert_eq!(poll_now(&mut consumer).await, None);
    let (polled, appended) = tokio::join!(consumer.poll(), append(&node, 3, &["a"]));
    appended.unwrap();
    assert!(
        matches!(polled, Ok(Polled::Records { partition: 3, .. })),
        "{polled:?}"
    );
    assert_eq!(
        poll_now(&mut consumer).await,
        Some(Polled::End { partition: 3 })
    );
    assert_eq!(poll_now(&mut consumer).await, None);
}

#[tokio::test]
async fn a_paused_partition_waits_and_a_seek_reads_again() {
    let directory = tempfile::tempdir().unwrap();
    let (clock, _) = clock();
    let node = open(directory.path(), &clock);
    append(&node, 0, &["a", "b", "c"]).await.unwrap();
    let mut consumer = node.consumer(Topic::Events, "ingest");
    assigned(&mut consumer).await;
    consumer.pause(0);
    for partition in 1..4 {
        assert_eq!(
            poll_now(&mut consumer).await,
            Some(Polled::End { partition })
        );
    }
    assert_eq!(poll_now(&mut consumer).await, None);
    consumer.resume(0);
    assert_eq!(read_all(&mut consumer, 3).await.len(), 3);
    consumer.seek(0, 1);
    let again = read_all(&mut consumer, 2).await;
    assert_eq!(again[0].1.offset, 1);
    consumer.seek(0, 9);
    assert!(matches!(consumer.poll().await, Err(LogError::Damaged(_))));
}

#[tokio::test]
async fn callers_at_the_same_time_share_groups_and_each_gets_its_own_places() {
    let directory = tempfile::tempdir().unwrap();
    let (clock, _) = clock();
    let node = open(directory.path(), &clock);
    let appends = (0..200).map(|_| append(&node, 0, &["a", "b"]));
    let mut offsets = Vec::new();
    for appended in futures::future::join_all(appends).await {
        let appended = appended.unwrap();
        assert_eq!(appended[1].offset, appended[0].offset + 1);
        offsets.extend(appended.iter().map(|at| at.offset));
    }
    offsets.sort_unstable();
    assert_eq!(offsets, (0..400).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_record_over_the_limit_is_refused_and_nothing_is_appended() {
    let directory = tempfile::tempdir().unwrap();
    let (clock, _) = clock();
    let node = open(directory.path(), &clock);
    let huge = "x".repeat((1 << 20) + 1);
    let refused = append(&node, 0, &["a", &huge]).await;
    assert!(
        matches!(refused, Err(LogError::TooLarge { .. })),
        "{refused:?}"
    );
    assert_eq!(node.producer().ends(Topic::Events), [0; 4]);
}

#[tokio::test]
async fn a_committed_frontier_survives_and_never_goes_back() {
    let directory = tempfile::tempdir().unwrap();
    let (clock, _) = clock();
    let node = open(directory.path(), &clock);
    append(&node, 2, &["a", "b", "c"]).await.unwrap();
    let mut consumer = node.consumer(Topic::Events, "ingest");
    assigned(&mut consumer).await;
    consumer.commit(vec![(2, at(2))]).await.unwrap();
    consumer.commit(vec![(2, at(1))]).await.unwrap();
    let beyond = consumer.commit(vec![(2, at(4))]).await;
    assert!(matches!(beyond, Err(LogError::Damaged(_))), "{beyond:?}");
    assert_eq!(
        node.producer().backlog(Topic::Events, "ingest"),
        [0, 0, 1, 0]
    );
    drop((consumer, node));
    let node = open(directory.path(), &clock);
    let mut consumer = node.consumer(Topic::Events, "ingest");
    assert_eq!(assigned(&mut consumer).await[2].start, at(2));
    assert_eq!(read_all(&mut consumer, 1).await[0].1.offset, 2);
    assert_eq!(node.committed(Topic::Events, "other")[2], at(0));
}

/// Fills some segments of 4 KiB.
async fn fill(node: &Embedded, partition: u32, count: usize) {
    for _ in 0..count {
        append(node, partition, &["x".repeat(500).as_str()])
            .await
            .unwrap();
    }
}

/// Segments are dropped after a group was answered, and before the next one is written.
async fn sync_and_trim(node: &Embedded) {
    append(node, 3, &["synced"]).await.unwrap();
    append(node, 3, &["trimmed"]).await.unwrap();
}

#[tokio::test]
async fn segments_are_dropped_only_below_the_committed_frontiers_of_all_partitions() {
    let directory = tempfile::tempdir().unwrap();
    let (clock, _) = clock();
    let node = open(directory.path(), &clock);
    fill(&node, 0, 30).await;
    fill(&node, 1, 30).await;
    let mut consumer = node.consumer(Topic::Events, "ingest");
    assigned(&mut consumer).await;
    consumer.commit(vec![(1, at(30))]).await.unwrap();
    sync_and_trim(&node).await;
    assert_eq!(
        node.log_segments(Topic::Events),
        8,
        "partition 0 still needs the first segment"
    );
    consumer.commit(vec![(0, at(17))]).await.unwrap();
    assert_eq!(
        node.log_segments(Topic::Events),
        8,
        "the commit is not synced"
    );
    sync_and_trim(&node).await;
    assert_eq!(node.log_segments(Topic::Events), 6);
    consumer.seek(0, 17);
    let read = read_all(&mut consumer, 47).await;
    let first = read.iter().find(|(partition, _)| *partition == 0).unwrap();
    assert_eq!(first.1.offset, 17);
    drop((consumer, node));
    let node = open(directory.path(), &clock);
    assert_eq!(node.log_segments(Topic::Events), 6);
    let mut other = node.consumer(Topic::Events, "late");
    assigned(&mut other).await;
    let gone = other.poll().await;
    assert!(
        matches!(&gone, Err(LogError::Damaged(text)) if text.contains("begins at")),
        "{gone:?}"
    );
}

#[tokio::test]
async fn a_log_that_is_dropped_whole_still_knows_its_ends_and_its_time() {
    let directory = tempfile::tempdir().unwrap();
    let (clock, hands) = clock();
    let node = open(directory.path(), &clock);
    fill(&node, 0, 30).await;
    let mut consumer = node.consumer(Topic::Events, "ingest");
    assigned(&mut consumer).await;
    consumer.commit(vec![(0, at(30))]).await.unwrap();
    hands.advance(Duration::from_secs(9));
    fill(&node, 1, 9).await;
    drop((consumer, node));
    let image = tempfile::tempdir().unwrap();
    copy(directory.path(), image.path());
    hands.step_to(START);
    let node = open(image.path(), &clock);
    assert_eq!(node.producer().ends(Topic::Events), [30, 9, 0, 0]);
    let next = append(&node, 0, &["x"]).await.unwrap()[0];
    assert_eq!(
        (next.offset, next.append_time),
        (30, START + Duration::from_secs(9))
    );
}

#[tokio::test]
async fn a_frontier_beyond_the_end_is_damage() {
    let directory = tempfile::tempdir().unwrap();
    let (clock, _) = clock();
    let before = tempfile::tempdir().unwrap();
    let node = open(directory.path(), &clock);
    append(&node, 0, &["a"]).await.unwrap();
    copy(directory.path(), before.path());
    let mut consumer = node.consumer(Topic::Events, "ingest");
    assigned(&mut consumer).await;
    consumer.commit(vec![(0, at(1))]).await.unwrap();
    drop((consumer, node));
    let segment = fjall::Database::builder(directory.path().join("log"))
        .open()
        .unwrap();
    let events = segment
        .keyspace("events-0000000000000001", Default::default)
        .unwrap();
    let key = events.first_key_value().unwrap().key().unwrap();
    events.remove(key).unwrap();
    drop((events, segment));
    let settings = super::EmbeddedSettings::default();
    let opened = Embedded::open(directory.path(), settings, clock.clone());
    assert!(matches!(opened, Err(OpenError::Damaged(_))), "{opened:?}");
    open(before.path(), &clock);
}

#[tokio::test]
async fn consumers_that_lag_behind_memory_read_the_same_from_disk() {
    let directory = tempfile::tempdir().unwrap();
    let (clock, _) = clock();
    let mut settings = super::EmbeddedSettings::default();
    settings.log.segment_bytes = 64 << 10;
    settings.log.tail_bytes = 16 << 10;
    let node = Embedded::open(directory.path(), settings, clock).unwrap();
    let values: Vec<String> = (0..5_000).map(|number| format!("{number:0100}")).collect();
    for chunk in values.chunks(70) {
        let chunk: Vec<&str> = chunk.iter().map(String::as_str).collect();
        append(&node, 0, &chunk).await.unwrap();
    }
    assert!(node.log_segments(Topic::Events) > 5);
    let mut consumer = node.consumer(Topic::Events, "ingest");
    let read = read_all(&mut consumer, values.len()).await;
    for ((_, record), (offset, value)) in read.into_iter().zip((0..).zip(values)) {
        assert_eq!((record.offset, record.body), (offset, Body::value(value)));
    }
    consumer.seek(0, 1_234);
    assert_eq!(
        read_all(&mut consumer, 5_000 - 1_234).await[0].1.offset,
        1_234
    );
}

#[tokio::test]
async fn groups_over_all_partitions_keep_every_segment_s_offsets_together() {
    let directory = tempfile::tempdir().unwrap();
    let (clock, _) = clock();
    let node = open(directory.path(), &clock);
    let record = |number: u32| NewRecord {
        partition: number % 4,
        body: Body::value(format!("{number:0400}")),
    };
    for group in 0..50 {
        let records = (group * 10..group * 10 + 10).map(record).collect();
        node.producer()
            .append(Topic::Events, records)
            .await
            .unwrap();
    }
    assert!(node.log_segments(Topic::Events) > 20);
    drop(node);
    let node = open(directory.path(), &clock);
    let mut consumer = node.consumer(Topic::Events, "ingest");
    let read = read_all(&mut consumer, 500).await;
    for partition in 0..4 {
        let of_partition = read.iter().filter(|(at, _)| *at == partition);
        let bodies = of_partition.map(|(_, record)| record.body.clone());
        let expected = (0..500)
            .map(record)
            .filter(|record| record.partition == partition);
        assert!(
            bodies.eq(expected.map(|record| record.body)),
            "partition {partition}"
        );
    }
}

#[tokio::test]
async fn a_log_whose_thread_died_is_damaged_and_not_only_away() {
    let directory = tempfile::tempdir().unwrap();
    let (clock, _) = clock();
    let node = open(directory.path(), &clock);
    let defect = Box::new(|_| panic!("as by a defect"));
    let died = node.producer().change(defect).await;
    assert!(matches!(died, Err(LogError::Damaged(_))), "{died:?}");
    // Whoever tries again would wait for ever in a process that looks alive.
    let appended = append(&node, 0, &["a"]).await;
    assert!(
        matches!(appended, Err(LogError::Damaged(_))),
        "{appended:?}"
    );
    let mut consumer = node.consumer(Topic::Events, "ingest");
    let committed = consumer.commit(vec![(0, at(0))]).await;
    assert!(
        matches!(committed, Err(LogError::Damaged(_))),
        "{committed:?}"
    );
}

#[tokio::test]
async fn segments_of_many_small_batches_are_bounded_by_the_memory_that_they_take() {
    let directory = tempfile::tempdir().unwrap();
    let (clock, _) = clock();
    let node = open(directory.path(), &clock);
    for _ in 0..100 {
        let ticks = (0..4).map(|partition| NewRecord {
            partition,
            body: Body::Tick,
        });
        let ticks = ticks.collect();
        node.producer().append(Topic::Events, ticks).await.unwrap();
    }
    // Each of the 400 batches takes nearly 100 bytes of memory, and a segment holds 4 KiB.
    let segments = node.log_segments(Topic::Events);
    assert!(segments >= 7, "{segments}");
}
