//! The node as a whole: reopening, clocks, and policy in the log's time.

use super::{Embedded, EmbeddedSettings, OpenError};
use crate::{
    clock::{Clock, ManualClock},
    ports::{
        Appended, Body, ChangeRequest, Committed, Consumer, ControlError, ControlPlane, LogError,
        NewRecord, Producer, Stamp, Topic,
    },
};
use quipu_core::{name::Namespace, time::Micros};
use quipu_schemas::namespace::NamespaceDocument;
use std::{fs, path::Path, time::Duration};

/// A test's beginning of time.
pub(super) const START: Micros = Micros::new(1_000_000_000);

pub(super) fn clock() -> (Clock, ManualClock) {
    Clock::manual(START)
}

pub(super) fn open(directory: &Path, clock: &Clock) -> Embedded {
    let mut settings = EmbeddedSettings::default();
    settings.log.segment_bytes = 4 << 10;
    Embedded::open(directory, settings, clock.clone()).unwrap()
}

/// Appends values to one partition of the events topic.
pub(super) async fn append(
    node: &Embedded,
    partition: u32,
    values: &[&str],
) -> Result<Vec<Appended>, LogError> {
    let record = |value: &&str| NewRecord {
        partition,
        body: Body::value((*value).to_owned()),
    };
    let records = values.iter().map(record).collect();
    node.producer().append(Topic::Events, records).await
}

/// Copies a directory as a killed process leaves it.
pub(super) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

fn name(text: &str) -> Namespace {
    Namespace::new(text).unwrap()
}

#[test]
fn a_directory_in_use_is_refused_and_free_again_after_the_drop() {
    let directory = tempfile::tempdir().unwrap();
    let (clock, _) = clock();
    let node = open(directory.path(), &clock);
    let second = Embedded::open(directory.path(), EmbeddedSettings::default(), clock.clone());
    assert!(matches!(second, Err(OpenError::InUse { .. })), "{second:?}");
    let consumer = node.consumer(Topic::Events, "ingest");
    drop(node);
    let second = Embedded::open(directory.path(), EmbeddedSettings::default(), clock.clone());
    assert!(matches!(second, Err(OpenError::InUse { .. })), "{second:?}");
    drop(consumer);
    open(directory.path(), &clock);
}

#[tokio::test]
async fn watermarks_start_from_what_ingest_committed() {
    let directory = tempfile::tempdir().unwrap();
    let (clock, _) = clock();
    let node = open(directory.path(), &clock);
    assert_eq!(node.watermarks().low(), START);
    append(&node, 0, &["a"]).await.unwrap();
    let mut consumer = node.consumer(Topic::Events, "ingest");
    let later = START + Duration::from_secs(9);
    let frontier = Committed {
        next_offset: 1,
        effective_time: later,
    };
    consumer.commit(vec![(0, frontier)]).await.unwrap();
    drop((consumer, node));
    let node = open(directory.path(), &clock);
    let watermarks = node.watermarks().subscribe().borrow().clone();
    let expected = [(0, later), (1, START), (2, START), (3, START)];
    assert_eq!(watermarks.iter().collect::<Vec<_>>(), expected);
    node.watermarks().publish(1, frontier);
    assert_ne!(
        *node.watermarks().subscribe().borrow(),
        watermarks,
        "all boards are one"
    );
}

#[tokio::test]
async fn the_number_of_partitions_is_settled_at_the_creation() {
    let directory = tempfile::tempdir().unwrap();
    let (clock, _) = clock();
    drop(open(directory.path(), &clock));
    let mut settings = EmbeddedSettings::default();
    settings.log.event_partitions = 9;
    let node = Embedded::open(directory.path(), settings, clock).unwrap();
    assert_eq!(node.producer().partitions(Topic::Events), 4);
    assert_eq!(node.producer().partitions(Topic::DeadLetters), 1);
}

#[tokio::test]
async fn effective_times_never_go_back_even_when_the_clock_does_over_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let (clock, hands) = clock();
    let node = open(directory.path(), &clock);
    hands.advance(Duration::from_mins(1));
    let first = append(&node, 0, &["a"]).await.unwrap()[0].append_time;
    assert_eq!(first, START + Duration::from_mins(1));
    drop(node);
    hands.step_to(Micros::new(5));
    let node = open(directory.path(), &clock);
    assert_eq!(
        append(&node, 1, &["b"]).await.unwrap()[0].append_time,
        first
    );
    let document = NamespaceDocument::with_defaults("later");
    let changed = node
        .control()
        .apply(document, ChangeRequest::default())
        .await
        .unwrap()
        .effective_from;
    assert_eq!(changed, first.succ());
    drop(node);
    let node = open(directory.path(), &clock);
    assert_eq!(
        append(&node, 1, &["c"]).await.unwrap()[0].append_time,
        changed
    );
}

