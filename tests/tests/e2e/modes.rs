//! A namespace that moves between the ways in which it is read, while it is used.

use crate::{
    client::{Address, seed, under_load},
    http::{Api, counter_path},
    process::Place,
};
use fastrand::Rng;
use quipu_adapters::clock::Clock;
use quipu_schemas::timestamp::to_rfc3339;
use serde_json::{Value, json};
use std::{
    sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
    thread::{scope, sleep},
    time::Duration,
};

const NAMESPACE: &str = "moves";
const WRITERS: u64 = 3;

/// One more than a multiple of four while reads are accurate for sure; it only grows.
#[derive(Default)]
struct Phase(AtomicU32);

impl Phase {
    /// The number of the accurate phase that it is now.
    fn accurate(&self) -> Option<u32> {
        Some(self.0.load(SeqCst)).filter(|phase| phase % 4 == 1)
    }

    /// Moves the namespace to accurate reads, and after a while back.
    fn pass(&self, api: &Api, rng: &mut Rng) {
        put(api, "ACCURATE");
        self.0.fetch_add(1, SeqCst);
        sleep(Duration::from_millis(rng.u64(1_500..2_500)));
        self.0.fetch_add(1, SeqCst);
        put(api, "EVENTUALLY_CONSISTENT");
        self.0.fetch_add(2, SeqCst);
        sleep(Duration::from_millis(rng.u64(300..1_000)));
    }
}

fn put(api: &Api, mode: &str) {
    let document = json!({
        "namespace": NAMESPACE, "type": mode, "accept_limit": "2s", "max_future": "1s",
    });
    let path = format!("/v1/namespaces/{NAMESPACE}");
    let body = document.to_string().into_bytes();
    let answer = api.send("PUT", &path, "application/json", body);
    let (status, body) = answer.expect("the server answers");
    assert_eq!(status, 200, "{body}");
}

/// What one writer did to the counter that is its own.
#[derive(Debug, Default)]
struct Written {
    counter: String,
    sum: i128,
    last: i64,
    /// Answers in an accurate phase, each with the count that it ought to have.
    seen: u32,
}

/// Adds and reads until it is told to stop. In an accurate phase every answer must be exact.
fn write(api: &Api, phase: &Phase, stop: &AtomicBool, number: u64) -> Written {
    let (clock, mut rng) = (Clock::system(), Rng::with_seed(number));
    let mut written = Written {
        counter: format!("own/{number}"),
        ..Written::default()
    };
    let path = counter_path(NAMESPACE, &written.counter);
    let mut waited = None;
    for attempt in 0_u32.. {
        if stop.load(SeqCst) {
            break;
        }
        let (delta, now) = (rng.i64(-1_000..1_000), clock.now());
        let body = json!({"delta": delta.to_string(), "idempotency_token":
            {"token": format!("{number}-{attempt}"), "generation_time": to_rfc3339(now)}});
        let begun = phase.accurate();
        let answer = settled(api, &path, &body);
        written.sum += i128::from(delta);
        written.last = now.get();
        if begun.is_none() || begun != phase.accurate() {
            continue;
        }
        assert_eq!(answer["includes_add"], true, "{answer}");
        // The first add of the phase waited for its own row alone. When the next one has waited too,
        // the rows of the phase before are stored.
        if begun != waited {
            waited = begun;
            continue;
        }
        assert_eq!(answer["count"], written.sum.to_string(), "{answer}");
        written.seen += 1;
        let (count, _) = api.count(NAMESPACE, &written.counter).expect("it answers");
        if begun == phase.accurate() {
            assert_eq!(count, written.sum, "a read after {answer}");
        }
    }
    written
}

/// Adds until the answer has a count: a retry with the same token adds nothing more.
fn settled(api: &Api, path: &str, body: &Value) -> Value {
    for _ in 0..100 {
        let (status, answer) = api
            .post(&format!("{path}:addAndGet"), body)
            .expect("it answers");
        match status {
            200 => return answer,
            503 | 504 => sleep(Duration::from_millis(50)),
            _ => panic!("{answer}"),
        }
    }
    panic!("never settled: {body}");
}

#[test]
fn a_namespace_moves_to_accurate_reads_and_back_under_load_and_every_count_is_right() {
    let place = Place::new();
    let server = place.start();
    let api = Api::new(&server.http);
    put(&api, "EVENTUALLY_CONSISTENT");
    let address = Address::new(&server);
    let (phase, stop) = (Phase::default(), AtomicBool::new(false));
    let mut all_written = Vec::new();
    let mut ledger = under_load(NAMESPACE, seed(), &address, |rng| {
        scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|number| {
                    let (phase, stop, api) = (&phase, &stop, &api);
                    scope.spawn(move || write(api, phase, stop, number))
                })
                .collect();
            for _ in 0..3 {
                phase.pass(&api, rng);
            }
            stop.store(true, SeqCst);
            let written = writers.into_iter().map(std::thread::ScopedJoinHandle::join);
            all_written.extend(written.map(|written| written.expect("its panic is above")));
        });
    });
    for written in all_written {
        assert!(written.seen > 5, "{written:?}");
        let count = api.count_through(NAMESPACE, &written.counter, written.last);
        assert_eq!(count, written.sum, "{written:?}");
    }
    // Accurate counts go beyond the time through which they are complete.
    ledger.shown.clear();
    ledger.check(&api);
    place.assert_no_panic();
}
