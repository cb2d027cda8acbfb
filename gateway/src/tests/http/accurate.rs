use super::{Answer, add, path, post, send, token};
use crate::{
    AddedCount, Deadline, MutationRequest, Status, TokenRequest,
    accurate::{LiveRead, NotLive, ScanBounds, live},
    testing::{NS, START, World, counter},
};
use axum::{body::Body, http::Request};
use quipu_adapters::ports::{Cache, EventStore, RollupStore};
use quipu_core::{
    aggregate::Count,
    checkpoint::{Checkpoint, Generation},
    event::Mutation,
    name::Namespace,
    policy::Mode,
    time::Micros,
    window::Window,
};
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tower::ServiceExt;

const SOON: Duration = Duration::from_millis(100);

fn checkpoint(count: i128, last_rollup: Micros) -> Checkpoint {
    Checkpoint {
        generation: Generation::default(),
        count: Count::new(count),
        last_rollup,
    }
}

fn move_to(world: &World, mode: Mode) {
    world.policies.send_modify(|book| {
        let mut changed = (**book).clone();
        let mut history = (**changed.history(NS).unwrap()).clone();
        history.newest_mut().set_mode(mode).unwrap();
        changed.insert(Namespace::new(NS).unwrap(), history);
        *book = Arc::new(changed);
    });
}

fn accurate() -> World {
    let world = World::new();
    move_to(&world, Mode::Accurate);
    world
}

#[tokio::test]
async fn a_read_adds_everything_stored_since_to_the_checkpoint_clears_included() {
    let world = accurate();
    let closed = START - Duration::from_secs(5);
    let rolled = checkpoint(41, closed);
    world
        .rollups
        .put(vec![(counter("a"), rolled)])
        .await
        .unwrap();
    post(&world, &path("counters/a:add"), add(3, START)).await;
    let read = async || send(&world, "GET", &path("counters/a"), "").await.body;
    let expected =
        |count: &str| json!({"count": count, "complete_through": "2026-01-31T11:59:55Z"});
    assert_eq!(read().await, expected("41"), "it is in the log only");
    world.ingest().await;
    assert_eq!(read().await, expected("44"));
    let clear = json!({"idempotency_token": token("t", START.succ())});
    post(&world, &path("counters/a:clear"), clear).await;
    post(
        &world,
        &path("counters/a:add"),
        add(7, START + Duration::from_secs(4)),
    )
    .await;
    world.ingest().await;
    assert_eq!(read().await, expected("7"), "up to what may be ahead");
    assert_eq!(world.cached("a"), Some(rolled), "nothing new is cached");
    move_to(&world, Mode::EventuallyConsistent);
    assert_eq!(read().await, expected("41"));
}

#[tokio::test]
async fn a_checkpoint_newer_than_what_is_known_to_be_closed_is_believed() {
    let world = accurate();
    let rolled = checkpoint(41, START);
    world
        .rollups
        .put(vec![(counter("a"), rolled)])
        .await
        .unwrap();
    let answer = send(&world, "GET", &path("counters/a"), "").await;
    let expected = json!({"count": "41", "complete_through": "2026-01-31T12:00:00Z"});
    assert_eq!(answer.body, expected);
}

