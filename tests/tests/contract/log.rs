//! The log: appends, polls, commits.

use bytes::Bytes;
use quipu_adapters::{
    clock::{Clock, ManualClock},
    embedded::{Embedded, EmbeddedConsumer, EmbeddedProducer, EmbeddedSettings, LogSettings},
    memory::{MemoryConsumer, MemoryLog},
    ports::{
        Appended, Body, Committed, Consumer, NewRecord, Polled, Producer, Record, Stamp, Topic,
    },
};
use quipu_core::time::Micros;
use std::{collections::BTreeMap, path::Path, time::Duration};

pub(crate) const START: Micros = Micros::new(1_000_000_000);

/// A log of two partitions that were registered at [`START`].
pub(crate) trait LogUnderTest {
    type Producer: Producer;
    type Consumer: Consumer;
    async fn producer(&self) -> Self::Producer;
    async fn consumer(&self) -> Self::Consumer;
}

/// A log whose clock the test sets.
trait Clocked: LogUnderTest {
    fn clock(&self) -> &ManualClock;
}

struct InMemory(MemoryLog, ManualClock);

fn memory_log(_: &Path) -> InMemory {
    let (clock, hands) = Clock::manual(START);
    InMemory(MemoryLog::new(clock, 2), hands)
}

impl Clocked for InMemory {
    fn clock(&self) -> &ManualClock {
        &self.1
    }
}

impl LogUnderTest for InMemory {
    type Producer = MemoryLog;
    type Consumer = MemoryConsumer;

    async fn producer(&self) -> MemoryLog {
        self.0.clone()
    }

    async fn consumer(&self) -> MemoryConsumer {
        self.0.consumer(Topic::Events)
    }
}

struct OnDisk(Embedded, ManualClock);

fn embedded_log(directory: &Path) -> OnDisk {
    let (clock, hands) = Clock::manual(START);
    let log = LogSettings {
        event_partitions: 2,
        ..LogSettings::default()
    };
    let settings = EmbeddedSettings {
        log,
        ..EmbeddedSettings::default()
    };
    OnDisk(
        Embedded::open(directory, settings, clock).expect("the node opens"),
        hands,
    )
}

impl Clocked for OnDisk {
    fn clock(&self) -> &ManualClock {
        &self.1
    }
}

impl LogUnderTest for OnDisk {
    type Producer = EmbeddedProducer;
    type Consumer = EmbeddedConsumer;

    async fn producer(&self) -> EmbeddedProducer {
        self.0.producer()
    }

    async fn consumer(&self) -> EmbeddedConsumer {
        self.0.consumer(Topic::Events, "test")
    }
}

run_against!(
    [memory = super::memory_log, embedded = super::embedded_log],
    [
        a_new_consumer_is_given_every_partition_from_its_beginning,
        records_come_back_as_they_were_appended,
        the_end_is_told_each_time_it_is_reached,
        a_consumer_starts_where_the_last_one_committed,
        a_seek_reads_again,
        a_paused_partition_waits_while_others_go_on,
        a_poll_waits_for_the_next_append,
        the_ends_of_partitions_are_known,
    ],
    cluster[kafka = crate::kafka::open],
);

mod clocked {
    run_against!(
        [
            memory = super::super::memory_log,
            embedded = super::super::embedded_log
        ],
        [append_times_never_go_back]
    );
    use super::append_times_never_go_back;
}

pub(crate) fn record(partition: u32, value: &str) -> NewRecord {
    NewRecord {
        partition,
        body: Body::value(value.to_owned()),
    }
}

pub(crate) async fn append<L: LogUnderTest>(log: &L, records: Vec<NewRecord>) -> Vec<Appended> {
    log.producer()
        .await
        .append(Topic::Events, records)
        .await
        .expect("appended")
}

pub(crate) async fn poll<C: Consumer>(consumer: &mut C) -> Polled {
    let polled = tokio::time::timeout(Duration::from_secs(10), consumer.poll()).await;
    polled.expect("something to know").expect("polled")
}

pub(crate) async fn assigned<C: Consumer>(consumer: &mut C) -> BTreeMap<u32, Committed> {
    match poll(consumer).await {
        Polled::Assigned(partitions) => partitions
            .into_iter()
            .map(|assigned| (assigned.partition, assigned.start))
            .collect(),
        other => panic!("{other:?} came before the assignment"),
    }
}

/// Polls until it has read these partitions to their ends.
pub(crate) async fn read_to_end<C: Consumer>(
    consumer: &mut C,
    partitions: &[u32],
) -> BTreeMap<u32, Vec<Record>> {
    let mut read: BTreeMap<u32, Vec<Record>> = BTreeMap::new();
    let mut open = partitions.to_vec();
    while !open.is_empty() {
        match poll(consumer).await {
            Polled::Records { partition, records } => {
                assert!(
                    !records.is_empty(),
                    "a poll brings records or says something else"
                );
                read.entry(partition).or_default().extend(records);
            }
            Polled::End { partition } => open.retain(|other| *other != partition),
            other => panic!("{other:?} was not expected"),
        }
    }
    read
}

pub(crate) fn values(records: &[Record]) -> Vec<String> {
    let value = |record: &Record| match &record.body {
        Body::Data { value, .. } => String::from_utf8_lossy(value).into_owned(),
        Body::Tick => "tick".to_owned(),
    };
    records.iter().map(value).collect()
}

async fn a_new_consumer_is_given_every_partition_from_its_beginning<L: LogUnderTest>(log: L) {
    assert_eq!(log.producer().await.partitions(Topic::Events), 2);
    let starts = assigned(&mut log.consumer().await).await;
    let beginning = Committed {
        next_offset: 0,
        effective_time: START,
    };
    assert_eq!(starts, BTreeMap::from([(0, beginning), (1, beginning)]));
}

