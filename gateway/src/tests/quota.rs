use crate::{
    Failure, MutationRequest, TokenRequest,
    failure::reason,
    grpc::status,
    http::render,
    testing::{NS, START, World},
};
use axum::http::header;
use quipu_core::{
    event::Mutation,
    name::Namespace,
    policy::PolicyBook,
    quota::{ACTIVE_FOR, Quota},
    time::Micros,
};
use std::{num::NonZeroU32, sync::Arc, time::Duration};
use tonic::Code;
use tonic_types::StatusExt;

/// A world whose namespace has a quota.
fn world(writes_per_second: u32, active_counters: u32) -> World {
    let world = World::new();
    let history = world.policies.borrow().history(NS).unwrap().clone();
    let mut history = Arc::unwrap_or_clone(history);
    history.set_quota(Quota {
        writes_per_second: NonZeroU32::new(writes_per_second),
        active_counters: NonZeroU32::new(active_counters),
    });
    let name = Namespace::new(NS).unwrap();
    let book = PolicyBook::new([(name, history)], Micros::MAX);
    world.policies.send_replace(Arc::new(book));
    world
}

fn add(counter_name: &str, generation_time: Micros) -> MutationRequest<'_> {
    MutationRequest {
        counter_name,
        mutation: Mutation::Add(1),
        token: Some(TokenRequest {
            token: "t",
            generation_time,
        }),
        item_key: "",
    }
}

fn exceeded(failure: &Failure) -> Duration {
    assert_eq!(failure.code, Code::ResourceExhausted, "{failure:?}");
    assert_eq!(failure.reason, reason::QUOTA_EXCEEDED);
    failure.retry_after.unwrap()
}

#[tokio::test]
async fn writes_beyond_the_rate_wait_as_long_as_they_are_told() {
    let world = world(2, 0);
    let gateway = world.gateway();
    let write = || gateway.mutate(NS, add("a", world.clock.now()));
    write().await.unwrap();
    write().await.unwrap();
    let wait = exceeded(&write().await.unwrap_err());
    assert_eq!(wait, Duration::from_millis(500));
    assert_eq!(world.appended_events().len(), 2, "a refused write is none");
    world.pass(wait.saturating_sub(Duration::from_millis(1)));
    exceeded(&write().await.unwrap_err());
    world.pass(Duration::from_millis(1));
    write().await.unwrap();
}

#[tokio::test]
async fn a_batch_costs_its_items_and_is_taken_or_refused_as_one() {
    let world = world(10, 0);
    let gateway = world.gateway();
    let batch = |size: usize| vec![Ok(add("a", START)); size];
    let taken = gateway.batch_add(NS, batch(7)).await.unwrap();
    assert!(taken.iter().all(Result::is_ok));
    let wait = exceeded(&gateway.batch_add(NS, batch(4)).await.unwrap_err());
    assert_eq!(wait, Duration::from_millis(100));
    assert_eq!(gateway.batch_add(NS, batch(3)).await.unwrap().len(), 3);
    assert_eq!(world.appended_events().len(), 10);
}

#[tokio::test]
async fn a_counter_too_many_is_refused_and_the_active_go_on() {
    let world = world(0, 2);
    let gateway = world.gateway();
    let write = |name| gateway.mutate(NS, add(name, world.clock.now()));
    assert_eq!(write("").await.unwrap_err().reason, reason::INVALID_FIELD);
    write("a").await.unwrap();
    write("b").await.unwrap();
    let wait = exceeded(&write("c").await.unwrap_err());
    assert_eq!(wait, ACTIVE_FOR);
    write("a").await.unwrap();
    let items = ["a", "c", "b"].map(|name| Ok(add(name, START)));
    let results = gateway.batch_add(NS, items.into()).await.unwrap();
    assert!(results[0].is_ok() && results[2].is_ok());
    exceeded(results[1].as_ref().unwrap_err());
    world.pass(wait);
    write("c").await.unwrap();
}

#[tokio::test]
async fn a_namespace_without_a_quota_and_reads_are_not_bounded() {
    let unbounded = World::new();
    let gateway = unbounded.gateway();
    for number in 0..100 {
        let name = format!("a{number}");
        gateway.mutate(NS, add(&name, START)).await.unwrap();
    }
    let bounded = world(1, 1);
    let gateway = bounded.gateway();
    gateway.mutate(NS, add("a", START)).await.unwrap();
    for number in 0..100 {
        let name = format!("a{number}");
        let read = gateway.get(NS, &name).await.unwrap();
        assert_eq!(read.count, 0);
    }
}

#[tokio::test]
async fn a_refusal_says_whose_quota_it_is_and_when_there_is_room() {
    let world = world(1, 0);
    let gateway = world.gateway();
    gateway.mutate(NS, add("a", START)).await.unwrap();
    world.pass(Duration::from_millis(250));
    let refused = gateway.mutate(NS, add("a", START)).await;
    let failure = refused.unwrap_err();
    let details = status(&failure).get_error_details();
    let retry = details.retry_info().unwrap().retry_delay;
    assert_eq!(retry, Some(Duration::from_millis(750)));
    let violation = &details.quota_failure().unwrap().violations[0];
    assert_eq!(
        violation.subject,
        format!("namespaces/{NS}/quota/writes_per_second")
    );
    let response = render(&failure);
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()[header::RETRY_AFTER], "1");
}
