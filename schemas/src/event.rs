//! `quipu.v1.CounterEvent` to the domain and back.

mod json;

pub use json::{decode_json, is_json};

use crate::{
    timestamp::{self, TimeError},
    v1,
};
use prost::Message;
use quipu_core::{
    event::{EventKey, Mutation},
    name::{CounterName, ItemKey, NameError, Namespace, Token},
    policy::Refusal,
};

/// A mutation as a client or producer asked for it, checked against every rule of its own; only
/// its time has not been judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedEvent {
    /// The namespace, by name.
    pub namespace: Namespace,
    /// The counter.
    pub counter: CounterName,
    /// Its place among the counter's events.
    pub key: EventKey,
    /// What it does.
    pub mutation: Mutation,
}

/// Why bytes are no event.
#[derive(Clone, Debug, thiserror::Error)]
pub enum EventError {
    /// Not protobuf.
    #[error("not a quipu.v1.CounterEvent: {0}")]
    Decode(#[from] prost::DecodeError),
    /// Not JSON of an event's fields.
    #[error("not an event in JSON: {0}")]
    Json(String),
    /// A name outside its rules.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A time outside its range.
    #[error("generation_time: {0}")]
    Time(#[from] TimeError),
    /// A field that must be there.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// `clear: false` says nothing.
    #[error("clear must be true, or a delta must be set instead")]
    ClearFalse,
    /// One event is one mutation.
    #[error("delta and clear are set, but an event has one of them, not both")]
    TwoMutations,
}

impl From<EventError> for Refusal {
    fn from(error: EventError) -> Self {
        Self::Malformed(error.to_string())
    }
}

/// Encodes an event for the events topic.
pub fn encode(event: &CheckedEvent) -> Vec<u8> {
    let mutation = match event.mutation {
        Mutation::Add(delta) => v1::counter_event::Mutation::Delta(delta),
        Mutation::Clear => v1::counter_event::Mutation::Clear(true),
    };
    v1::CounterEvent {
        namespace: event.namespace.as_str().to_owned(),
        counter_name: event.counter.as_str().to_owned(),
        token: event.key.event_id.as_str().to_owned(),
        generation_time: Some(timestamp::to_proto(event.key.event_time)),
        item_key: event.key.item_key.as_str().to_owned(),
        mutation: Some(mutation),
    }
    .encode_to_vec()
}

/// Decodes and checks a value of the events topic.
pub fn decode(value: &[u8]) -> Result<CheckedEvent, EventError> {
    let event = v1::CounterEvent::decode(value)?;
    let time = event
        .generation_time
        .ok_or(EventError::Missing("generation_time"))?;
    let mutation = match event
        .mutation
        .ok_or(EventError::Missing("delta or clear"))?
    {
        v1::counter_event::Mutation::Delta(delta) => Mutation::Add(delta),
        v1::counter_event::Mutation::Clear(true) => Mutation::Clear,
        v1::counter_event::Mutation::Clear(false) => return Err(EventError::ClearFalse),
    };
    Ok(CheckedEvent {
        namespace: Namespace::new(&event.namespace)?,
        counter: CounterName::new(&event.counter_name)?,
        key: EventKey {
            event_time: timestamp::from_proto(&time)?,
            event_id: Token::new(&event.token)?,
            item_key: ItemKey::new(&event.item_key)?,
        },
        mutation,
    })
}
