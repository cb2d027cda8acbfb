//! The thread of a consumer: polls the client, sees to changes of the group, and passes what it
//! read on by a bounded channel. It alone owns the partitions' positions.

mod changes;
mod commands;
mod position;
mod start;
mod vigil;

use super::{Registered, context::GroupContext, list, lost::Vigil, settings::KafkaSettings};
use crate::{
    ports::{Assignment, LogError, Polled, Topic},
    starts::Refused,
};
use bytes::BytesMut;
pub(super) use commands::Command;
use position::Position;
use rdkafka::{
    Message,
    consumer::{BaseConsumer, Consumer},
    error::KafkaError,
    message::BorrowedMessage,
    types::RDKafkaErrorCode,
};
use start::Source;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, mpsc::Receiver},
    time::{Duration, Instant},
};
use tokio::sync::mpsc::{Sender, error::TrySendError};

/// A client that belongs to a group.
pub(super) type Group = BaseConsumer<GroupContext>;

/// One batch of a partition has at most this many records, and bytes, roughly.
const BATCH_RECORDS: usize = 1_024;
const BATCH_BYTES: usize = 1 << 20;
/// So many records are read before anything else is looked at.
const POLL_RECORDS: usize = 4_096;
/// How long to wait for a record, a change or room for what was read.
const POLL_WAIT: Duration = Duration::from_millis(20);
const ROOM_WAIT: Duration = Duration::from_millis(5);
/// When nobody takes what was read for this long, partitions are paused, so that polling can go on
/// and the group is heard.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long to wait before a call that failed is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// What the thread tells the consumer.
#[derive(Debug)]
pub(super) enum Delivered {
    /// Partitions start, each with the number of its assignment.
    Assigned(Vec<(Assignment, u64)>),
    /// These are to be released.
    Revoked(Vec<u32>),
    /// These are gone.
    Lost(Vec<u32>),
    /// Something of one partition, read under an assignment after so many seeks.
    Brought {
        partition: u32,
        position: (u64, u64),
        polled: Polled,
    },
    /// The role has to know.
    Failed(LogError),
}

/// What the thread works with.
pub(super) struct Setup {
    pub(super) consumer: Arc<Group>,
    pub(super) settings: KafkaSettings,
    pub(super) topic: Topic,
    pub(super) group: String,
    /// The registered partitions; `None` for topics whose partitions are all read.
    pub(super) registered: Option<Registered>,
    pub(super) commands: Receiver<Command>,
    pub(super) delivered: Sender<Delivered>,
}

pub(super) struct Reader {
    setup: Setup,
    outbox: VecDeque<Delivered>,
    positions: BTreeMap<u32, Position>,
    assignments: u64,
    /// Assigned by the group, not yet told to the client; and when to look up their starts.
    assigning: Option<(Vec<u32>, Instant)>,
    /// Assigned and not read: nobody registered them.
    unregistered: BTreeSet<u32>,
    /// To be handed back together, and those of them that the role has not released.
    leaving: Option<(Vec<u32>, BTreeSet<u32>)>,
    full_since: Option<Instant>,
    throttled: bool,
    vigil: Vigil,
    block: BytesMut,
}

impl Reader {
    pub(super) fn new(setup: Setup) -> Self {
        Self {
            setup,
            outbox: VecDeque::new(),
            positions: BTreeMap::new(),
            assignments: 0,
            assigning: None,
            unregistered: BTreeSet::new(),
            leaving: None,
            full_since: None,
            throttled: false,
            vigil: Vigil::new(Instant::now()),
            block: BytesMut::new(),
        }
    }

    /// Reads until the consumer is dropped, then leaves the group.
    pub(super) fn run(mut self) {
        let consumer = Arc::clone(&self.setup.consumer);
        while self.obey() && self.deliver() {
            self.see_to_changes();
            self.seek_due();
            let waiting = !self.outbox.is_empty();
            self.throttle(waiting);
            if waiting && !self.throttled {
                std::thread::sleep(ROOM_WAIT);
                continue;
            }
            self.poll(&consumer);
            self.keep_vigil(&consumer);
        }
        self.close();
    }

    /// Passes on what there is room for. Returns whether anybody is there to take it.
    fn deliver(&mut self) -> bool {
        while let Some(next) = self.outbox.pop_front() {
            match self.setup.delivered.try_send(next) {
                Ok(()) => {}
                Err(TrySendError::Full(next)) => {
                    self.outbox.push_front(next);
                    return true;
                }
                Err(TrySendError::Closed(_)) => return false,
            }
        }
        true
    }

    /// Pauses everything while nobody takes what was read, and goes on afterwards.
    fn throttle(&mut self, waiting: bool) {
        if !waiting {
            self.full_since = None;
            if std::mem::take(&mut self.throttled) {
                self.resume(|position| !position.paused);
            }
            return;
        }
        let since = *self.full_since.get_or_insert_with(Instant::now);
        if !self.throttled && since.elapsed() >= PATIENCE {
            self.throttled = true;
            let all: Vec<u32> = self.positions.keys().copied().collect();
            self.pause(&all);
        }
    }

