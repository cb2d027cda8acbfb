use super::{client, listen, token};
use crate::{
    Limits, Transport,
    gateway::MAX_ADD_STREAMS,
    serve,
    testing::{NS, START, World, best_effort::VIEWS},
};
use futures::channel::mpsc::{UnboundedSender, unbounded};
use prost::Message;
use quipu_schemas::v1::{self, counter_client::CounterClient};
use std::{collections::BTreeMap, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::oneshot,
    time::{sleep, timeout},
};
use tonic::{Code, Request, Status, Streaming, transport::Channel};
use tonic_types::StatusExt;

type Sending = UnboundedSender<v1::StreamAddRequest>;

async fn open(
    client: &mut CounterClient<Channel>,
) -> Result<(Sending, Streaming<v1::StreamAddResponse>), Status> {
    let (send, messages) = unbounded();
    let answers = client.stream_add_count(messages).await?;
    Ok((send, answers.into_inner()))
}

fn message(sequence: u64, namespace: &str, names: &[&str]) -> v1::StreamAddRequest {
    let item = |name: &&str| v1::BatchAddItem {
        counter_name: (*name).to_owned(),
        delta: 1,
        idempotency_token: Some(token(START)),
        item_key: String::new(),
    };
    v1::StreamAddRequest {
        sequence,
        namespace: namespace.to_owned(),
        items: names.iter().map(item).collect(),
    }
}

fn names(world: &World) -> Vec<String> {
    let events = world.appended_events();
    let names = events.iter().map(|event| event.counter.as_str().to_owned());
    names.collect()
}

fn assert_failed(answer: &v1::StreamAddResponse, code: Code, reason: &str) {
    let error = answer.error.as_ref().unwrap();
    assert_eq!(error.code, i32::from(code), "{error:?}");
    let info = tonic_types::pb::ErrorInfo::decode(&*error.details[0].value).unwrap();
    assert_eq!(info.reason, reason);
    assert!(answer.results.is_empty());
}

#[tokio::test]
async fn answers_come_when_they_are_ready_and_name_their_messages() {
    let world = World::new();
    let (send, mut answers) = open(&mut client(&world).await).await.unwrap();
    let held = world.hold_next_append();
    send.unbounded_send(message(9, NS, &["slow"])).unwrap();
    world.append_is_held().await;
    send.unbounded_send(message(3, NS, &["quick"])).unwrap();
    assert_eq!(answers.message().await.unwrap().unwrap().sequence, 3);
    // The end of the messages is not the end of the answers.
    drop(send);
    assert_eq!(names(&world), ["quick"]);
    drop(held);
    let last = answers.message().await.unwrap().unwrap();
    assert_eq!((last.sequence, last.results.len()), (9, 1));
    assert_eq!(last.results[0].status(), v1::MutationStatus::Accepted);
    assert!(answers.message().await.unwrap().is_none());
    assert_eq!(names(&world), ["quick", "slow"]);
}

#[tokio::test]
async fn bad_items_and_bad_messages_of_any_namespaces_fail_alone() {
    let world = World::with_best_effort();
    let (send, mut answers) = open(&mut client(&world).await).await.unwrap();
    for message in [
        message(1, NS, &["a", "", "b"]),
        message(2, "none", &["a"]),
        message(3, NS, &["a"; 1_001]),
        message(4, VIEWS, &["a", ""]),
        message(5, "", &["a"]),
        message(6, NS, &[]),
        message(7, NS, &["c"]),
    ] {
        send.unbounded_send(message).unwrap();
    }
    drop(send);
    let mut all = BTreeMap::new();
    while let Some(answer) = answers.message().await.unwrap() {
        assert!(all.insert(answer.sequence, answer).is_none());
    }
    assert_eq!(all.len(), 7);
    let codes = |sequence| {
        let results = all[&sequence].results.iter();
        let codes = results.map(|result| result.error.as_ref().map_or(0, |error| error.code));
        codes.collect::<Vec<_>>()
    };
    let invalid = i32::from(Code::InvalidArgument);
    assert_eq!(codes(1), [0, invalid, 0]);
    assert_failed(&all[&2], Code::NotFound, "UNKNOWN_NAMESPACE");
    assert_failed(&all[&3], Code::InvalidArgument, "TOO_MANY_ITEMS");
    assert_eq!(codes(4), [0, invalid]);
    assert_eq!(all[&4].results[0].idempotent, Some(false));
    assert_failed(&all[&5], Code::InvalidArgument, "INVALID_FIELD");
    assert_eq!((codes(6), &all[&6].error), (vec![], &None));
    assert_eq!(all[&7].results[0].idempotent, None);
    let mut names = names(&world);
    names.sort();
    assert_eq!(names, ["a", "b", "c"]);
}

