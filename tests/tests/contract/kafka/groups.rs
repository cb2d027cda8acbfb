//! Rebalances: partitions change hands once they are finished, and the others go on.

use super::{at, next_change, open};
use crate::log::{append, assigned, read_to_end, record, values};
use quipu_adapters::{
    kafka::KafkaConsumer,
    ports::{Consumer, Polled},
};
use std::time::Duration;

async fn revoked(consumer: &mut KafkaConsumer) -> u32 {
    match next_change(consumer).await {
        Polled::Revoked(partitions) if partitions.len() == 1 => partitions[0],
        other => panic!("{other:?} came instead of one revoked partition"),
    }
}

#[tokio::test]
async fn a_revoked_partition_changes_hands_once_it_is_finished_and_then_the_kept_one_goes_on() {
    let (log, _keep) = open().await;
    let both = || {
        ["a", "b"]
            .into_iter()
            .flat_map(|value| [record(0, value), record(1, value)])
    };
    append(&log, both().collect()).await;
    let group = log.settings.topics.events.clone();
    let mut first = log.join(&group).await;
    assert_eq!(assigned(&mut first).await.len(), 2);
    read_to_end(&mut first, &[0, 1]).await;

    let mut second = log.join(&group).await;
    let moving = revoked(&mut first).await;
    let kept = 1 - moving;
    append(&log, vec![record(0, "during"), record(1, "during")]).await;
    let early = tokio::time::timeout(Duration::from_millis(500), second.poll()).await;
    assert!(
        early.is_err(),
        "{early:?} came before the first member was finished"
    );

    let frontier = at(1, 5_000_000_000);
    first
        .commit(vec![(moving, frontier)])
        .await
        .expect("committed");
    first.release(vec![moving]);
    // The client reads nothing while a revocation is unanswered; then the kept one goes on.
    let read = read_to_end(&mut first, &[kept]).await;
    assert_eq!(values(&read[&kept]), ["during"]);
    assert!(
        !read.contains_key(&moving),
        "the revoked one brings nothing more"
    );
    let starts = assigned(&mut second).await;
    assert_eq!(starts.into_iter().collect::<Vec<_>>(), [(moving, frontier)]);
    let read = read_to_end(&mut second, &[moving]).await;
    assert_eq!(values(&read[&moving]), ["b", "during"]);
}

#[tokio::test]
async fn a_member_that_leaves_hands_all_it_has_to_the_other() {
    let (log, _keep) = open().await;
    let group = log.settings.topics.events.clone();
    let mut first = log.join(&group).await;
    assert_eq!(assigned(&mut first).await.len(), 2);
    let mut second = log.join(&group).await;
    let moving = revoked(&mut first).await;
    first.release(vec![moving]);
    let (starts, _) = tokio::join!(
        assigned(&mut second),
        tokio::time::timeout(Duration::from_secs(3), first.poll())
    );
    assert_eq!(starts.into_keys().collect::<Vec<_>>(), [moving]);
    drop(first);
    match next_change(&mut second).await {
        Polled::Assigned(partitions) => assert_eq!(partitions[0].partition, 1 - moving),
        other => panic!("{other:?} came"),
    }
}

#[tokio::test]
async fn a_member_that_dies_with_a_partition_to_hand_back_closes_all_the_same() {
    let (log, _keep) = open().await;
    let group = log.settings.topics.events.clone();
    let mut first = log.join(&group).await;
    assigned(&mut first).await;
    let mut second = log.join(&group).await;
    revoked(&mut first).await;
    let began = std::time::Instant::now();
    drop(first);
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "it took {:?}",
        began.elapsed()
    );
    let mut owned = 0;
    while owned < 2 {
        match next_change(&mut second).await {
            Polled::Assigned(partitions) => owned += partitions.len(),
            other => panic!("{other:?} came"),
        }
    }
}

#[tokio::test]
async fn commits_of_a_consumer_whose_group_has_moved_on_fail_without_harm() {
    let (log, _keep) = open().await;
    let group = log.settings.topics.events.clone();
    let mut zombie = log.join(&group).await;
    assigned(&mut zombie).await;
    zombie
        .commit(vec![(0, at(0, 7_000_000_000))])
        .await
        .expect("committed");
    let commit = zombie.commit(vec![(0, at(0, 1_000_000_000))]);
    drop(zombie);
    commit.await.expect_err("it has left the group");
    let starts = assigned(&mut log.join(&group).await).await;
    assert_eq!(starts[&0], at(0, 7_000_000_000));
}

#[tokio::test]
async fn a_consumer_that_nobody_polls_keeps_its_place_and_loses_nothing() {
    let (log, _keep) = open().await;
    let group = log.settings.topics.events.clone();
    let mut consumer = log.join(&group).await;
    assigned(&mut consumer).await;
    let value = "x".repeat(1_000);
    for _ in 0..10 {
        append(&log, (0..4_000).map(|_| record(0, &value)).collect()).await;
    }
    // Longer than its patience and its session: it has paused everything meanwhile.
    tokio::time::sleep(Duration::from_secs(8)).await;
    let mut offsets = Vec::new();
    while offsets.len() < 40_000 {
        // It may have been at the end before all was appended.
        let read = read_to_end(&mut consumer, &[0]).await;
        let records = read.get(&0).into_iter().flatten();
        offsets.extend(records.map(|record| record.offset));
    }
    assert_eq!(offsets, (0..40_000).collect::<Vec<_>>());
}