#[tokio::test]
async fn an_add_waits_for_its_own_row() {
    let world = accurate();
    let (router, body) = (world.router(), add(3, START).to_string());
    let call = tokio::spawn(async move {
        let request = Request::post(path("counters/a:addAndGet"))
            .header("content-type", "application/json")
            .body(Body::from(body))
            .unwrap();
        Answer::read(router.oneshot(request).await.unwrap()).await
    });
    while world.appended_events().is_empty() {
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(SOON).await;
    assert!(!call.is_finished());
    world.ingest().await;
    let answer = call.await.unwrap().body;
    assert_eq!(answer["status"], "ACCEPTED");
    assert_eq!(
        (&answer["count"], &answer["includes_add"]),
        (&"3".into(), &true.into())
    );
}

#[tokio::test]
async fn an_add_that_is_not_stored_by_the_deadline_stands_and_is_said_not_to_be_counted() {
    let world = accurate();
    let request = MutationRequest {
        counter_name: "a",
        mutation: Mutation::Add(3),
        token: Some(TokenRequest {
            token: "t",
            generation_time: START,
        }),
        item_key: "",
    };
    let gateway = world.gateway();
    let add_and_get = async || {
        let added = gateway
            .add_and_get(NS, request, Deadline::within(SOON))
            .await;
        let AddedCount {
            applied,
            count,
            includes_add,
        } = added.unwrap();
        (applied.status, count.count, includes_add)
    };
    assert_eq!(add_and_get().await, (Status::Accepted, 0, false));
    world.ingest().await;
    world.pass(Duration::from_secs(6));
    assert_eq!(
        add_and_get().await,
        (Status::AlreadyApplied, 3, true),
        "a retry"
    );
    move_to(&world, Mode::EventuallyConsistent);
    assert_eq!(
        add_and_get().await,
        (Status::AlreadyApplied, 0, false),
        "not rolled up"
    );
    let rolled = checkpoint(3, START);
    world
        .rollups
        .put(vec![(counter("a"), rolled)])
        .await
        .unwrap();
    assert_eq!(add_and_get().await, (Status::AlreadyApplied, 3, true));
}

#[tokio::test]
async fn a_read_that_would_scan_too_much_is_refused_and_asks_for_a_rollup() {
    let world = accurate();
    let long_ago = START - Duration::from_hours(300);
    let since = Window {
        after: long_ago,
        through: START,
    };
    world.events.prepare(since).await.unwrap();
    let rolled = checkpoint(41, long_ago);
    world
        .rollups
        .put(vec![(counter("a"), rolled)])
        .await
        .unwrap();
    let answer = send(&world, "GET", &path("counters/a"), "").await;
    assert_eq!(answer.error(), (429, "RESOURCE_EXHAUSTED", "SCAN_LIMIT"));
    let message = answer.message();
    assert!(
        message.contains("301 partitions") && message.contains("256"),
        "{message}"
    );
    assert!(message.contains("gateway.max_scan_partitions"), "{message}");
    assert_eq!(answer.headers["retry-after"], "1");
    assert_eq!(world.signals().await.len(), 1);
}

#[tokio::test]
async fn a_read_stops_at_the_bound_on_events() {
    let world = World::new();
    for n in 0..3 {
        let time = START + Duration::from_micros(n);
        post(&world, &path("counters/a:add"), add(1, time)).await;
    }
    world.ingest().await;
    let read = async |events| {
        let read = LiveRead {
            counter: &counter("a"),
            base: checkpoint(0, START.pred()),
            newest: START + Duration::from_secs(1),
            bounds: ScanBounds {
                partitions: 1,
                events,
            },
        };
        live(&world.events, &world.rollups, read).await
    };
    assert!(matches!(read(2).await, Err(NotLive::TooManyEvents)));
    assert_eq!(read(3).await.unwrap().count, Count::new(3));
}

#[tokio::test]
async fn a_slice_that_was_dropped_is_made_up_for_by_the_checkpoint_that_covers_it() {
    let world = accurate();
    post(&world, &path("counters/a:add"), add(3, START)).await;
    world.ingest().await;
    let cached = checkpoint(0, START - Duration::from_secs(5));
    Cache::set_if_newer(&world, vec![(counter("a"), cached)])
        .await
        .unwrap();
    world.drop_slice().await;
    let read = async || send(&world, "GET", &path("counters/a"), "").await.body["count"].clone();
    assert_eq!(
        read().await,
        "0",
        "no checkpoint covers it: there was nothing in it"
    );
    let covering = checkpoint(3, START + Duration::from_hours(1));
    world
        .rollups
        .put(vec![(counter("a"), covering)])
        .await
        .unwrap();
    assert_eq!(read().await, "3");
}
