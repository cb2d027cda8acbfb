//! Times on the wire: protobuf timestamps and RFC 3339 text, floored to microseconds.

use jiff::{SignedDuration, civil::DateTime, fmt::temporal::Pieces, tz::Offset};
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
const LATEST: Micros = Micros::new(END * 1_000_000 - 1);
const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

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

/// The moment of RFC 3339 text. A leap second counts as the second before it.
pub fn from_rfc3339(text: &str) -> Result<Micros, TimeError> {
    let (local, offset) = parse(text).map_err(|reason| TimeError::NotRfc3339 {
        text: text.chars().take(60).collect(),
        reason,
    })?;
    // Civil time, since the library's timestamps end two hours before the year 9999 does.
    let nanos = local.duration_since(EPOCH).as_nanos() - i128::from(offset.seconds()) * NANOS;
    i64::try_from(nanos.div_euclid(1_000))
        .map(Micros::new)
        .ok()
        .filter(|time| (Micros::EARLIEST..=LATEST).contains(time))
        .ok_or(TimeError::OutOfRange)
}

const NANOS: i128 = 1_000_000_000;

fn parse(text: &str) -> Result<(DateTime, Offset), String> {
    let pieces = Pieces::parse(text).map_err(|error| error.to_string())?;
    let time = pieces.time().ok_or("the time of day is missing")?;
    let offset = pieces
        .to_numeric_offset()
        .ok_or("the offset from UTC is missing, such as Z or +01:00")?;
    Ok((pieces.date().to_datetime(time), offset))
}

/// A moment as RFC 3339 text in UTC. A moment that the years 0001 to 9999 do not hold is shown as
/// the nearest that they do.
pub fn to_rfc3339(time: Micros) -> String {
    let micros = time.clamp(Micros::EARLIEST, LATEST).get();
    let civil = EPOCH
        .checked_add(SignedDuration::from_micros(micros))
        .expect("civil time holds the years 1 to 9999");
    format!("{civil}Z")
}
