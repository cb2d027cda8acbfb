//! Durations as text with a unit: `5s`, `200ms`, `1d`.

use serde::{Deserialize, Deserializer, Serializer, de::Error};
use std::time::Duration;

pub(super) fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&humantime::format_duration(*value))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    humantime::parse_duration(&text).map_err(|error| {
        D::Error::custom(format!(
            "{text:?} is no duration such as \"5s\" or \"1d\": {error}"
        ))
    })
}
