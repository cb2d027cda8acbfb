use super::*;
use crate::{
    auth::Caller,
    testing::{NS, World},
};
use axum::http::Extensions;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use quipu_schemas::v1::BatchAddItem;
use std::pin::Pin;
use tokio::{sync::Semaphore, time::sleep};
use tonic_types::StatusExt;

const BOUNDS: Bounds = Bounds {
    messages: 4,
    items: 1_000,
    bytes: 1 << 20,
    silence: Duration::from_millis(200),
    message: Duration::from_millis(100),
};

type Answers = Pin<Box<dyn Stream<Item = Result<StreamAddResponse, Status>> + Send>>;
type Sending = UnboundedSender<Result<StreamAddRequest, Status>>;

/// A stream, its answers, and the room that it takes one of.
fn open(world: &World) -> (Sending, Answers, Arc<Semaphore>) {
    let mut extensions = Extensions::new();
    extensions.insert(Caller::Anyone);
    let room = Arc::new(Semaphore::new(1));
    let terms = Terms {
        caller: LastingCaller::of(&extensions),
        closing: Closing::of(&extensions),
        time: None,
        bounds: BOUNDS,
        room: Arc::clone(&room).try_acquire_owned().unwrap(),
    };
    let (send, messages) = unbounded();
    let answers = answers(world.served(), terms, messages);
    (send, Box::pin(answers), room)
}

fn message(sequence: u64) -> StreamAddRequest {
    let item = BatchAddItem {
        counter_name: "a".to_owned(),
        delta: 1,
        ..BatchAddItem::default()
    };
    StreamAddRequest {
        sequence,
        namespace: NS.to_owned(),
        items: vec![item],
    }
}

fn assert_silent(ended: &Status) {
    assert_eq!(ended.code(), Code::DeadlineExceeded, "{ended:?}");
    assert_eq!(ended.get_details_error_info().unwrap().reason, "TIMED_OUT");
    assert!(ended.message().contains("no answer was taken"));
}

#[tokio::test]
async fn a_silent_stream_ends() {
    let (send, mut answers, room) = open(&World::new());
    send.unbounded_send(Ok(message(1))).unwrap();
    assert_eq!(answers.next().await.unwrap().unwrap().sequence, 1);
    assert_silent(&answers.next().await.unwrap().unwrap_err());
    assert!(answers.next().await.is_none());
    assert!(send.is_closed());
    assert_eq!(room.available_permits(), 1);
}

#[tokio::test]
async fn without_anybody_who_takes_answers_a_bounded_number_is_read_and_the_stream_ends() {
    let world = World::new();
    let (send, answers, room) = open(&world);
    for sequence in 0..100 {
        send.unbounded_send(Ok(message(sequence))).unwrap();
    }
    sleep(BOUNDS.silence / 2).await;
    // One more than may be under way: its answer is on its way to the client.
    assert_eq!(world.appended_events().len(), BOUNDS.messages + 1);
    assert_eq!(room.available_permits(), 0);
    sleep(BOUNDS.silence).await;
    assert!(send.is_closed(), "nobody reads any more");
    assert_eq!(room.available_permits(), 1);
    let left: Vec<_> = answers.collect().await;
    assert_eq!(left.len(), 2, "an answer, and how it ended");
    assert_silent(left[1].as_ref().unwrap_err());
    assert_eq!(world.appended_events().len(), BOUNDS.messages + 1);
}

#[tokio::test]
async fn a_stream_lasts_for_as_long_as_messages_come() {
    let (send, mut answers, _room) = open(&World::new());
    for sequence in 0..6 {
        sleep(BOUNDS.silence / 3).await;
        send.unbounded_send(Ok(message(sequence))).unwrap();
        assert_eq!(answers.next().await.unwrap().unwrap().sequence, sequence);
    }
    drop(send);
    assert!(answers.next().await.is_none());
}

#[tokio::test]
async fn a_message_that_takes_too_long_fails_alone() {
    let world = World::new();
    let (send, mut answers, _room) = open(&world);
    let _held = world.hold_next_append();
    send.unbounded_send(Ok(message(1))).unwrap();
    let answer = answers.next().await.unwrap().unwrap();
    let error = answer.error.unwrap();
    assert_eq!(error.code, i32::from(Code::DeadlineExceeded));
    send.unbounded_send(Ok(message(2))).unwrap();
    let answer = answers.next().await.unwrap().unwrap();
    assert_eq!((answer.sequence, answer.error), (2, None));
}

#[tokio::test]
async fn a_stream_whose_messages_break_off_answers_what_it_took() {
    let world = World::new();
    let (send, answers, _room) = open(&world);
    send.unbounded_send(Ok(message(1))).unwrap();
    send.unbounded_send(Err(Status::out_of_range("too large")))
        .unwrap();
    send.unbounded_send(Ok(message(2))).unwrap();
    let all: Vec<_> = answers.collect().await;
    assert_eq!(all.len(), 2);
    assert_eq!(all[0].as_ref().unwrap().sequence, 1);
    assert_eq!(all[1].as_ref().unwrap_err().code(), Code::OutOfRange);
    assert_eq!(world.appended_events().len(), 1);
}

#[tokio::test]
async fn a_client_that_leaves_takes_its_stream_with_it() {
    let world = World::new();
    let (send, answers, room) = open(&world);
    let held = world.hold_next_append();
    send.unbounded_send(Ok(message(1))).unwrap();
    world.append_is_held().await;
    drop(answers);
    sleep(Duration::from_millis(20)).await;
    assert!(held.is_closed(), "nobody waits for the append");
    assert!(send.is_closed());
    assert_eq!(room.available_permits(), 1);
}
