//! The simulated log.
//!
//! Fault model. Offsets rise with gaps. Each events partition has a clock of its own that steps
//! back and forward; the raw clock is what the stamp shows. Some stamps are the producer's. An
//! append may fail with or without effect, and a batch of appends may take effect in part. A
//! commit is kept at once, whoever makes it: a zombie's commit may move a frontier back, and so may
//! its watermark record. A commit's metadata may be lost. Members of a group learn late that a
//! partition was taken from them. Nobody reads past an open transaction; one that is aborted leaves
//! gaps. Partitions are added.

use super::super::{bug::Bug, rng::Rng};
use quipu_adapters::{
    ports::{Body, Committed, Record, Stamp},
    starts::{self, Known},
};
use quipu_core::time::Micros;
use std::collections::{BTreeSet, VecDeque};

/// A record as the log holds it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// What consumers see.
    pub record: Record,
    /// The true effective time: the running maximum of the log's own stamps.
    pub effective: Micros,
}

/// Who stamps a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stamper {
    /// The log, as it should.
    Log,
    /// The producer: the topic's setting was changed.
    Producer,
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransactionEnd {
    /// Its records can be read.
    Commit,
    /// Nobody ever reads them.
    Abort,
}

/// A partition of a topic.
#[derive(Clone, Debug)]
pub(crate) struct Partition {
    /// Its records, in the order of offsets.
    pub entries: Vec<Entry>,
    /// The effective time that it began with.
    pub initial: Micros,
    /// How far its clock is off, in microseconds.
    pub clock_skew: i64,
    /// What was committed last.
    pub committed: Committed,
    /// The newest watermark record, which need not be the furthest.
    pub watermark: Option<Committed>,
    /// The offsets of the open transaction's records.
    pub transaction: Vec<u64>,
    end: u64,
}

/// What a member of a consumer group is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// It owns the partition from its committed frontier on.
    Assign(u32),
    /// It must let go. If the next owner waits for that, it is named.
    Revoke(u32, Option<usize>),
}

/// A topic with one consumer group.
#[derive(Clone, Debug)]
pub(crate) struct TopicState {
    /// Its partitions.
    pub partitions: Vec<Partition>,
    /// The rightful owner of each partition.
    pub owners: Vec<Option<usize>>,
    /// Partitions that an owner was asked to hand over.
    pub moving: BTreeSet<u32>,
    /// What each member is to be told.
    pub inbox: Vec<VecDeque<Notice>>,
}

impl Partition {
    fn new(initial: Micros) -> Self {
        let committed = Committed {
            next_offset: 0,
            effective_time: initial,
        };
        Self {
            entries: Vec::new(),
            initial,
            clock_skew: 0,
            committed,
            watermark: None,
            transaction: Vec::new(),
            end: 0,
        }
    }

    /// The effective time at the end.
    pub(crate) fn effective(&self) -> Micros {
        self.entries
            .last()
            .map_or(self.initial, |entry| entry.effective)
    }

    /// Appends a record at `now`, and returns its offset and its append time.
    pub(crate) fn append(
        &mut self,
        rng: &mut Rng,
        now: Micros,
        stamper: Stamper,
        body: Body,
    ) -> (u64, Micros) {
        let shown = Micros::new(now.get() + self.clock_skew);
        let (stamp, effective) = match stamper {
            Stamper::Log => (Stamp::Log(shown), self.effective().max(shown)),
            Stamper::Producer => {
                let claimed = Micros::new(shown.get() + rng.around(3_600_000_000));
                (Stamp::Producer(claimed), self.effective())
            }
        };
        let offset = self.end + if rng.chance(5) { 1 + rng.below(3) } else { 0 };
        self.end = offset + 1;
        self.entries.push(Entry {
            record: Record {
                offset,
                stamp,
                body,
            },
            effective,
        });
        (offset, shown)
    }

    /// The index of the first record at or after an offset.
    pub(crate) fn index(&self, offset: u64) -> usize {
        self.entries
            .partition_point(|entry| entry.record.offset < offset)
    }

