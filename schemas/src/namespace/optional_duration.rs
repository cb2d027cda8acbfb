//! Durations as text with a unit, where one may be left out.

use super::duration;
use serde::{Deserializer, Serializer};
use std::time::Duration;

#[expect(
    clippy::ref_option,
    reason = "serde's `with` gives the field's reference"
)]
pub(crate) fn serialize<S: Serializer>(value: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => duration::serialize(value, to),
        None => to.serialize_none(),
    }
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Duration>, D::Error> {
    duration::deserialize(from).map(Some)
}
