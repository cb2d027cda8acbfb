//! Time as a value: microseconds since the Unix epoch. Nothing here reads a clock.

use std::{fmt, ops, time::Duration};

/// A moment, in whole microseconds since the Unix epoch (negative before 1970).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(i64);

impl Micros {
    /// The earliest moment that can be named.
    pub const MIN: Self = Self(i64::MIN);
    /// The latest moment that can be named.
    pub const MAX: Self = Self(i64::MAX);
    /// 0001-01-01T00:00:00Z, the earliest moment that RFC 3339 and protobuf can carry.
    pub const EARLIEST: Self = Self(-62_135_596_800_000_000);

    /// A moment from microseconds since the Unix epoch.
    pub const fn new(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the Unix epoch.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// A moment from seconds and nanoseconds since the Unix epoch, floored to microseconds.
    /// `None` when it does not fit.
    pub fn from_unix(seconds: i64, nanos: i32) -> Option<Self> {
        let micros = i128::from(nanos).div_euclid(1_000);
        let micros = i128::from(seconds) * 1_000_000 + micros;
        i64::try_from(micros).ok().map(Self)
    }

    /// Seconds since the Unix epoch, floored, and the nanoseconds on top of them.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a remainder of 1,000,000 fits"
    )]
    pub const fn to_unix(self) -> (i64, i32) {
        (
            self.0.div_euclid(1_000_000),
            (self.0.rem_euclid(1_000_000) * 1_000) as i32,
        )
    }

    /// How long after `earlier` this is; zero when it is not after it.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(
            u64::try_from(i128::from(self.0) - i128::from(earlier.0)).unwrap_or(0),
        )
    }

    /// The moment one microsecond before this one.
    #[must_use]
    pub const fn pred(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// The moment one microsecond after this one.
    #[must_use]
    pub const fn succ(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// A duration in microseconds, saturating: durations here are limits, never measurements.
fn saturating_micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

impl ops::Add<Duration> for Micros {
    type Output = Self;
    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(saturating_micros(rhs)))
    }
}

impl ops::Sub<Duration> for Micros {
    type Output = Self;
    fn sub(self, rhs: Duration) -> Self {
        Self(self.0.saturating_sub(saturating_micros(rhs)))
    }
}

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}µs", self.0)
    }
}
