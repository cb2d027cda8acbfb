//! Changes of namespaces while they are used, and what a clear zeroes.

use crate::{
    client::{Address, seed, under_load},
    http::{Api, counter_path, error_of},
    process::Place,
};
use quipu_adapters::clock::Clock;
use quipu_core::time::Micros;
use quipu_schemas::timestamp::to_rfc3339;
use serde_json::{Value, json};
use std::{thread::sleep, time::Duration};

#[test]
fn changes_of_the_accept_limit_under_load_lose_nothing_and_count_nothing_twice() {
    let place = Place::new();
    let server = place.start();
    let api = Api::new(&server.http);
    api.put_namespace("limits", "5s");
    let address = Address::new(&server);
    let ledger = under_load("limits", seed(), &address, |rng| {
        for limit in ["1s", "5s", "200ms", "3s", "1s", "5s", "1s"] {
            sleep(Duration::from_millis(rng.u64(300..2_500)));
            api.put_namespace("limits", limit);
        }
        sleep(Duration::from_secs(1));
    });
    ledger.check(&api);
    place.assert_no_panic();
}

#[test]
fn a_namespace_that_is_deleted_and_made_again_starts_at_zero() {
    let place = Place::new();
    let server = place.start();
    let api = Api::new(&server.http);
    let clock = Clock::system();
    api.put_namespace("again", "1s");
    let old = mutation(7, "old", clock.now());
    assert_eq!(add(&api, &old)["status"], "ACCEPTED");
    let now = clock.now().get();
    assert_eq!(api.count_through("again", "a", now), 7);

    let delete = api.send("DELETE", "/v1/namespaces/again", "", Vec::new());
    assert_eq!(delete.expect("it answers").0, 200);
    let unknown = ("NOT_FOUND".to_owned(), "UNKNOWN_NAMESPACE".to_owned());
    assert_eq!(error_of(&add(&api, &old)), unknown);
    let (status, answer) = api.get(&counter_path("again", "a")).expect("it answers");
    assert_eq!((status, error_of(&answer)), (404, unknown));

    api.put_namespace("again", "1s");
    assert_eq!(api.count("again", "a").expect("it answers").0, 0);
    let late = ("FAILED_PRECONDITION".to_owned(), "LATE".to_owned());
    assert_eq!(
        error_of(&until_definitive(&api, &old)),
        late,
        "an event older than the namespace"
    );
    let new = mutation(5, "new", clock.now());
    assert_eq!(add(&api, &new)["status"], "ACCEPTED");
    let now = clock.now().get();
    assert_eq!(api.count_through("again", "a", now), 5);
    place.assert_no_panic();
}

#[test]
fn a_clear_zeroes_what_stands_before_it_whatever_was_sent_first() {
    let place = Place::new();
    let server = place.start();
    let api = Api::new(&server.http);
    let clock = Clock::system();
    api.put_namespace("again", "1s");
    let now = clock.now().get();
    let at =
        |token: &str, micros: i64, delta: i64| mutation(delta, token, Micros::new(now + micros));
    for body in [
        at("c", 20, 1_000),
        at("a", 0, 1),
        at("x", 10, 10_000),
        at("b", 10, 10),
    ] {
        assert_eq!(add(&api, &body)["status"], "ACCEPTED");
    }
    let mut clear = at("m", 10, 0);
    clear.as_object_mut().expect("an object").remove("delta");
    for _ in 0..2 {
        let path = counter_path("again", "a") + ":clear";
        let (_, answer) = api.post(&path, &clear).expect("it answers");
        assert_eq!(answer["status"], "ACCEPTED");
    }
    // Before the clear: a by its time, b by its token. After it: x by its token, c by its time.
    assert_eq!(api.count_through("again", "a", now + 20), 11_000);
    let late = until_definitive(&api, &at("late", 5, 500));
    assert_eq!(error_of(&late).1, "LATE");
    let applied = until_definitive(&api, &at("c", 20, 1_000));
    assert_eq!(applied["status"], "ALREADY_APPLIED");
    let through = clock.now().get();
    assert_eq!(api.count_through("again", "a", through), 11_000);
}

fn mutation(delta: i64, token: &str, time: Micros) -> Value {
    json!({
        "delta": delta,
        "idempotency_token": {"token": token, "generation_time": to_rfc3339(time)},
    })
}

fn add(api: &Api, body: &Value) -> Value {
    let path = counter_path("again", "a") + ":add";
    api.post(&path, body).expect("it answers").1
}

/// Asks until the window of an old token is closed.
fn until_definitive(api: &Api, body: &Value) -> Value {
    for _ in 0..100 {
        let answer = add(api, body);
        if error_of(&answer).0 != "UNAVAILABLE" {
            return answer;
        }
        sleep(Duration::from_millis(100));
    }
    panic!("not known after 10 s: {body}");
}
