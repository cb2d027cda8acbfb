//! What clients attempted and heard, and whether it agrees with what the server stored and counts.

use crate::http::{Api, counter_path};
use quipu_core::time::Micros;
use quipu_schemas::timestamp::to_rfc3339;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    thread::{scope, sleep},
    time::{Duration, Instant},
};

/// What an attempt does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    Add(i64),
    Clear,
}

/// What a client may hear of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Accepted,
    AlreadyApplied,
    Late,
    /// Not definitive: it may or may not be in the log.
    Unsettled,
}

/// One identity: it was written here before it was first sent.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) counter: String,
    pub(crate) token: String,
    pub(crate) time: Micros,
    pub(crate) item_key: &'static str,
    pub(crate) mutation: Mutation,
    pub(crate) answers: Vec<Answer>,
}

/// A count that a client was shown.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub(crate) counter: String,
    pub(crate) count: i128,
    pub(crate) through: i64,
}

/// Everything that clients did in one namespace.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) namespace: String,
    pub(crate) entries: Vec<Entry>,
    pub(crate) shown: Vec<Shown>,
}

impl Entry {
    /// The token as a request has it.
    pub(crate) fn token_json(&self) -> Value {
        json!({"token": self.token, "generation_time": to_rfc3339(self.time)})
    }

    fn order(&self) -> (i64, &str, &str) {
        (self.time.get(), &self.token, self.item_key)
    }
}

/// Of events in their order, what counts up to a moment.
pub(crate) fn fold(ordered: &[&Entry], through: i64) -> i128 {
    ordered
        .iter()
        .take_while(|entry| entry.time.get() <= through)
        .fold(0, |count, entry| match entry.mutation {
            Mutation::Add(delta) => count + i128::from(delta),
            Mutation::Clear => 0,
        })
}

impl Ledger {
    /// How often an answer was given.
    pub(crate) fn heard(&self, answer: Answer) -> usize {
        let all = self.entries.iter().flat_map(|entry| &entry.answers);
        all.filter(|heard| **heard == answer).count()
    }

    /// Compares with the server. Returns the final counts.
    pub(crate) fn check(&self, api: &Api) -> BTreeMap<String, i128> {
        let mut stored: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
        for entry in &self.entries {
            stored.entry(&entry.counter).or_default();
        }
        for entry in self.stored(api) {
            stored.entry(&entry.counter).or_default().push(entry);
        }
        for events in stored.values_mut() {
            events.sort_by_key(|entry| entry.order());
        }
        for Shown {
            counter,
            count,
            through,
        } in &self.shown
        {
            let events = stored
                .get(counter.as_str())
                .map_or(&[][..], |events| events);
            assert_eq!(
                *count,
                fold(events, *through),
                "{counter} was shown as complete through {through}, and it was not"
            );
        }
        let last = self.entries.iter().map(|entry| entry.time.get()).max();
        let last = last.expect("clients did something");
        let mut counts = BTreeMap::new();
        for (counter, events) in stored {
            let count = api.count_through(&self.namespace, counter, last);
            let expected = fold(&events, i64::MAX);
            assert_eq!(
                count,
                expected,
                "{counter}: the difference {} names the culprit among {events:#?}",
                count - expected
            );
            counts.insert(counter.to_owned(), count);
        }
        counts
    }

    /// Looks every entry up, and compares with what its client heard.
    fn stored(&self, api: &Api) -> Vec<&Entry> {
        let share = self.entries.len().div_ceil(4).max(1);
        scope(|scope| {
            let threads: Vec<_> = self
                .entries
                .chunks(share)
                .map(|entries| {
                    let is_stored = |entry: &&Entry| is_stored(api, &self.namespace, entry);
                    scope.spawn(move || entries.iter().filter(is_stored).collect::<Vec<_>>())
                })
                .collect();
            threads
                .into_iter()
                .flat_map(|thread| thread.join().expect("the thread's own panic is above"))
                .collect()
        })
    }
}

fn is_stored(api: &Api, namespace: &str, entry: &Entry) -> bool {
    let request = json!({
        "counter_name": entry.counter,
        "idempotency_token": entry.token_json(),
        "item_key": entry.item_key,
    });
    let path = format!("/v1/namespaces/{namespace}/events:lookup");
    let started = Instant::now();
    let answer = loop {
        let (status, answer) = api.post(&path, &request).expect("the server answers");
        assert_eq!(status, 200, "{answer}");
        if answer["outcome"] != "NOT_YET_KNOWN" {
            break answer;
        }
        assert!(
            started.elapsed() < Duration::from_mins(2),
            "never known: {entry:?}"
        );
        sleep(Duration::from_millis(50));
    };
    let heard = |answer| entry.answers.contains(&answer);
    let applied = heard(Answer::Accepted) || heard(Answer::AlreadyApplied);
    match answer["outcome"].as_str() {
        Some("STORED") => {
            assert!(!heard(Answer::Late), "late, and stored: {entry:?} {answer}");
            let event = &answer["event"];
            match entry.mutation {
                Mutation::Add(delta) => {
                    assert_eq!(event["delta"], delta.to_string(), "{entry:?} {answer}");
                }
                Mutation::Clear => assert_eq!(event["clear"], true, "{entry:?} {answer}"),
            }
            true
        }
        Some("NOT_STORED") => {
            let path = counter_path(namespace, &entry.counter);
            assert!(
                !applied,
                "acknowledged, and not stored: {entry:?} of {path}"
            );
            false
        }
        _ => panic!("{answer} of {entry:?}"),
    }
}