#[tokio::test]
async fn a_clock_that_jumps_stops_the_log_until_it_is_back() {
    let directory = tempfile::tempdir().unwrap();
    let (clock, hands) = clock();
    let node = open(directory.path(), &clock);
    append(&node, 0, &["a"]).await.unwrap();
    hands.step_to(START + Duration::from_hours(24 * 365));
    assert!(matches!(
        append(&node, 0, &["b"]).await,
        Err(LogError::ClockJumped(_))
    ));
    let document = NamespaceDocument::with_defaults("never");
    let refused = node
        .control()
        .apply(document, ChangeRequest::default())
        .await;
    assert!(
        matches!(refused, Err(ControlError::Store(_))),
        "{refused:?}"
    );
    hands.step_to(START + Duration::from_secs(1));
    let appended = append(&node, 0, &["c"]).await.unwrap()[0];
    assert_eq!(
        (appended.offset, appended.append_time),
        (1, START + Duration::from_secs(1))
    );
}

#[tokio::test]
async fn a_change_separates_the_records_before_it_from_those_after() {
    let directory = tempfile::tempdir().unwrap();
    let (clock, _) = clock();
    let node = open(directory.path(), &clock);
    let before = append(&node, 0, &["a"]).await.unwrap()[0].append_time;
    let mut document = NamespaceDocument::with_defaults("default");
    document.accept_limit = Duration::from_mins(1);
    let policies = node.control().policies();
    let record = node
        .control()
        .apply(document.clone(), ChangeRequest::default())
        .await
        .unwrap();
    let after = append(&node, 0, &["b"]).await.unwrap()[0].append_time;
    assert!(before < record.effective_from && record.effective_from <= after);
    assert_eq!(record.version, 2);
    let book = policies.borrow().clone();
    assert_eq!(book.valid_through(), Micros::MAX);
    let life = book.history("default").unwrap().current().unwrap().clone();
    assert_eq!(life.limits_at(before).accept_limit, Duration::from_secs(5));
    assert_eq!(life.limits_at(after).accept_limit, Duration::from_mins(1));
    assert_eq!(
        node.control()
            .apply(document, ChangeRequest::default())
            .await
            .unwrap(),
        record,
        "nothing to change"
    );
    drop(node);
    let node = open(directory.path(), &clock);
    let reopened = node.control().policies().borrow().clone();
    assert_eq!(reopened.history("default"), book.history("default"));
    assert_eq!(node.control().list().await.unwrap(), [record]);
}

#[tokio::test]
async fn a_namespace_made_again_is_a_new_one_and_the_first_stays_in_the_history() {
    let directory = tempfile::tempdir().unwrap();
    let (clock, _) = clock();
    let node = open(directory.path(), &clock);
    let control = node.control();
    let default = name("default");
    control
        .delete(&default, ChangeRequest::default())
        .await
        .unwrap();
    assert!(matches!(
        control.delete(&default, ChangeRequest::default()).await,
        Err(ControlError::NotFound(_))
    ));
    assert!(matches!(
        control.show(&default).await,
        Err(ControlError::NotFound(_))
    ));
    drop((node, control));
    let node = open(directory.path(), &clock);
    let control = node.control();
    assert!(
        control.list().await.unwrap().is_empty(),
        "a deleted default stays deleted"
    );
    let document = NamespaceDocument::with_defaults("default");
    let record = control
        .apply(document, ChangeRequest::default())
        .await
        .unwrap();
    assert_eq!(record.version, 3, "no two versions of a name are alike");
    let book = control.policies().borrow().clone();
    let lives = book.history("default").unwrap().lives();
    assert_eq!(
        lives.iter().map(|life| life.id().0).collect::<Vec<_>>(),
        [1, 2]
    );
    assert_eq!(lives[0].created_at(), START);
    assert_eq!(lives[1].created_at(), record.effective_from);
}

#[tokio::test]
async fn an_image_of_a_killed_process_holds_everything_that_was_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let image = tempfile::tempdir().unwrap();
    let (clock, _) = clock();
    let node = open(directory.path(), &clock);
    let mut appended = Vec::new();
    for _ in 0..40 {
        appended.extend(append(&node, 2, &["x".repeat(300).as_str()]).await.unwrap());
    }
    let document = NamespaceDocument::with_defaults("kept");
    let kept = node
        .control()
        .apply(document, ChangeRequest::default())
        .await
        .unwrap();
    copy(directory.path(), image.path());
    drop(node);
    let node = open(image.path(), &clock);
    assert_eq!(node.producer().ends(Topic::Events), [0, 0, 40, 0]);
    let mut consumer = node.consumer(Topic::Events, "ingest");
    let records = super::log_tests::read_all(&mut consumer, 40).await;
    let read: Vec<_> = records
        .iter()
        .map(|(_, record)| (record.offset, record.stamp))
        .collect();
    let expected = appended
        .iter()
        .map(|at| (at.offset, Stamp::Log(at.append_time)));
    assert_eq!(read, expected.collect::<Vec<_>>());
    assert_eq!(node.control().show(&name("kept")).await.unwrap(), kept);
}
