use super::{Answer, path, post, send};
use crate::{
    Deadline,
    failure::reason,
    testing::{NS, START, World, counter},
};
use axum::{body::Body, http::Request};
use quipu_adapters::ports::{Cache, RollupStore};
use quipu_core::{
    aggregate::Count,
    checkpoint::{Checkpoint, Generation},
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, time::Duration};
use tower::ServiceExt;

fn checkpoint(count: i128) -> Checkpoint {
    Checkpoint {
        generation: Generation::default(),
        count: Count::new(count),
        last_rollup: START - Duration::from_secs(5),
    }
}

#[tokio::test]
async fn a_batch_of_reads_has_a_count_or_an_error_for_each_name() {
    let world = World::new();
    Cache::set_if_newer(&world, vec![(counter("cached"), checkpoint(1))])
        .await
        .unwrap();
    let stored = vec![
        (counter("stored"), checkpoint(2)),
        (counter("large"), checkpoint(i128::MAX)),
    ];
    world.rollups.put(stored).await.unwrap();
    let names = json!(["cached", "", "stored", 7, "never", "large", "cached"]);
    let answer = post(
        &world,
        &path("counters:batchGet"),
        json!({"counter_names": names}),
    )
    .await;
    let results = answer.body["results"].as_array().unwrap();
    let counts: Vec<_> = results.iter().map(|result| &result["count"]).collect();
    assert_eq!(json!(counts), json!(["1", null, "2", null, "0", null, "1"]));
    let error = |at: usize| {
        let error = &results[at]["error"];
        (
            error["code"].clone(),
            error["details"][1]["field_violations"][0]["field"].clone(),
        )
    };
    assert_eq!(
        error(1),
        ("INVALID_ARGUMENT".into(), "counter_names[1]".into())
    );
    assert_eq!(
        error(3),
        ("INVALID_ARGUMENT".into(), "counter_names[3]".into())
    );
    assert_eq!(error(5).0, "OUT_OF_RANGE");
    assert_eq!(
        world.cached("stored"),
        Some(checkpoint(2)),
        "it is cached now"
    );

    let many: Vec<_> = (0..1_001).map(|n| n.to_string()).collect();
    let answer = post(
        &world,
        &path("counters:batchGet"),
        json!({"counter_names": many}),
    )
    .await;
    assert_eq!(answer.error(), (400, "INVALID_ARGUMENT", "TOO_MANY_ITEMS"));
    assert_eq!(answer.field(), "counter_names");
}

#[tokio::test]
async fn a_batch_of_reads_goes_on_without_the_cache() {
    let world = World::new();
    world
        .rollups
        .put(vec![(counter("a"), checkpoint(2))])
        .await
        .unwrap();
    world.go_down();
    let answer = post(
        &world,
        &path("counters:batchGet"),
        json!({"counter_names": ["a"]}),
    )
    .await;
    assert_eq!(answer.body["results"][0]["count"], "2");
}

#[tokio::test]
async fn counters_are_listed_in_pages() {
    let world = World::new();
    let all: BTreeSet<_> = (0..25).map(|n| format!("c/{n}")).collect();
    let rows = all.iter().map(|name| (counter(name), checkpoint(1)));
    world.rollups.put(rows.collect()).await.unwrap();
    let (mut listed, mut pages, mut token) = (BTreeSet::new(), 0, String::new());
    loop {
        let query = path(&format!("counters?page_size=10&page_token={token}"));
        let page = send(&world, "GET", &query, "").await.body;
        let names = page["counter_names"].as_array().unwrap();
        assert!(names.len() <= 10);
        listed.extend(names.iter().map(|name| name.as_str().unwrap().to_owned()));
        pages += 1;
        match &page["next_page_token"] {
            Value::String(next) => next.clone_into(&mut token),
            none => break assert!(none.is_null()),
        }
    }
    assert_eq!((listed, pages), (all, 3));
    for (query, field) in [
        (format!("counters?page_token={token}x"), "page_token"),
        ("counters?page_size=-1".to_owned(), "page_size"),
        ("counters?page_size=many".to_owned(), "page_size"),
    ] {
        let answer = send(&world, "GET", &path(&query), "").await;
        assert_eq!(
            answer.error(),
            (400, "INVALID_ARGUMENT", "INVALID_FIELD"),
            "{query}"
        );
        assert_eq!(answer.field(), field);
    }
}

#[tokio::test]
async fn a_read_waits_for_a_rollup_and_asks_for_it_once() {
    let world = World::new();
    let router = world.router();
    let wait = tokio::spawn(async move {
        let query = "counters/a?min_freshness=2026-01-31T12:59:55%2B01:00";
        let request = Request::get(path(query)).body(Body::empty()).unwrap();
        Answer::read(router.oneshot(request).await.unwrap()).await
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!wait.is_finished());
    world
        .rollups
        .put(vec![(counter("a"), checkpoint(41))])
        .await
        .unwrap();
    let answer = wait.await.unwrap().body;
    let expected = json!({"count": "41", "complete_through": "2026-01-31T11:59:55Z"});
    assert_eq!(answer, expected);
    assert_eq!(world.signals().await.len(), 1, "however often it looked");
}

#[tokio::test]
async fn a_freshness_that_was_not_or_cannot_be_reached_is_said_to_be() {
    let world = World::new();
    let gateway = world.gateway();
    let get = async |ahead: Duration, limit: Duration| {
        let min = START - Duration::from_secs(5) + ahead;
        let read = gateway
            .get_at_least(NS, "a", min, Deadline::within(limit))
            .await;
        read.map_err(|failure| failure.reason)
    };
    let short = Duration::from_millis(50);
    assert_eq!(get(Duration::ZERO, short).await, Err(reason::NOT_FRESH));
    let second = Duration::from_secs(1);
    assert_eq!(
        get(second, short).await,
        Err(reason::FRESHNESS_OUT_OF_REACH)
    );
    let bad = send(&world, "GET", &path("counters/a?min_freshness=now"), "").await;
    assert_eq!(bad.error(), (400, "INVALID_ARGUMENT", "INVALID_FIELD"));
    assert_eq!(bad.field(), "min_freshness");
}