async fn records_come_back_as_they_were_appended<L: LogUnderTest>(log: L) {
    let body = Body::Data {
        value: Bytes::from_static(b"\0value"),
        headers: vec![
            ("h".to_owned(), Bytes::from_static(b"1")),
            ("h".to_owned(), Bytes::new()),
        ],
    };
    let records = vec![
        NewRecord { partition: 1, body },
        record(0, ""),
        NewRecord {
            partition: 1,
            body: Body::Tick,
        },
    ];
    let appended = append(&log, records.clone()).await;
    assert_eq!(appended.len(), records.len());
    assert!(appended[0].offset < appended[2].offset, "offsets rise");
    let mut consumer = log.consumer().await;
    assigned(&mut consumer).await;
    let read = read_to_end(&mut consumer, &[0, 1]).await;
    for (record, appended) in records.into_iter().zip(appended) {
        let Appended {
            partition,
            offset,
            append_time,
        } = appended;
        assert_eq!(partition, record.partition);
        let expected = Record {
            offset,
            stamp: Stamp::Log(append_time),
            body: record.body,
        };
        assert!(
            read[&partition].contains(&expected),
            "{expected:?} is not in {read:?}"
        );
    }
}

async fn the_end_is_told_each_time_it_is_reached<L: LogUnderTest>(log: L) {
    let mut consumer = log.consumer().await;
    assigned(&mut consumer).await;
    assert!(read_to_end(&mut consumer, &[0, 1]).await.is_empty());
    for value in ["a", "b"] {
        append(&log, vec![record(0, value)]).await;
        let read = read_to_end(&mut consumer, &[0]).await;
        assert_eq!(values(&read[&0]), [value]);
    }
    let more = tokio::time::timeout(Duration::from_millis(50), consumer.poll()).await;
    assert!(more.is_err(), "{more:?} came, though nothing happened");
}

async fn append_times_never_go_back<L: Clocked>(log: L) {
    log.clock().advance(Duration::from_secs(1));
    let first = append(&log, vec![record(0, "a"), record(0, "b")]).await;
    assert_eq!(first[0].append_time, START + Duration::from_secs(1));
    log.clock().step_to(START);
    let second = append(&log, vec![record(0, "c")]).await;
    assert!(second[0].append_time >= first[1].append_time);
}

async fn a_consumer_starts_where_the_last_one_committed<L: LogUnderTest>(log: L) {
    let appended = append(&log, ["a", "b", "c"].map(|value| record(0, value)).to_vec()).await;
    let mut consumer = log.consumer().await;
    assigned(&mut consumer).await;
    read_to_end(&mut consumer, &[0, 1]).await;
    let frontier = Committed {
        next_offset: appended[1].offset,
        effective_time: START + Duration::from_micros(7),
    };
    consumer
        .commit(vec![(0, frontier)])
        .await
        .expect("committed");
    drop(consumer);
    let mut consumer = log.consumer().await;
    let starts = assigned(&mut consumer).await;
    assert_eq!(starts[&0], frontier);
    assert_eq!(starts[&1].next_offset, 0);
    let read = read_to_end(&mut consumer, &[0, 1]).await;
    assert_eq!(values(&read[&0]), ["b", "c"]);
}

async fn a_seek_reads_again<L: LogUnderTest>(log: L) {
    let appended = append(&log, ["a", "b", "c"].map(|value| record(1, value)).to_vec()).await;
    let mut consumer = log.consumer().await;
    assigned(&mut consumer).await;
    read_to_end(&mut consumer, &[0, 1]).await;
    consumer.seek(1, appended[1].offset);
    let read = read_to_end(&mut consumer, &[1]).await;
    assert_eq!(values(&read[&1]), ["b", "c"]);
}

async fn a_paused_partition_waits_while_others_go_on<L: LogUnderTest>(log: L) {
    let mut consumer = log.consumer().await;
    assigned(&mut consumer).await;
    read_to_end(&mut consumer, &[0, 1]).await;
    consumer.pause(0);
    append(&log, vec![record(0, "held"), record(1, "on")]).await;
    let read = read_to_end(&mut consumer, &[1]).await;
    assert_eq!(values(&read[&1]), ["on"]);
    assert!(!read.contains_key(&0), "partition 0 is paused");
    consumer.resume(0);
    let read = read_to_end(&mut consumer, &[0]).await;
    assert_eq!(values(&read[&0]), ["held"]);
}

async fn the_ends_of_partitions_are_known<L: LogUnderTest>(log: L) {
    let mut consumer = log.consumer().await;
    assigned(&mut consumer).await;
    assert_eq!(consumer.ends().await, BTreeMap::from([(0, 0), (1, 0)]));
    let appended = append(&log, ["a", "b"].map(|value| record(1, value)).to_vec()).await;
    let ends = consumer.ends().await;
    assert_eq!(ends, BTreeMap::from([(0, 0), (1, appended[1].offset + 1)]));
}

async fn a_poll_waits_for_the_next_append<L: LogUnderTest>(log: L) {
    let mut consumer = log.consumer().await;
    assigned(&mut consumer).await;
    read_to_end(&mut consumer, &[0, 1]).await;
    // A poll that was given up loses nothing.
    let waited = tokio::time::timeout(Duration::from_millis(20), consumer.poll()).await;
    assert!(waited.is_err());
    let (polled, _) = tokio::join!(poll(&mut consumer), append(&log, vec![record(1, "late")]));
    let Polled::Records {
        partition: 1,
        records,
    } = polled
    else {
        panic!("{polled:?} came")
    };
    assert_eq!(values(&records), ["late"]);
}