    fn poll(&mut self, consumer: &Group) {
        let mut wait = POLL_WAIT;
        let mut heard = false;
        for _ in 0..POLL_RECORDS {
            let Some(polled) = consumer.poll(wait) else {
                break;
            };
            wait = Duration::ZERO;
            match polled {
                Ok(message) => {
                    heard = true;
                    self.take(&message);
                }
                Err(KafkaError::PartitionEOF(number)) => {
                    heard = true;
                    self.at_end(number);
                }
                Err(error) => self.on_error(&error),
            }
            if consumer.context().has_changes() {
                break;
            }
        }
        if heard {
            self.vigil.heard(Instant::now());
        }
        let open: Vec<u32> = self.positions.keys().copied().collect();
        for partition in open {
            self.close_batch(partition);
        }
    }

    fn take(&mut self, message: &BorrowedMessage<'_>) {
        let partition = u32::try_from(message.partition()).unwrap_or(u32::MAX);
        let offset = u64::try_from(message.offset()).unwrap_or_default();
        let throttled = self.throttled;
        let position = self.positions.get_mut(&partition);
        // What comes for partitions that are not read, or not now, is read again later.
        let Some(position) = position.filter(|it| !throttled && it.wants(offset)) else {
            return;
        };
        position.push(super::record::record(message, &mut self.block));
        if position.is_full() {
            self.close_batch(partition);
        }
    }

    fn close_batch(&mut self, partition: u32) {
        let Some(position) = self.positions.get_mut(&partition) else {
            return;
        };
        let records = position.take_batch();
        if !records.is_empty() {
            let polled = Polled::Records { partition, records };
            let position = position.number();
            self.outbox.push_back(Delivered::Brought {
                partition,
                position,
                polled,
            });
        }
    }

    fn at_end(&mut self, number: i32) {
        let partition = u32::try_from(number).unwrap_or(u32::MAX);
        self.close_batch(partition);
        let position = self.positions.get(&partition);
        if let Some(position) = position.filter(|position| position.is_read() && !self.throttled) {
            self.outbox.push_back(Delivered::Brought {
                partition,
                position: position.number(),
                polled: Polled::End { partition },
            });
        }
    }

    fn on_error(&mut self, error: &KafkaError) {
        match error {
            KafkaError::MessageConsumption(
                RDKafkaErrorCode::OffsetOutOfRange | RDKafkaErrorCode::AutoOffsetReset,
            ) => self.on_out_of_range(),
            KafkaError::MessageConsumptionFatal(_) => {
                let text = format!("the Kafka consumer broke for good: {error}");
                self.fail(LogError::Damaged(text));
            }
            _ => {
                let error = super::error::of_topic(self.name(), error);
                tracing::warn!(%error, "reading from Kafka failed; trying again");
            }
        }
    }

    /// The client does not say which partition it was.
    fn on_out_of_range(&mut self) {
        let positions: Vec<_> = self
            .positions
            .iter()
            .map(|(id, it)| (*id, it.next()))
            .collect();
        for (partition, next_offset) in positions {
            let Ok((beginning, end)) = self.source().range(partition) else {
                continue;
            };
            if (beginning..=end).contains(&next_offset) {
                continue;
            }
            let refused = Refused::OutOfRange {
                next_offset,
                beginning,
                end,
            };
            match self.setup.topic {
                Topic::Events => {
                    let refused = self.source().refuse(partition, refused);
                    self.fail(refused);
                }
                Topic::Signals | Topic::DeadLetters => {
                    self.source().out_of_range(partition, refused);
                    self.start_again(partition, beginning);
                }
            }
        }
    }

    fn fail(&mut self, error: LogError) {
        self.outbox.push_back(Delivered::Failed(error));
    }

    fn name(&self) -> &str {
        self.setup.settings.topics.name(self.setup.topic)
    }

    fn source(&self) -> Source<'_> {
        Source {
            consumer: &self.setup.consumer,
            settings: &self.setup.settings,
            topic: self.setup.topic,
            group: &self.setup.group,
        }
    }

    fn pause(&self, partitions: &[u32]) {
        let list = list::of(self.name(), partitions.iter().copied());
        if let Err(error) = self.setup.consumer.pause(&list) {
            // What comes nevertheless is not taken, and read again after the pause.
            tracing::debug!(%error, "could not pause partitions");
        }
    }

    /// Goes on reading where the role is, not where the client was.
    fn resume(&mut self, which: impl Fn(&Position) -> bool) {
        let resumed = self
            .positions
            .iter_mut()
            .filter(|(_, position)| which(position));
        let mut partitions = Vec::new();
        for (partition, position) in resumed {
            position.seek_due = true;
            partitions.push(*partition);
        }
        let list = list::of(self.name(), partitions);
        if let Err(error) = self.setup.consumer.resume(&list) {
            tracing::warn!(%error, "could not resume partitions");
        }
    }

    fn seek_due(&mut self) {
        if self.throttled {
            return;
        }
        let name = self.name().to_owned();
        for (partition, position) in &mut self.positions {
            if !position.seek_due || position.paused {
                continue;
            }
            let (number, offset) = (list::number(*partition), list::offset(position.next()));
            match self.setup.consumer.seek(&name, number, offset, RETRY) {
                Ok(()) => position.seek_due = false,
                Err(error) => tracing::debug!(%error, partition, "could not seek; trying again"),
            }
        }
    }
}
