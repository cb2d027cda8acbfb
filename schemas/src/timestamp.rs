//! Times on the wire: protobuf timestamps and RFC 3339 text, floored to microseconds.

use jiff::Timestamp;
use quipu_core::time::Micros;

/// A time that no wire format can carry, or text that is no time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// Outside the years 1 to 9999, or with nanoseconds that are none.
    #[error("a time must lie in the years 0001 to 9999, with 0 to 999,999,999 nanoseconds")]
    OutOfRange,
    /// Not RFC 3339.
    #[error("{text:?} is not an RFC 3339 time such as 2026-01-31T12:00:00.000001Z: {reason}")]
    NotRfc3339 {
        /// What was given, cut to a readable length.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
}

const END: i64 = 253_402_300_800; // 10000-01-01T00:00:00Z

/// The moment of a protobuf timestamp.
pub fn from_proto(time: &prost_types::Timestamp) -> Result<Micros, TimeError> {
    if !(0..1_000_000_000).contains(&time.nanos) || time.seconds >= END {
        return Err(TimeError::OutOfRange);
    }
    let micros = Micros::from_unix(time.seconds, time.nanos).ok_or(TimeError::OutOfRange)?;
    if micros < Micros::EARLIEST {
        Err(TimeError::OutOfRange)
    } else {
        Ok(micros)
    }
}

/// A moment as a protobuf timestamp.
pub fn to_proto(time: Micros) -> prost_types::Timestamp {
    let (seconds, nanos) = time.to_unix();
    prost_types::Timestamp { seconds, nanos }
}

/// The moment of RFC 3339 text.
pub fn from_rfc3339(text: &str) -> Result<Micros, TimeError> {
    let time: Timestamp = text
        .parse()
        .map_err(|error: jiff::Error| TimeError::NotRfc3339 {
            text: text.chars().take(60).collect(),
            reason: error.to_string(),
        })?;
    let micros = time.as_nanosecond().div_euclid(1_000);
    i64::try_from(micros)
        .map(Micros::new)
        .map_err(|_| TimeError::OutOfRange)
}

/// A moment as RFC 3339 text in UTC. A moment that the years 0001 to 9999 do not hold is shown as
/// the nearest that they do.
pub fn to_rfc3339(time: Micros) -> String {
    let clamped = time
        .get()
        .clamp(Micros::EARLIEST.get(), END * 1_000_000 - 1);
    Timestamp::from_microsecond(clamped).map_or_else(|_| time.to_string(), |time| time.to_string())
}
