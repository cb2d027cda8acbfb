//! Append times that an operator capped, because the log's clock showed what it never should (R3).

use crate::time::Micros;

/// A stretch of one partition whose append times are not to be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CappedRange {
    /// The partition.
    pub partition: u32,
    /// The first offset.
    pub first: u64,
    /// The last offset.
    pub last: u64,
    /// What an append time in it is at most.
    pub time: Micros,
    /// Only append times after this one are capped: nobody was allowed to decide a record with one
    /// before the cap was made (R5), so nobody has, and everybody who is allowed knows the cap.
    pub above: Micros,
}

impl CappedRange {
    fn covers(&self, partition: u32, offset: u64, append_time: Micros) -> bool {
        self.partition == partition
            && (self.first..=self.last).contains(&offset)
            && append_time > self.above
    }
}

/// Why a stretch cannot be capped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CapError {
    /// It has no offsets.
    #[error("it ends at offset {last}, before its first, {first}")]
    Empty {
        /// Its first offset.
        first: u64,
        /// Its last.
        last: u64,
    },
    /// What may be decided never becomes less, so a cap cannot be made before an earlier one.
    #[error("it applies above {above}, and the newest cap above {newest}")]
    OutOfOrder {
        /// Its bound.
        above: Micros,
        /// The newest bound.
        newest: Micros,
    },
    /// Every role reads all of them every second.
    #[error("{most} stretches are capped already, and that is the most")]
    TooMany {
        /// How many there may be.
        most: usize,
    },
}

/// The capped stretches of one topic, in the order in which they were made.
///
/// Of several that cover a record the oldest counts: a newer one may not change what is decided.
/// So for a record on which two versions of this differ, its append time is above the bound of the
/// first cap that the older one lacks, and whoever holds that one may not decide the record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CappedRanges(Vec<CappedRange>);

impl CappedRanges {
    /// How many there may be.
    pub const MOST: usize = 100;

    /// None.
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// Adds the newest.
    ///
    /// # Errors
    /// When it is empty, or older than one that is here, or there are too many.
    pub fn add(&mut self, range: CappedRange) -> Result<(), CapError> {
        let CappedRange {
            first, last, above, ..
        } = range;
        if last < first {
            return Err(CapError::Empty { first, last });
        }
        if let Some(newest) = self.0.last().map(|newest| newest.above)
            && above < newest
        {
            return Err(CapError::OutOfOrder { above, newest });
        }
        if self.0.len() >= Self::MOST {
            return Err(CapError::TooMany { most: Self::MOST });
        }
        self.0.push(range);
        Ok(())
    }

    /// The append time that a record is decided by.
    pub fn append_time(&self, partition: u32, offset: u64, append_time: Micros) -> Micros {
        let mut covering = self.0.iter();
        let capped = covering.find(|range| range.covers(partition, offset, append_time));
        capped.map_or(append_time, |range| append_time.min(range.time))
    }

    /// All of them, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &CappedRange> {
        self.0.iter()
    }
}
