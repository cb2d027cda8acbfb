//! Counters that a cache alone keeps, in one process.

use crate::{
    http::{Api, counter_path, error_of},
    process::{Place, copy_of_flights, ended, quipu},
};
use serde_json::{Value, json};
use std::thread;

/// Makes a namespace whose counters live in the cache alone.
pub(crate) fn make(api: &Api, namespace: &str) {
    let document = json!({"namespace": namespace, "type": "BEST_EFFORT"}).to_string();
    let path = format!("/v1/namespaces/{namespace}");
    let answer = api.send("PUT", &path, "application/json", document.into_bytes());
    let (status, body) = answer.expect("it answers");
    assert_eq!(status, 200, "{body}");
}

/// Adds one a hundred times from each of four threads, and reads, clears and reads again.
pub(crate) fn count_and_clear(api: &Api, namespace: &str) {
    let counter = counter_path(namespace, "home/plays");
    let post = |call: &str, body: Value| api.post(&format!("{counter}:{call}"), &body);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let (_, answer) = post("add", json!({"delta": 1})).expect("it answers");
                    assert_eq!(answer, json!({"status": "ACCEPTED", "idempotent": false}));
                }
            });
        }
    });
    let read = || api.get(&counter).expect("it answers").1;
    assert_eq!(read(), json!({"count": "400", "approximate": true}));
    let (_, both) = post("addAndGet", json!({"delta": "-10"})).expect("it answers");
    assert_eq!(both["count"], "390", "{both}");
    let (_, cleared) = post("clear", json!({})).expect("it answers");
    assert_eq!(cleared["status"], "ACCEPTED", "{cleared}");
    assert_eq!(read()["count"], "0");
}

#[test]
fn a_best_effort_namespace_counts_at_once_and_keeps_nothing_over_a_restart() {
    let place = Place::new();
    let server = place.start();
    let api = Api::new(&server.http);
    make(&api, "views");
    count_and_clear(&api, "views");
    let path = "/v1/namespaces/views/counters:batchAdd";
    let items = json!({"items": [
        {"counter_name": "kept", "delta": 2}, {"counter_name": "kept", "delta": "3"}]});
    api.post(path, &items).expect("it answers");
    let kept = counter_path("views", "kept");
    assert_eq!(api.get(&kept).expect("it answers").1["count"], "5");

    // It cannot become a namespace that keeps events.
    let exact = json!({"namespace": "views"}).to_string().into_bytes();
    let moved = api.send("PUT", "/v1/namespaces/views", "application/json", exact);
    let (status, body) = moved.expect("it answers");
    let refused = (
        "FAILED_PRECONDITION".to_owned(),
        "NAMESPACE_REFUSED".to_owned(),
    );
    assert_eq!((status, error_of(&body)), (400, refused));

    // What is counted beside it is exact as ever.
    let add = counter_path("default", "beside") + ":add";
    let (_, added) = api.post(&add, &json!({"delta": 7})).expect("it answers");
    assert_eq!(added["status"], "ACCEPTED");
    assert_eq!(added.get("idempotent"), None);

    server.running.terminate();
    let server = place.start();
    let api = Api::new(&server.http);
    assert_eq!(api.get(&kept).expect("it answers").1["count"], "0");
    let now = quipu_adapters::clock::Clock::system().now().get();
    assert_eq!(api.count_through("default", "beside", now), 7);
    place.assert_no_panic();
}

#[test]
fn a_file_is_not_imported_where_an_add_that_is_sent_again_counts_twice() {
    let place = Place::new();
    let server = place.start();
    make(&Api::new(&server.http), "views");
    let file = copy_of_flights(&place);
    let file = file.to_str().expect("a path in UTF-8");
    let to = ["--namespace", "views", "--server", &server.http];
    let command = [&["import", file, "--counter", "all"], &to[..]].concat();
    let (code, text) = ended(&quipu(&command).output().expect("it runs"));
    assert_eq!(code, 3, "{text}");
    assert!(text.contains("views is BEST_EFFORT"), "{text}");
}
