//! What tests are made of.

use crate::entry::Entry;
use quipu_core::{
    event::{EventKey, Mutation},
    name::{CounterName, ItemKey, Token},
    time::Micros,
};

pub(crate) fn name(counter: &str) -> CounterName {
    CounterName::new(counter).unwrap()
}

pub(crate) fn add(counter: &str, time: i64, token: &str, delta: i64) -> Entry {
    entry(counter, time, token, Mutation::Add(delta))
}

pub(crate) fn clear(counter: &str, time: i64, token: &str) -> Entry {
    entry(counter, time, token, Mutation::Clear)
}

fn entry(counter: &str, time: i64, token: &str, mutation: Mutation) -> Entry {
    let key = EventKey {
        event_time: Micros::new(time),
        event_id: Token::new(token).unwrap(),
        item_key: ItemKey::new("").unwrap(),
    };
    Entry::new(name(counter), key, mutation)
}
