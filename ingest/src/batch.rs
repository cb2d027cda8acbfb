//! A batch: what was decided, waiting to be made durable together.

use quipu_adapters::ports::{Body, NewRecord};
use quipu_core::{
    event::{CounterKey, EventRow},
    policy::Refusal,
    time::Micros,
};
use std::collections::{BTreeMap, HashSet};

/// A range of one partition's records that a batch decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecidedRange {
    /// The partition.
    pub partition: u32,
    /// The offset of its first record: the range's name in the ledger.
    pub first: u64,
    /// Which taking over of the partition it belongs to: one that was lost and taken over again
    /// decides the same offsets anew.
    pub epoch: u64,
}

/// A refused record with its original bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// The partition that it was read from.
    pub partition: u32,
    /// Its offset there.
    pub offset: u64,
    /// The time that its stamp showed.
    pub timestamp: Micros,
    /// Why it was refused.
    pub refusal: Refusal,
    /// What it carried.
    pub body: Body,
}

/// Decided records of any partitions: rows and dead letters to write, counters to signal.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Accepted events.
    pub rows: Vec<EventRow>,
    /// Refused records.
    pub dead_letters: Vec<DeadLetter>,
    /// Refused events that a gateway had to acknowledge (R7). None, unless the log's clock went
    /// back by more than the gateways' guard.
    pub acknowledged_and_refused: u64,
    /// The counters that were written, each with its newest event time.
    pub written: BTreeMap<CounterKey, Micros>,
    /// The ranges that are finished once all of this is durable.
    pub ranges: Vec<DecidedRange>,
}

impl Batch {
    /// Takes an accepted event.
    pub fn accept(&mut self, row: EventRow) {
        let time = row.event.key.event_time;
        match self.written.get_mut(&row.counter) {
            Some(newest) => *newest = time.max(*newest),
            None => {
                self.written.insert(row.counter.clone(), time);
            }
        }
        self.rows.push(row);
    }

    /// How many of its rows are copies of an event that another row holds. What was stored before
    /// is not known: it is never read (R8 makes the copies one).
    pub fn duplicates(&self) -> u64 {
        let identities = self.rows.iter().map(|row| (&row.counter, &row.event.key));
        let distinct: HashSet<_> = identities.collect();
        (self.rows.len() - distinct.len()) as u64
    }

    /// How many records it keeps in memory, accepted and refused ones.
    pub fn kept(&self) -> usize {
        self.rows.len() + self.dead_letters.len()
    }

    /// Whether it decided no range at all.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

/// An error may quote the value at any length; a dead letter must not grow much beyond it.
const DETAIL: usize = 500;

impl DeadLetter {
    /// The record of the dead-letter topic: the original value and headers, and where it came
    /// from and why it was refused in headers of its own.
    pub fn to_record(&self, topic: &str) -> NewRecord {
        let detail = match &self.refusal {
            Refusal::Malformed(problem) => problem.clone(),
            Refusal::Late { horizon } => format!("at or before the horizon {horizon}"),
            Refusal::TooFarAhead { newest } => format!("after the newest acceptable time {newest}"),
            Refusal::UnknownNamespace
            | Refusal::WrongTopic
            | Refusal::KeepsNoEvents
            | Refusal::NotLogStamped => String::new(),
        };
        let (value, mut headers) = match self.body.clone() {
            Body::Data { value, headers } => (value, headers),
            Body::Tick => (bytes::Bytes::new(), Vec::new()),
        };
        let own = [
            ("quipu-source-topic", topic.to_owned()),
            ("quipu-source-partition", self.partition.to_string()),
            ("quipu-source-offset", self.offset.to_string()),
            ("quipu-source-timestamp", self.timestamp.get().to_string()),
            ("quipu-reason", self.refusal.reason().to_owned()),
            ("quipu-detail", detail.chars().take(DETAIL).collect()),
        ];
        headers.extend(
            own.into_iter()
                .map(|(name, text)| (name.to_owned(), text.into())),
        );
        NewRecord {
            partition: 0,
            body: Body::Data { value, headers },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_core::{
        event::{EventKey, LogPosition, Mutation, NamespaceId, StoredEvent},
        name::{CounterName, ItemKey, Token},
    };

    fn row(counter: &str, token: &str, offset: u64) -> EventRow {
        let event_time = Micros::new(7);
        EventRow {
            counter: CounterKey {
                namespace: NamespaceId(1),
                name: CounterName::new(counter).expect("a valid name"),
            },
            event: StoredEvent {
                key: EventKey {
                    event_time,
                    event_id: Token::new(token).expect("a valid token"),
                    item_key: ItemKey::new("").expect("a valid item key"),
                },
                mutation: Mutation::Add(1),
                source: LogPosition {
                    effective_time: event_time,
                    partition: 0,
                    offset,
                },
            },
        }
    }

    #[test]
    fn copies_of_an_event_are_duplicates_wherever_they_lay_and_other_events_are_not() {
        let mut batch = Batch::default();
        for (offset, (counter, token)) in [("a", "1"), ("b", "1"), ("a", "2")].iter().enumerate() {
            batch.accept(row(counter, token, offset as u64));
        }
        assert_eq!(batch.duplicates(), 0);
        batch.accept(row("a", "1", 8));
        batch.accept(row("a", "1", 9));
        assert_eq!(batch.duplicates(), 2);
    }
}
