//! The log: topics of partitions, offsets and append times; consumers with committed frontiers.

use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use quipu_core::time::Micros;
use std::{collections::BTreeMap, future};

/// The topics that Quipu uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    /// Mutations, as `quipu.v1.CounterEvent`, and ticks.
    Events,
    /// "Look at this counter", as `quipu.v1.Signal`.
    Signals,
    /// Refused records with their original bytes.
    DeadLetters,
}

/// A record to append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRecord {
    /// The partition to append to.
    pub partition: u32,
    /// What it carries.
    pub body: Body,
}

/// What a record carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A value with headers.
    Data {
        /// The value.
        value: Bytes,
        /// Headers, in order.
        headers: Vec<(String, Bytes)>,
    },
    /// Quipu's own record without a value: the log's clock moves the watermark (R13).
    Tick,
}

impl Body {
    /// A value without headers.
    pub fn value(value: impl Into<Bytes>) -> Self {
        Self::Data {
            value: value.into(),
            headers: Vec::new(),
        }
    }
}

/// Where and when a record was appended, once that is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The partition.
    pub partition: u32,
    /// Its offset there.
    pub offset: u64,
    /// The log's append time. The embedded log returns the effective time itself (R7).
    pub append_time: Micros,
}

/// Who stamped a record's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// The log, at the append.
    Log(Micros),
    /// The producer: worthless for acceptance (R1).
    Producer(Micros),
}

/// A record read from a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its offset. Offsets rise, with gaps.
    pub offset: u64,
    /// Its append time.
    pub stamp: Stamp,
    /// What it carries.
    pub body: Body,
}

/// A committed frontier: everything before `next_offset` is finished (R2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The first offset that is not finished.
    pub next_offset: u64,
    /// The effective time of the frontier.
    pub effective_time: Micros,
}

/// A partition that a consumer now owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Which partition.
    pub partition: u32,
    /// Where it starts: the committed frontier, or the partition's beginning with its initial
    /// effective time.
    pub start: Committed,
}

/// What a poll brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Polled {
    /// Partitions were assigned.
    Assigned(Vec<Assignment>),
    /// Partitions are about to be taken away, and bring nothing more: finish what is under way,
    /// commit, and [`Consumer::release`] them. What was read of the others goes on meanwhile.
    Revoked(Vec<u32>),
    /// Partitions are gone, and others may own them already: drop what is under way for them.
    Lost(Vec<u32>),
    /// Records of one partition, in the order of offsets; never empty.
    Records {
        /// The partition.
        partition: u32,
        /// The records.
        records: Vec<Record>,
    },
    /// The consumer read a partition to its end (R13). Told once for each time it gets there.
    End {
        /// The partition.
        partition: u32,
    },
}

/// The log could not do what was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LogError {
    /// Try again later. A record may or may not have been appended.
    #[error("the log is unavailable: {0}")]
    Unavailable(String),
    /// Nothing was appended: the log's clock is not to be trusted (R3).
    #[error("the log stopped: {0}")]
    ClockJumped(#[from] quipu_core::clock_guard::ClockJumped),
    /// Nothing was appended: the record is larger than the log takes.
    #[error("a record of {bytes} bytes is larger than the log's limit of {limit}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The client lost the log for good, while others reach it: go on with another one, from what
    /// is committed.
    #[error("a client lost the log for good: {0}")]
    ClientLost(String),
    /// Stop: what the log holds contradicts an invariant or cannot be read.
    #[error("the log is damaged: {0}")]
    Damaged(String),
}

/// Appends records.
pub trait Producer: Clone + Send + Sync + 'static {
    /// How many partitions a topic has.
    fn partitions(&self, topic: Topic) -> u32;

    /// Appends records, and resolves once all are durable, in the order given.
    fn append(
        &self,
        topic: Topic,
        records: Vec<NewRecord>,
    ) -> impl Future<Output = Result<Vec<Appended>, LogError>> + Send;
}

/// Reads one topic as a member of a consumer group.
pub trait Consumer: Send + 'static {
    /// Waits for the next thing to know. Dropping the future loses nothing.
    fn poll(&mut self) -> impl Future<Output = Result<Polled, LogError>> + Send;

    /// Commits frontiers, by partition. They need not be durable when this resolves, but each is
    /// durable only after everything appended before it. Does nothing until it is polled, and
    /// records can be polled meanwhile.
    fn commit(
        &mut self,
        frontiers: Vec<(u32, Committed)>,
    ) -> BoxFuture<'static, Result<(), LogError>>;

    /// Hands revoked partitions back: somebody else reads them from what was committed. Logs
    /// without groups never revoke, and have nothing to do here.
    fn release(&mut self, partitions: Vec<u32>);

    /// Goes on reading a partition at an offset, after writes were lost (R11).
    fn seek(&mut self, partition: u32, next_offset: u64);

    /// Stops bringing records of a partition until [`Self::resume`]; the rest goes on.
    fn pause(&mut self, partition: u32);

    /// Goes on after [`Self::pause`].
    fn resume(&mut self, partition: u32);

    /// The offset behind the last record of each partition that is owned, for people to see:
    /// nothing depends on it, and a partition that does not answer is left out. Does nothing until
    /// it is polled.
    fn ends(&self) -> BoxFuture<'static, BTreeMap<u32, u64>> {
        future::ready(BTreeMap::new()).boxed()
    }
}
