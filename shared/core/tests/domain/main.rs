//! Tests of the domain: golden vectors of its persistent formats, laws checked against naive
//! models, and the exactness rules checked together on a small model of the whole system.

mod aggregate;
mod caps;
mod checkpoint;
mod clock_guard;
mod exactness;
mod key;
mod ledger;
mod load;
mod marks;
mod model;
mod name;
mod policy;
mod slice;
mod time;
mod watermark;

use quipu_core::{
    event::EventKey,
    name::{ItemKey, Token},
    policy::Limits,
    time::Micros,
};
use std::time::Duration;

fn at(micros: i64) -> Micros {
    Micros::new(micros)
}

fn micros(count: u64) -> Duration {
    Duration::from_micros(count)
}

fn limits(accept_limit: u64, max_future: u64) -> Limits {
    Limits {
        accept_limit: micros(accept_limit),
        max_future: micros(max_future),
    }
}

fn event_key(event_time: i64, token: &str, item_key: &str) -> EventKey {
    EventKey {
        event_time: at(event_time),
        event_id: Token::new(token).expect("a valid token"),
        item_key: ItemKey::new(item_key).expect("a valid item key"),
    }
}
