//! Events that tests make, on their way through the gateway or straight to the log.

use super::{installation::Installation, kafka};
use crate::{
    http::{Api, counter_path},
    judge::judge,
    ledger::{Answer, Entry, Mutation},
};
use quipu_adapters::clock::Clock;
use quipu_core::{
    event::{EventKey, Mutation as Change},
    name::{CounterName, ItemKey, Namespace, Token},
    time::Micros,
};
use quipu_schemas::event::{CheckedEvent, decode, encode};
use serde_json::json;

/// Now, as tokens and counts have it.
pub(super) fn now() -> Micros {
    Clock::system().now()
}

/// An add that was not sent yet.
pub(super) fn add_of(counter: &str, token: &str, delta: i64) -> Entry {
    Entry {
        counter: counter.to_owned(),
        token: token.to_owned(),
        time: now(),
        item_key: "",
        mutation: Mutation::Add(delta),
        answers: Vec::new(),
    }
}

/// Sends an add through the gateway, and notes the answer.
pub(super) fn send(api: &Api, namespace: &str, entry: &mut Entry) -> Answer {
    let Mutation::Add(delta) = entry.mutation else {
        unreachable!("these tests add")
    };
    let body = json!({"delta": delta, "idempotency_token": entry.token_json()});
    let path = counter_path(namespace, &entry.counter) + ":add";
    let answer = api.post(&path, &body);
    let answer = answer.map_or(Answer::Unsettled, |(_, answer)| judge(&answer));
    entry.answers.push(answer);
    answer
}

/// The value of a record that adds.
pub(super) fn record(namespace: &str, counter: &str, token: &str, delta: i64) -> Vec<u8> {
    encode(&CheckedEvent {
        namespace: Namespace::new(namespace).expect("a name"),
        counter: CounterName::new(counter).expect("a name"),
        key: EventKey {
            event_time: now(),
            event_id: Token::new(token).expect("a token"),
            item_key: ItemKey::new("").expect("a key"),
        },
        mutation: Change::Add(delta),
    })
}

/// The tokens of events of a namespace that were dead-lettered.
pub(super) fn dead_tokens(installation: &Installation, namespace: &str) -> Vec<String> {
    let letters = kafka::read_all(&installation.addresses.kafka, &installation.topic("dlq"));
    letters
        .values()
        .filter_map(|letter| decode(letter.value.as_deref()?).ok())
        .filter(|event| event.namespace.as_str() == namespace)
        .map(|event| event.key.event_id.as_str().to_owned())
        .collect()
}