#[tokio::test]
async fn a_client_that_takes_no_answers_is_read_no_further() {
    const MESSAGES: usize = 40;
    let world = World::new();
    let address = listen(&world).await;
    let channel = Channel::from_shared(format!("http://{address}")).unwrap();
    // Answers of a thousand tokens do not fit.
    let channel = channel.initial_stream_window_size(1_024);
    let mut client = CounterClient::new(channel.connect().await.unwrap());
    let (send, mut answers) = open(&mut client).await.unwrap();
    for sequence in 0..MESSAGES as u64 {
        let mut message = message(sequence, NS, &["a"; 1_000]);
        for item in &mut message.items {
            item.idempotency_token = None;
        }
        send.unbounded_send(message).unwrap();
    }
    let mut before = 0;
    let read = loop {
        sleep(Duration::from_millis(500)).await;
        let read = world.appended_events().len() / 1_000;
        if read > 0 && read == before {
            break read;
        }
        before = read;
    };
    // Eight are under way; the answers to some more are on their way.
    assert!((8..=12).contains(&read), "{read} messages");
    drop(send);
    let mut answered = 0;
    while let Some(answer) = answers.message().await.unwrap() {
        assert_eq!(answer.results.len(), 1_000);
        answered += 1;
    }
    assert_eq!(answered, MESSAGES);
    assert_eq!(world.appended_events().len(), 1_000 * MESSAGES);
}

#[tokio::test]
async fn a_shutdown_answers_what_was_taken_and_takes_no_more() {
    let world = World::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let shutdown = async { drop(stopped.await) };
    let (router, limits) = (world.router(), Limits::default());
    let serving = serve(listener, Transport::Plain, router, limits, shutdown);
    let serving = tokio::spawn(serving);
    let channel = Channel::from_shared(format!("http://{address}")).unwrap();
    let mut client = CounterClient::new(channel.connect().await.unwrap());
    let (send, mut answers) = open(&mut client).await.unwrap();
    let held = world.hold_next_append();
    send.unbounded_send(message(1, NS, &["taken"])).unwrap();
    world.append_is_held().await;
    stop.send(()).unwrap();
    while TcpStream::connect(address).await.is_ok() {
        sleep(Duration::from_millis(5)).await;
    }
    send.unbounded_send(message(2, NS, &["late"])).unwrap();
    sleep(Duration::from_millis(50)).await;
    drop(held);
    let answer = answers.message().await.unwrap().unwrap();
    assert_eq!((answer.sequence, answer.results.len()), (1, 1));
    let ended = answers.message().await.unwrap_err();
    assert_eq!(ended.code(), Code::Unavailable);
    assert_eq!(ended.get_details_error_info().unwrap().reason, "NOT_READY");
    assert_eq!(names(&world), ["taken"]);
    let drained = timeout(Duration::from_secs(5), serving).await;
    drained.expect("nothing is left to drain").unwrap().unwrap();
}

#[tokio::test]
async fn a_stream_ends_at_its_deadline() {
    let world = World::new();
    let _held = world.hold_next_append();
    let (send, messages) = unbounded();
    send.unbounded_send(message(1, NS, &["a"])).unwrap();
    let mut request = Request::new(messages);
    request.set_timeout(Duration::from_millis(300));
    let mut client = client(&world).await;
    let mut answers = client.stream_add_count(request).await.unwrap().into_inner();
    let ended = answers.message().await.unwrap_err();
    assert_eq!(ended.code(), Code::DeadlineExceeded, "{ended:?}");
}

#[tokio::test]
async fn streams_beyond_the_limit_are_told_to_come_back() {
    let world = World::new();
    let mut client = client(&world).await;
    let mut streams = Vec::new();
    for _ in 0..MAX_ADD_STREAMS {
        streams.push(open(&mut client).await.unwrap());
    }
    let refused = open(&mut client).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    assert_eq!(
        refused.get_details_error_info().unwrap().reason,
        "OVERLOADED"
    );
    let (send, mut answers) = streams.pop().unwrap();
    drop(send);
    assert!(answers.message().await.unwrap().is_none());
    open(&mut client).await.unwrap();
}
