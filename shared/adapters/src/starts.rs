//! Where a partition is read from on (R2, R12).

use crate::ports::Committed;
use quipu_core::time::Micros;

/// What is known of a partition before it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// The group's committed offset, and the effective time beside it.
    pub committed: Option<(u64, Option<Micros>)>,
    /// The newest watermark record.
    pub watermark: Option<Committed>,
    /// The offset of the oldest record that is kept.
    pub beginning: u64,
    /// The offset after the newest record.
    pub end: u64,
    /// The effective time that the partition was registered from.
    pub initial: Micros,
}

/// Why an events partition cannot be read from where it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Records are gone, or not there any more.
    #[error("offset {next_offset} is due, but it has {beginning} to {end} only")]
    OutOfRange {
        /// Where reading should go on.
        next_offset: u64,
        /// The oldest offset that is kept.
        beginning: u64,
        /// The offset after the newest.
        end: u64,
    },
    /// Nobody knows how far it was decided.
    #[error(
        "it is not new (it has offsets {beginning} to {end}), but neither the group's commit nor a \
         watermark record tells its effective time"
    )]
    TimeUnknown {
        /// The oldest offset that is kept.
        beginning: u64,
        /// The offset after the newest.
        end: u64,
    },
}

/// Where to read an events partition from on, and at which effective time.
///
/// # Errors
/// When an operator has to decide.
pub fn events(known: Known) -> Result<Committed, Refused> {
    let Known { beginning, end, .. } = known;
    let start = match (known.committed, known.watermark) {
        (Some((next_offset, Some(effective_time))), _) => Committed {
            next_offset,
            effective_time,
        },
        (_, Some(watermark)) => watermark,
        // From the first record on every verdict is the same again, whoever decided before.
        (None, None) if beginning == 0 => Committed {
            next_offset: 0,
            effective_time: known.initial,
        },
        (_, None) => return Err(Refused::TimeUnknown { beginning, end }),
    };
    let next_offset = start.next_offset;
    if !(beginning..=end).contains(&next_offset) {
        return Err(Refused::OutOfRange {
            next_offset,
            beginning,
            end,
        });
    }
    Ok(start)
}

/// Where to read a signals partition from on. Signals that are gone are hints that the sweep makes
/// up for (R18): reading goes on with the oldest that is left, and says so.
pub fn signals(committed: Option<u64>, beginning: u64, end: u64) -> (u64, Option<Refused>) {
    match committed {
        None => (beginning, None),
        Some(next) if (beginning..=end).contains(&next) => (next, None),
        Some(next_offset) => {
            let refused = Refused::OutOfRange {
                next_offset,
                beginning,
                end,
            };
            (beginning, Some(refused))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(next_offset: u64, micros: i64) -> Committed {
        Committed {
            next_offset,
            effective_time: Micros::new(micros),
        }
    }

    const NEW: Known = Known {
        committed: None,
        watermark: None,
        beginning: 0,
        end: 10,
        initial: Micros::new(5),
    };

    #[test]
    fn a_new_partition_starts_at_its_beginning_and_registered_time() {
        assert_eq!(events(NEW), Ok(at(0, 5)));
    }

    #[test]
    fn a_commit_with_its_time_comes_first_then_the_watermark_record() {
        let committed = Some((7, Some(Micros::new(70))));
        let known = Known {
            committed,
            watermark: Some(at(3, 30)),
            ..NEW
        };
        assert_eq!(events(known), Ok(at(7, 70)));
        let committed = Some((7, None));
        assert_eq!(events(Known { committed, ..known }), Ok(at(3, 30)));
        let committed = None;
        assert_eq!(events(Known { committed, ..known }), Ok(at(3, 30)));
    }

    #[test]
    fn a_partition_that_is_not_new_and_of_which_no_time_is_known_is_refused() {
        let beginning = 4;
        let refused = Err(Refused::TimeUnknown { beginning, end: 10 });
        assert_eq!(events(Known { beginning, ..NEW }), refused);
        let committed = Some((7, None));
        let refused = Err(Refused::TimeUnknown {
            beginning: 0,
            end: 10,
        });
        assert_eq!(events(Known { committed, ..NEW }), refused);
    }

    #[test]
    fn an_offset_out_of_range_is_refused_for_events_and_told_for_signals() {
        for next_offset in [3, 11] {
            let refused = Refused::OutOfRange {
                next_offset,
                beginning: 4,
                end: 10,
            };
            let known = Known {
                committed: Some((next_offset, Some(Micros::new(1)))),
                beginning: 4,
                ..NEW
            };
            assert_eq!(events(known), Err(refused));
            assert_eq!(signals(Some(next_offset), 4, 10), (4, Some(refused)));
        }
        assert_eq!(signals(Some(10), 4, 10), (10, None));
        assert_eq!(signals(None, 4, 10), (4, None));
    }
}