    /// The records before the open transaction.
    pub(crate) fn stable(&self) -> usize {
        let first = self.transaction.first();
        first.map_or(self.entries.len(), |first| self.index(*first))
    }

    /// Up to `limit` records from an offset on, of the first so many.
    pub(crate) fn read(&self, offset: u64, limit: usize, through: usize) -> Vec<Record> {
        let from = self.index(offset).min(through);
        self.entries[from..through]
            .iter()
            .take(limit)
            .map(|entry| entry.record.clone())
            .collect()
    }

    /// Where to go on when the commit's metadata is lost.
    pub(crate) fn start_without_metadata(&self, bug: Option<Bug>) -> Committed {
        let next_offset = self.committed.next_offset;
        if bug == Some(Bug::WithoutMetadataFromTheCommit) {
            let effective_time = self.initial;
            return Committed {
                next_offset,
                effective_time,
            };
        }
        let known = Known {
            committed: Some((next_offset, None)).filter(|(next, _)| *next > 0),
            watermark: self.watermark,
            beginning: 0,
            end: self.end,
            initial: self.initial,
        };
        // Without a watermark record an operator decides: who finds the true frontier.
        starts::events(known).unwrap_or(self.committed)
    }

    /// Ends the open transaction. Returns the records that are gone.
    pub(crate) fn end_transaction(&mut self, end: TransactionEnd) -> Vec<u64> {
        let mut offsets = std::mem::take(&mut self.transaction);
        if end == TransactionEnd::Commit {
            offsets.clear();
        }
        self.entries
            .retain(|entry| !offsets.contains(&entry.record.offset));
        let mut effective = self.initial;
        for entry in &mut self.entries {
            if let Stamp::Log(stamp) = entry.record.stamp {
                effective = effective.max(stamp);
            }
            entry.effective = effective;
        }
        offsets
    }

    /// The effective time of the frontier at an offset.
    pub(crate) fn effective_before(&self, offset: u64) -> Micros {
        let index = self.index(offset);
        index
            .checked_sub(1)
            .map_or(self.initial, |last| self.entries[last].effective)
    }
}

impl TopicState {
    /// A topic whose partitions begin at an effective time.
    pub(crate) fn new(partitions: usize, members: usize, initial: Micros) -> Self {
        Self {
            partitions: vec![Partition::new(initial); partitions],
            owners: vec![None; partitions],
            moving: BTreeSet::new(),
            inbox: vec![VecDeque::new(); members],
        }
    }

    /// Adds a partition, which a member owns.
    pub(crate) fn add(&mut self, initial: Micros, owner: usize) {
        let id = u32::try_from(self.partitions.len()).expect("few partitions");
        self.partitions.push(Partition::new(initial));
        self.owners.push(None);
        self.assign(id, owner);
    }

    /// A partition by its number.
    pub(crate) fn partition(&mut self, id: u32) -> &mut Partition {
        &mut self.partitions[id as usize]
    }

    /// Gives a partition to a member.
    pub(crate) fn assign(&mut self, id: u32, member: usize) {
        self.moving.remove(&id);
        self.owners[id as usize] = Some(member);
        self.inbox[member].push_back(Notice::Assign(id));
    }

    /// A member died: what it owned, and what waited for it, goes to another.
    pub(crate) fn leave(&mut self, member: usize, heir: usize) {
        let told: Vec<Notice> = self.inbox[member].drain(..).collect();
        let mut orphans: Vec<u32> = Vec::new();
        for (id, owner) in self.owners.iter().enumerate() {
            if *owner == Some(member) {
                orphans.push(u32::try_from(id).expect("few partitions"));
            }
        }
        for notice in told {
            if let Notice::Revoke(id, Some(next)) = notice
                && self.owners[id as usize] == Some(member)
            {
                self.assign(id, next);
                orphans.retain(|orphan| *orphan != id);
            }
        }
        for id in orphans {
            self.assign(id, heir);
        }
    }
}
