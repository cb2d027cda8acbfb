//! Time slices, time buckets and event buckets: where an event is stored. Pure in the event's
//! identity and in settings that are frozen for its slice (R8).

use crate::{event::EventKey, time::Micros, window::Window};
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// The settings of a slice, frozen when it is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceLayout {
    bucket_micros: i64,
    event_buckets: u16,
}

/// How long slices are: the dataset's setting, one for its whole life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slicing {
    slice_micros: i64,
}

/// A slice of time, by its number: it covers `[start, start + length)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SliceId(pub i64);

/// A part of a slice, by its number: `floor(event_time / bucket length)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeBucket(pub i64);

/// One of the event buckets of a time bucket: `XXH3(event_id) % event buckets`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventBucket(pub u16);

/// A setting that slices cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SliceError {
    /// A length below one second, or too long to count in microseconds.
    #[error("a slice or bucket must be at least one second long and at most a thousand years")]
    Length,
    /// No event bucket at all.
    #[error("a dataset needs at least one event bucket")]
    NoEventBucket,
}

const LONGEST: Duration = Duration::from_hours(1000 * 366 * 24);

fn length_micros(length: Duration) -> Result<i64, SliceError> {
    if length < Duration::from_secs(1) || length > LONGEST {
        return Err(SliceError::Length);
    }
    i64::try_from(length.as_micros()).map_err(|_| SliceError::Length)
}

impl Slicing {
    /// Slices of this length.
    pub fn new(slice_length: Duration) -> Result<Self, SliceError> {
        Ok(Self {
            slice_micros: length_micros(slice_length)?,
        })
    }

    /// The slice that an event time falls into.
    pub fn slice_of(self, event_time: Micros) -> SliceId {
        SliceId(event_time.get().div_euclid(self.slice_micros))
    }

    /// The first moment of a slice.
    pub fn start(self, slice: SliceId) -> Micros {
        Micros::new(slice.0.saturating_mul(self.slice_micros))
    }

    /// The last moment of a slice.
    pub fn last(self, slice: SliceId) -> Micros {
        let next = (i128::from(slice.0) + 1) * i128::from(self.slice_micros);
        // The newest slice ends where time does.
        i64::try_from(next - 1).map_or(Micros::MAX, Micros::new)
    }

    /// The slices that a window touches, oldest first. None for an empty window.
    pub fn touched(self, window: Window) -> impl Iterator<Item = SliceId> {
        let first = self.slice_of(window.after.succ()).0;
        let end = if window.is_empty() {
            first
        } else {
            self.slice_of(window.through).0 + 1
        };
        (first..end).map(SliceId)
    }

    /// The part of a window that lies in a slice.
    pub fn clip(self, window: Window, slice: SliceId) -> Window {
        Window {
            after: window.after.max(self.start(slice).pred()),
            through: window.through.min(self.last(slice)),
        }
    }
}

impl SliceLayout {
    /// Buckets of this length, each with this many event buckets.
    pub fn new(bucket_length: Duration, event_buckets: u16) -> Result<Self, SliceError> {
        if event_buckets == 0 {
            return Err(SliceError::NoEventBucket);
        }
        Ok(Self {
            bucket_micros: length_micros(bucket_length)?,
            event_buckets,
        })
    }

    /// How long a time bucket is.
    pub fn bucket_length(self) -> Duration {
        Duration::from_micros(self.bucket_micros.unsigned_abs())
    }

    /// How many event buckets a time bucket has.
    pub fn event_buckets(self) -> u16 {
        self.event_buckets
    }

    /// The time bucket of an event time.
    pub fn time_bucket(self, event_time: Micros) -> TimeBucket {
        TimeBucket(event_time.get().div_euclid(self.bucket_micros))
    }

    /// The event bucket of an event. It depends on the token alone, so a retry lands in the same.
    pub fn event_bucket(self, key: &EventKey) -> EventBucket {
        if self.event_buckets == 1 {
            return EventBucket(0);
        }
        let hash = xxh3_64(key.event_id.as_str().as_bytes());
        let bucket = hash % u64::from(self.event_buckets);
        EventBucket(u16::try_from(bucket).expect("a remainder of a u16 fits a u16"))
    }

    /// How many partitions a scan of a window reads: the event buckets of all its time buckets.
    pub fn partitions(self, window: Window) -> u64 {
        if window.is_empty() {
            return 0;
        }
        let first = self.time_bucket(window.after.succ()).0;
        let last = self.time_bucket(window.through).0;
        let buckets = last.abs_diff(first).saturating_add(1);
        buckets.saturating_mul(self.event_buckets.into())
    }

    /// The time buckets that a window touches, oldest first. None for an empty window.
    pub fn touched(self, window: Window) -> impl Iterator<Item = TimeBucket> {
        let first = self.time_bucket(window.after.succ()).0;
        let end = if window.is_empty() {
            first
        } else {
            self.time_bucket(window.through).0 + 1
        };
        (first..end).map(TimeBucket)
    }
}
