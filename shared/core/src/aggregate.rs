//! The fold of a counter's events into its count, exact beyond 64 bits, with clears (R9).

use crate::event::{EventKey, Mutation};

/// A count: wide enough for 2^64 events of any delta.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Count(i128);

/// A count that no 64-bit API field can carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the count {0} does not fit a signed 64-bit integer")]
pub struct CountOutOfRange(pub i128);

impl Count {
    /// Zero.
    pub const ZERO: Self = Self(0);

    /// A count from its value.
    pub const fn new(value: i128) -> Self {
        Self(value)
    }

    /// The exact value.
    pub const fn get(self) -> i128 {
        self.0
    }

    /// The value for an API answer: an error, never a wrapped number.
    pub fn to_i64(self) -> Result<i64, CountOutOfRange> {
        i64::try_from(self.0).map_err(|_| CountOutOfRange(self.0))
    }

    /// The count after one more event, taken in order.
    ///
    /// # Panics
    /// On overflow of 128 bits, which takes more events than a log can hold.
    #[must_use]
    pub fn after(self, mutation: Mutation) -> Self {
        match mutation {
            Mutation::Add(delta) => Self(
                self.0
                    .checked_add(i128::from(delta))
                    .expect("a sum of 2^64 deltas fits"),
            ),
            Mutation::Clear => Self::ZERO,
        }
    }
}

/// Folds distinct events that arrive in order on top of a base count.
#[derive(Clone, Debug)]
pub struct OrderedFold {
    count: Count,
    last: Option<EventKey>,
    events: u64,
}

impl OrderedFold {
    /// A fold that starts from a checkpoint's count.
    pub fn from(base: Count) -> Self {
        Self {
            count: base,
            last: None,
            events: 0,
        }
    }

    /// Takes the next event.
    ///
    /// # Panics
    /// When it does not come strictly after the one before: a store that returns events out of
    /// order, or one twice, would make a wrong count.
    pub fn push(&mut self, key: &EventKey, mutation: Mutation) {
        assert!(
            self.last.as_ref().is_none_or(|last| last < key),
            "events must arrive in strict order: {key:?} came after {:?}",
            self.last
        );
        self.count = self.count.after(mutation);
        self.last = Some(key.clone());
        self.events += 1;
    }

    /// The count so far.
    pub fn count(&self) -> Count {
        self.count
    }

    /// How many events were folded.
    pub fn events(&self) -> u64 {
        self.events
    }
}
