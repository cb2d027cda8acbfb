//! Where a partition is read from on (R2).

use super::{at, next_change, open, raw};
use crate::log::{START, append, assigned, poll, read_to_end, record, values};
use quipu_adapters::{
    kafka::{KafkaConsumer, admin, watermarks},
    ports::{Assignment, Consumer, LogError, Polled, Producer, Topic},
    watermarks::WatermarkBoard,
};
use quipu_core::{time::Micros, watermark::Watermarks};
use rdkafka::{
    Offset, TopicPartitionList,
    admin::AdminOptions,
    consumer::{BaseConsumer, CommitMode, Consumer as _},
};
use std::{sync::Arc, time::Duration};

fn board() -> WatermarkBoard {
    WatermarkBoard::new(Watermarks::new([(0, START), (1, START)]))
}

#[tokio::test]
async fn without_metadata_the_newest_watermark_record_tells_where_to_start() {
    let (log, _keep) = open().await;
    append(&log, ["a", "b", "c"].map(|value| record(0, value)).to_vec()).await;
    let (published, followed) = (board(), board());
    tokio::spawn(watermarks::publish(log.producer.clone(), published.clone()));
    let follow = watermarks::follow(
        log.settings.clone(),
        log.registry.subscribe(),
        followed.clone(),
    );
    tokio::spawn(async move { follow.await.expect("the topic is there") });
    published.publish(0, at(1, 5_000_000_000));
    published.publish(0, at(2, 7_000_000_000));
    published.publish(1, at(0, 6_000_000_000));
    let mut seen = followed.subscribe();
    let low = Micros::new(6_000_000_000);
    let carried = seen.wait_for(|known| known.low() == Some(low));
    let carried = tokio::time::timeout(Duration::from_secs(10), carried).await;
    carried.expect("in time").expect("the board lives");

    // Somebody moved the group's offset with a tool: it tells no effective time.
    let group = &log.settings.topics.events;
    let client: BaseConsumer = raw().set("group.id", group).create().expect("a client");
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(group, 0, Offset::Offset(3))
        .expect("listed");
    client.commit(&list, CommitMode::Sync).expect("committed");
    let mut consumer = log.join(group).await;
    let starts = assigned(&mut consumer).await;
    assert_eq!(starts[&0], at(2, 7_000_000_000));
    assert_eq!(values(&read_to_end(&mut consumer, &[0]).await[&0]), ["c"]);
}

#[tokio::test]
async fn an_offset_out_of_range_stops_the_consumer_and_says_what_to_decide() {
    let (log, _keep) = open().await;
    append(&log, vec![record(0, "a")]).await;
    let group = log.settings.topics.events.clone();
    admin::set_frontier(&log.producer, &group, 0, at(9, 1))
        .await
        .expect("set");
    let mut consumer = log.join(&group).await;
    let refused = consumer.poll().await.expect_err("offset 9 is not there");
    let LogError::Damaged(text) = refused else {
        panic!("{refused:?}")
    };
    assert!(
        text.contains("offset 9 is due, but it has 0 to 1"),
        "{text}"
    );
    assert!(
        text.contains("quipu admin set-frontier --partition 0"),
        "{text}"
    );
    drop(consumer);
    admin::set_frontier(&log.producer, &group, 0, at(1, 77))
        .await
        .expect("decided");
    assert_eq!(assigned(&mut log.join(&group).await).await[&0], at(1, 77));
}

#[tokio::test]
async fn records_that_are_deleted_under_a_consumer_stop_it() {
    let (log, _keep) = open().await;
    append(&log, ["a", "b", "c"].map(|value| record(0, value)).to_vec()).await;
    let group = log.settings.topics.events.clone();
    let mut consumer = log.join(&group).await;
    assigned(&mut consumer).await;
    read_to_end(&mut consumer, &[0, 1]).await;
    delete_before(&group, 2).await;
    consumer.seek(0, 1);
    let refused = loop {
        match consumer.poll().await {
            Ok(Polled::End { .. }) => {}
            Ok(other) => panic!("{other:?} came"),
            Err(error) => break error.to_string(),
        }
    };
    assert!(
        refused.contains("offset 1 is due, but it has 2 to 3"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_partition_that_is_not_new_and_tells_no_time_is_refused() {
    let (log, _keep) = open().await;
    append(&log, ["a", "b"].map(|value| record(0, value)).to_vec()).await;
    let group = log.settings.topics.events.clone();
    delete_before(&group, 1).await;
    let refused = log
        .join(&group)
        .await
        .poll()
        .await
        .expect_err("its time is unknown");
    assert!(refused.to_string().contains("it is not new"), "{refused}");
}

async fn delete_before(topic: &str, offset: i64) {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, 0, Offset::Offset(offset))
        .expect("listed");
    let client = super::admin_client();
    client
        .delete_records(&list, &AdminOptions::new())
        .await
        .expect("deleted");
}

#[tokio::test]
async fn a_partition_that_nobody_registered_is_read_once_it_is() {
    let (log, _keep) = open().await;
    append(&log, vec![record(1, "early")]).await;
    log.registry.send_replace(Arc::new([(0, START)].into()));
    let follower = board();
    let follow = watermarks::follow(
        log.settings.clone(),
        log.registry.subscribe(),
        follower.clone(),
    );
    tokio::spawn(async move { follow.await.expect("the topic is there") });
    let mut consumer = log.join(&log.settings.topics.events).await;
    assert_eq!(
        assigned(&mut consumer)
            .await
            .into_keys()
            .collect::<Vec<_>>(),
        [0]
    );
    assert_eq!(poll(&mut consumer).await, Polled::End { partition: 0 });
    let more = tokio::time::timeout(Duration::from_millis(500), consumer.poll()).await;
    assert!(
        more.is_err(),
        "{more:?} came of a partition that is not registered"
    );
    for partition in [0, 1] {
        follower.publish(partition, at(1, 9_000_000_000));
    }
    assert_eq!(follower.low(), START, "nothing closes");

    let later = Micros::new(2_000_000_000);
    log.registry
        .send_replace(Arc::new([(0, START), (1, later)].into()));
    let start = at(0, later.get());
    let expected = Assignment {
        partition: 1,
        start,
    };
    assert_eq!(
        next_change(&mut consumer).await,
        Polled::Assigned(vec![expected])
    );
    assert_eq!(
        values(&read_to_end(&mut consumer, &[1]).await[&1]),
        ["early"]
    );
    let mut seen = follower.subscribe();
    while follower.low() == START {
        let woken = tokio::time::timeout(Duration::from_secs(15), seen.changed()).await;
        woken.expect("closing goes on").expect("the board lives");
    }
}

#[tokio::test]
async fn signals_are_read_from_the_beginning_by_a_new_group() {
    let (log, _keep) = open().await;
    let producer = log.producer.clone();
    let appended = producer
        .append(Topic::Signals, vec![record(1, "look")])
        .await;
    appended.expect("appended");
    let settings = log.settings.clone();
    let group = settings.topics.signals.clone();
    let consumer = KafkaConsumer::signals(settings, &group);
    let mut consumer = consumer.expect("joined");
    assigned(&mut consumer).await;
    assert_eq!(
        values(&read_to_end(&mut consumer, &[0, 1]).await[&1]),
        ["look"]
    );
}
