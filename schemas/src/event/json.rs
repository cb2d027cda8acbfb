//! Events as JSON of the same fields: `generation_time` is RFC 3339, 64-bit numbers are strings or
//! numbers.

use super::{CheckedEvent, EventError};
use crate::timestamp;
use quipu_core::{
    event::{EventKey, Mutation},
    name::{CounterName, ItemKey, Namespace, Token},
};
use serde::{
    Deserialize, Deserializer,
    de::{self, Visitor},
};
use std::{borrow::Cow, fmt};

/// A misspelled `item_key` that went unseen would count an event twice, so unknown fields are an
/// error.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields<'a> {
    #[serde(borrow)]
    namespace: Cow<'a, str>,
    #[serde(borrow)]
    counter_name: Cow<'a, str>,
    #[serde(borrow)]
    token: Cow<'a, str>,
    #[serde(borrow)]
    generation_time: Cow<'a, str>,
    #[serde(borrow, default)]
    item_key: Cow<'a, str>,
    delta: Option<Int64>,
    clear: Option<bool>,
}

struct Int64(i64);

impl<'de> Deserialize<'de> for Int64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StringOrNumber;
        impl Visitor<'_> for StringOrNumber {
            type Value = Int64;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number of 64 bits, or a string that holds one")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Int64, E> {
                Ok(Int64(number))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Int64, E> {
                let fits = i64::try_from(number);
                fits.map(Int64)
                    .map_err(|_| E::invalid_value(de::Unexpected::Unsigned(number), &self))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Int64, E> {
                let parsed = text.parse();
                parsed
                    .map(Int64)
                    .map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(StringOrNumber)
    }
}

/// Decodes and checks a value of the events topic that is JSON.
pub fn decode_json(value: &[u8]) -> Result<CheckedEvent, EventError> {
    let mut json = serde_json::Deserializer::from_slice(value);
    let fields: Fields<'_> = serde_path_to_error::deserialize(&mut json)
        .map_err(|error| EventError::Json(error.to_string()))?;
    json.end()
        .map_err(|error| EventError::Json(error.to_string()))?;
    let mutation = match (fields.delta, fields.clear) {
        (Some(Int64(delta)), None) => Mutation::Add(delta),
        (None, Some(true)) => Mutation::Clear,
        (None, Some(false)) => return Err(EventError::ClearFalse),
        (None, None) => return Err(EventError::Missing("delta or clear")),
        (Some(_), Some(_)) => return Err(EventError::TwoMutations),
    };
    Ok(CheckedEvent {
        namespace: Namespace::new(&fields.namespace)?,
        counter: CounterName::new(&fields.counter_name)?,
        key: EventKey {
            event_time: timestamp::from_rfc3339(&fields.generation_time)?,
            event_id: Token::new(&fields.token)?,
            item_key: ItemKey::new(&fields.item_key)?,
        },
        mutation,
    })
}

/// Whether a value of the header `content-type` says JSON, with or without parameters.
pub fn is_json(content_type: &[u8]) -> bool {
    let essence = content_type.split(|byte| *byte == b';').next();
    essence.is_some_and(|it| it.trim_ascii().eq_ignore_ascii_case(b"application/json"))
}
