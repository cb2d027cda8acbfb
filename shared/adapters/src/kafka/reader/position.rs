//! Where the thread is in a partition.

use super::{BATCH_BYTES, BATCH_RECORDS};
use crate::{kafka::record::size, ports::Record};

/// A partition that is read.
#[derive(Debug)]
pub(super) struct Position {
    next: u64,
    assignment: u64,
    seeks: u64,
    /// The role wants nothing of it now.
    pub(super) paused: bool,
    /// The client has to be told where to go on; what it brings until then is not wanted.
    pub(super) seek_due: bool,
    batch: Vec<Record>,
    bytes: usize,
}

impl Position {
    pub(super) fn new(next: u64, assignment: u64) -> Self {
        Self {
            next,
            assignment,
            seeks: 0,
            paused: false,
            seek_due: false,
            batch: Vec::new(),
            bytes: 0,
        }
    }

    /// The offset of the next record that the role wants.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Which assignment of the partition this is, and how often the role has sought in it.
    pub(super) fn number(&self) -> (u64, u64) {
        (self.assignment, self.seeks)
    }

    pub(super) fn is_assignment(&self, assignment: u64) -> bool {
        self.assignment == assignment
    }

    pub(super) fn is_read(&self) -> bool {
        !self.paused && !self.seek_due
    }

    pub(super) fn wants(&self, offset: u64) -> bool {
        self.is_read() && offset >= self.next
    }

    pub(super) fn push(&mut self, record: Record) {
        assert!(record.offset >= self.next, "records come in order");
        self.next = record.offset + 1;
        self.bytes += size(&record.body);
        self.batch.push(record);
    }

    pub(super) fn is_full(&self) -> bool {
        self.batch.len() >= BATCH_RECORDS || self.bytes >= BATCH_BYTES
    }

    pub(super) fn take_batch(&mut self) -> Vec<Record> {
        self.bytes = 0;
        std::mem::take(&mut self.batch)
    }

    pub(super) fn seek(&mut self, next: u64, seeks: u64) {
        self.next = next;
        self.seeks = seeks;
        self.seek_due = true;
        self.take_batch();
    }
}
