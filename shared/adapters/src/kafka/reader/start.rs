//! Where a partition is read from on (R2, R12).

use crate::{
    kafka::{
        CALL_TIMEOUT, context::GroupContext, error, frontier::committed_in, list,
        settings::KafkaSettings, watermarks,
    },
    ports::{Committed, LogError, Topic},
};
use quipu_core::time::Micros;
use rdkafka::consumer::{BaseConsumer, Consumer};

/// What is known of a partition before it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    /// The group's committed offset, and the effective time beside it.
    pub(super) committed: Option<(u64, Option<Micros>)>,
    /// The newest watermark record.
    pub(super) watermark: Option<Committed>,
    /// The offset of the oldest record that is kept.
    pub(super) beginning: u64,
    /// The offset after the newest record.
    pub(super) end: u64,
    /// The effective time that the partition was registered from.
    pub(super) initial: Micros,
}

/// Why an events partition cannot be read from where it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    /// Records are gone, or not there any more.
    #[error("offset {next_offset} is due, but it has {beginning} to {end} only")]
    OutOfRange {
        /// Where reading should go on.
        next_offset: u64,
        beginning: u64,
        end: u64,
    },
    /// Nobody knows how far it was decided.
    #[error(
        "it is not new (it has offsets {beginning} to {end}), but neither the group's commit nor a \
         watermark record tells its effective time"
    )]
    TimeUnknown { beginning: u64, end: u64 },
}

/// Where to read an events partition from on, and at which effective time.
pub(super) fn events(known: Known) -> Result<Committed, Refused> {
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
pub(super) fn signals(committed: Option<u64>, beginning: u64, end: u64) -> (u64, Option<Refused>) {
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

/// What a look-up needs.
pub(super) struct Source<'a> {
    pub(super) consumer: &'a BaseConsumer<GroupContext>,
    pub(super) settings: &'a KafkaSettings,
    pub(super) topic: Topic,
    pub(super) group: &'a str,
}

impl Source<'_> {
    fn name(&self) -> &str {
        self.settings.topics.name(self.topic)
    }

    /// Looks up where partitions start. `initial` are their registered effective times.
    ///
    /// # Errors
    /// `Damaged` when an operator has to decide, `Unavailable` when a broker did not answer.
    pub(super) fn starts(
        &self,
        partitions: &[(u32, Micros)],
    ) -> Result<Vec<(u32, Committed)>, LogError> {
        let list = list::of(self.name(), partitions.iter().map(|(id, _)| *id));
        let committed = self.consumer.committed_offsets(list, CALL_TIMEOUT);
        let committed = committed.map_err(|error| error::of_topic(self.name(), &error))?;
        let mut starts = Vec::with_capacity(partitions.len());
        for (partition, initial) in partitions {
            let committed = committed_in(&committed, *partition);
            starts.push((*partition, self.start(*partition, *initial, committed)?));
        }
        Ok(starts)
    }

    fn start(
        &self,
        partition: u32,
        initial: Micros,
        committed: Option<(u64, Option<Micros>)>,
    ) -> Result<Committed, LogError> {
        let (beginning, end) = self.range(partition)?;
        if self.topic != Topic::Events {
            let (next_offset, lost) = signals(committed.map(|(next, _)| next), beginning, end);
            if let Some(lost) = lost {
                self.out_of_range(partition, lost);
            }
            let effective_time = Micros::MIN;
            return Ok(Committed {
                next_offset,
                effective_time,
            });
        }
        let watermark = match committed {
            Some((_, Some(_))) => None,
            _ => watermarks::newest(self.settings, self.name(), partition)?,
        };
        if let (Some((next, None)), Some(watermark)) = (committed, watermark) {
            tracing::warn!(
                partition,
                committed = next,
                watermark = watermark.next_offset,
                "the committed offset tells no effective time; starting from the watermark record"
            );
        }
        let known = Known {
            committed,
            watermark,
            beginning,
            end,
            initial,
        };
        events(known).map_err(|refused| self.refuse(partition, refused))
    }

    /// The offsets that a partition has: from, and up to but without.
    pub(super) fn range(&self, partition: u32) -> Result<(u64, u64), LogError> {
        let number = list::number(partition);
        let range = self
            .consumer
            .fetch_watermarks(self.name(), number, CALL_TIMEOUT);
        let (low, high) = range.map_err(|error| error::of_topic(self.name(), &error))?;
        Ok((
            u64::try_from(low).unwrap_or_default(),
            u64::try_from(high).unwrap_or_default(),
        ))
    }

    /// An operator has to decide: until then the partition is not read.
    pub(super) fn refuse(&self, partition: u32, refused: Refused) -> LogError {
        if matches!(refused, Refused::OutOfRange { .. }) {
            self.out_of_range(partition, refused);
        }
        LogError::Damaged(format!(
            "{} partition {partition} cannot be read: {refused}. What lies before the offset that \
             reading goes on with is never counted. Decide where that is, and the effective time \
             there, with every ingest stopped: quipu admin set-frontier --partition {partition} \
             --offset OFFSET --effective-time TIME (group {})",
            self.name(),
            self.group
        ))
    }

    pub(super) fn out_of_range(&self, partition: u32, refused: Refused) {
        metrics::counter!(crate::metrics::stores::OUT_OF_RANGE, "topic" => self.name().to_owned())
            .increment(1);
        tracing::error!(topic = self.name(), partition, %refused, "an offset is out of range");
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
