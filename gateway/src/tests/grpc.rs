mod stream;

use crate::{
    Limits, Transport, serve,
    testing::{NS, START, World},
};
use prost::Message;
use quipu_core::time::Micros;
use quipu_schemas::{
    timestamp::to_proto,
    v1::{self, counter_client::CounterClient},
};
use std::{net::SocketAddr, time::Duration};
use tokio::net::TcpListener;
use tonic::{Code, transport::Channel};
use tonic_types::StatusExt;

async fn listen(world: &World) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(
        listener,
        Transport::Plain,
        world.router(),
        Limits::default(),
        std::future::pending(),
    ));
    address
}

async fn connect(world: &World) -> Channel {
    let address = listen(world).await;
    Channel::from_shared(format!("http://{address}"))
        .unwrap()
        .connect()
        .await
        .unwrap()
}

async fn client(world: &World) -> CounterClient<Channel> {
    CounterClient::new(connect(world).await)
}

fn token(time: Micros) -> v1::IdempotencyToken {
    v1::IdempotencyToken {
        token: "t".to_owned(),
        generation_time: Some(to_proto(time)),
    }
}

fn add(namespace: &str, name: &str, time: Micros) -> v1::AddCountRequest {
    v1::AddCountRequest {
        namespace: namespace.to_owned(),
        counter_name: name.to_owned(),
        delta: 1,
        idempotency_token: Some(token(time)),
        item_key: String::new(),
    }
}

#[tokio::test]
async fn calls_are_answered_over_a_socket() {
    let world = World::new();
    let mut client = client(&world).await;
    let added = client
        .add_count(add(NS, "a", START))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(added.status(), v1::MutationStatus::Accepted);
    let get = v1::GetCountRequest {
        namespace: NS.to_owned(),
        counter_name: "a".to_owned(),
        min_freshness: None,
    };
    let got = client.get_count(get).await.unwrap().into_inner();
    assert_eq!(got.count, 0);
    world.ingest().await;
    let lookup = v1::LookupEventRequest {
        namespace: NS.to_owned(),
        counter_name: "a".to_owned(),
        idempotency_token: Some(token(START)),
        item_key: String::new(),
    };
    let found = client.lookup_event(lookup).await.unwrap().into_inner();
    assert_eq!(found.outcome(), v1::EventOutcome::Stored);
}

#[tokio::test]
async fn failures_carry_their_reason_field_and_delay() {
    let world = World::new();
    let mut client = client(&world).await;
    let mut fail = async |request| client.add_count(request).await.unwrap_err();

    let status = fail(add(NS, "", START)).await;
    assert_eq!(status.code(), Code::InvalidArgument);
    let details = status.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "INVALID_FIELD");
    assert_eq!(
        details.bad_request().unwrap().field_violations[0].field,
        "counter_name"
    );

    let status = fail(add("none", "a", START)).await;
    assert_eq!(status.code(), Code::NotFound);
    assert_eq!(
        status.get_details_error_info().unwrap().reason,
        "UNKNOWN_NAMESPACE"
    );

    let ahead = START + Duration::from_secs(6);
    let status = fail(add(NS, "a", ahead)).await;
    assert_eq!(
        status.get_details_error_info().unwrap().reason,
        "TOO_FAR_AHEAD"
    );

    let mut no_time = add(NS, "a", START);
    no_time.idempotency_token.as_mut().unwrap().generation_time = None;
    assert_eq!(fail(no_time).await.code(), Code::InvalidArgument);

    world.hands.advance(Duration::from_secs(10));
    let status = fail(add(NS, "a", START)).await;
    assert_eq!(status.code(), Code::Unavailable);
    let details = status.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "WINDOW_OPEN");
    assert_eq!(
        details.retry_info().unwrap().retry_delay,
        Some(Duration::from_secs(1))
    );
}

#[tokio::test]
async fn a_bad_item_of_a_batch_has_a_status_of_its_own() {
    let world = World::new();
    let mut client = client(&world).await;
    let item = |name: &str| v1::BatchAddItem {
        counter_name: name.to_owned(),
        delta: 1,
        idempotency_token: Some(token(START)),
        item_key: String::new(),
    };
    let request = |items| v1::BatchAddCountRequest {
        namespace: NS.to_owned(),
        items,
    };
    let answer = client
        .batch_add_count(request(vec![item("a"), item(""), item("b")]))
        .await;
    let results = answer.unwrap().into_inner().results;
    assert_eq!(results[0].status(), v1::MutationStatus::Accepted);
    assert_eq!(results[2].status(), v1::MutationStatus::Accepted);
    let error = results[1].error.as_ref().unwrap();
    assert_eq!(error.code, i32::from(Code::InvalidArgument));
    let info = &error.details[0];
    assert_eq!(info.type_url, "type.googleapis.com/google.rpc.ErrorInfo");
    let info = tonic_types::pb::ErrorInfo::decode(&*info.value).unwrap();
    assert_eq!(info.reason, "INVALID_FIELD");

    let status = client
        .batch_add_count(request(vec![item("a"); 1_001]))
        .await
        .unwrap_err();
    assert_eq!(
        status.get_details_error_info().unwrap().reason,
        "TOO_MANY_ITEMS"
    );
    let mut large = add(NS, "a", START);
    large.item_key = "x".repeat(4 * 1024 * 1024);
    assert_eq!(
        client.add_count(large).await.unwrap_err().code(),
        Code::OutOfRange
    );
}

#[tokio::test]
async fn a_message_of_millions_of_empty_items_is_refused_before_it_is_read() {
    let world = World::new();
    let mut client = client(&world).await;
    let of = |items| v1::BatchAddCountRequest {
        namespace: NS.to_owned(),
        items: vec![v1::BatchAddItem::default(); items],
    };
    let refused = client.batch_add_count(of(2_000_000)).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("split it"), "{refused}");
    let counted = client.batch_add_count(of(1_001)).await.unwrap_err();
    let reason = counted.get_details_error_info().unwrap().reason;
    assert_eq!(reason, "TOO_MANY_ITEMS");
    let names = v1::BatchGetCountRequest {
        namespace: NS.to_owned(),
        counter_names: vec![String::new(); 2_000_000],
    };
    let refused = client.batch_get_count(names).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn health_and_unknown_services_are_answered() {
    let world = World::new();
    let channel = connect(&world).await;
    let mut health = tonic_health::pb::health_client::HealthClient::new(channel);
    let request = |service: &str| tonic_health::pb::HealthCheckRequest {
        service: service.into(),
    };
    let answer = health
        .check(request("quipu.v1.Counter"))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(answer.status, 1);
    assert_eq!(
        health.check(request("none")).await.unwrap_err().code(),
        Code::NotFound
    );
    let mut watch = health.watch(request("")).await.unwrap().into_inner();
    assert_eq!(watch.message().await.unwrap().unwrap().status, 1);
}
