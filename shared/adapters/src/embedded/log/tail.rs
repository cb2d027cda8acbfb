//! The newest batches of a partition in memory, so that consumers that keep up read no disk, and
//! the end of what they may see.

use super::format::{Batch, body_bytes};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What a record in memory takes besides its contents, roughly.
const RECORD_OVERHEAD: usize = 128;

/// The tail of one partition.
#[derive(Debug)]
pub(super) struct Tail {
    limit: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    end: u64,
    bytes: usize,
    batches: VecDeque<(usize, Arc<Batch>)>,
}

/// Where the records from an offset on are found.
#[derive(Debug)]
pub(super) enum Found {
    /// There are none yet.
    AtEnd,
    /// In memory: the batch that holds the offset.
    Here(Arc<Batch>),
    /// On disk, up to this offset.
    OnDisk {
        /// The end of what may be read.
        end: u64,
    },
    /// The offset lies beyond the end, which is this.
    Beyond {
        /// The partition's end.
        end: u64,
    },
}

impl Tail {
    /// The empty tail of a partition that ends at `end`; it holds about `limit` bytes.
    pub(super) fn new(end: u64, limit: usize) -> Self {
        let state = State {
            end,
            bytes: 0,
            batches: VecDeque::new(),
        };
        Self {
            limit,
            state: Mutex::new(state),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The offset after the last durable record.
    pub(super) fn end(&self) -> u64 {
        self.lock().end
    }

    /// Shows a durable batch to consumers.
    pub(super) fn publish(&self, batch: Batch) {
        let contents: usize = batch.bodies.iter().map(body_bytes).sum();
        let bytes = contents + batch.bodies.len() * RECORD_OVERHEAD;
        let mut state = self.lock();
        assert_eq!(batch.base, state.end, "offsets of a partition have no gaps");
        state.end = batch.end();
        state.bytes += bytes;
        state.batches.push_back((bytes, Arc::new(batch)));
        while state.bytes > self.limit {
            let Some((bytes, _)) = state.batches.pop_front() else {
                break;
            };
            state.bytes -= bytes;
        }
    }

    /// Finds the records from an offset on.
    pub(super) fn find(&self, offset: u64) -> Found {
        let state = self.lock();
        if offset >= state.end {
            let end = state.end;
            return if offset == end {
                Found::AtEnd
            } else {
                Found::Beyond { end }
            };
        }
        let after = state
            .batches
            .partition_point(|(_, batch)| batch.base <= offset);
        match after.checked_sub(1) {
            Some(at) => Found::Here(Arc::clone(&state.batches[at].1)),
            None => Found::OnDisk { end: state.end },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::Body;
    use quipu_core::time::Micros;

    fn batch(base: u64, count: usize) -> Batch {
        Batch {
            base,
            append_time: Micros::new(1),
            bodies: vec![Body::value("x"); count],
        }
    }

    #[test]
    fn the_tail_finds_what_it_holds_and_sends_the_rest_to_the_disk() {
        let tail = Tail::new(10, 3 * (RECORD_OVERHEAD + 1));
        assert!(matches!(tail.find(10), Found::AtEnd));
        assert!(matches!(tail.find(11), Found::Beyond { end: 10 }));
        assert!(matches!(tail.find(3), Found::OnDisk { end: 10 }));
        tail.publish(batch(10, 2));
        assert!(matches!(tail.find(11), Found::Here(found) if found.base == 10));
        tail.publish(batch(12, 2));
        assert!(matches!(tail.find(11), Found::OnDisk { end: 14 }));
        assert!(matches!(tail.find(13), Found::Here(found) if found.base == 12));
        tail.publish(batch(14, 4));
        assert!(matches!(tail.find(17), Found::OnDisk { end: 18 }));
        assert_eq!(tail.end(), 18);
    }
}
