//! What Kafka knows of where a partition is read from on (R2, R12).

use crate::{
    kafka::{
        CALL_TIMEOUT, context::GroupContext, error, frontier::committed_in, list,
        settings::KafkaSettings, watermarks,
    },
    ports::{Committed, LogError, Topic},
    starts::{Known, Refused, events, signals},
};
use quipu_core::time::Micros;
use rdkafka::consumer::{BaseConsumer, Consumer};

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
