//! Which acknowledged writes of one user of the store are not yet known to be durable (R11).
//!
//! A write is noted under the generation of the node that was known when it began. It changes
//! at every start of the node, so writes noted under another one than a later probe found may be
//! lost; those under the same one, acknowledged well before that probe began, cannot be.

use std::collections::BTreeMap;

/// The number that a node gives itself at each start: another one each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cassandra) struct NodeGeneration(pub(super) i64);

/// What a call to sync must find out about: every write acknowledged before it that no earlier
/// call has answered for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Covered {
    /// The last write that it covers.
    through: u64,
    /// The generation that they were all noted under. `None` when the node restarted between
    /// them: then some are lost whatever a probe finds.
    generation: Option<NodeGeneration>,
}

/// Writes from `first` to `last`, and perhaps writes of other generations between them.
#[derive(Clone, Copy, Debug)]
struct Span {
    first: u64,
    last: u64,
}

/// The writes that no call to sync has answered for, by generation. It stays as small as the
/// number of restarts between two calls.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    written: u64,
    open: BTreeMap<NodeGeneration, Span>,
}

impl Ledger {
    /// Notes that a write is acknowledged, which began when `known` was known.
    pub(super) fn acknowledged(&mut self, known: NodeGeneration) {
        self.written += 1;
        let first = self.written;
        let span = self.open.entry(known).or_insert(Span { first, last: 0 });
        span.last = self.written;
    }

    /// What a call to sync that begins now covers; `None` when every write was answered for.
    pub(super) fn cover(&self) -> Option<Covered> {
        let first = *self.open.first_key_value()?.0;
        Some(Covered {
            through: self.written,
            generation: (self.open.len() == 1).then_some(first),
        })
    }

    /// Answers a call: `found` was the generation after the probe. Whether what it covers is
    /// durable; if not, writes that it does not cover stay open, so that the calls that cover
    /// those are told of the loss too.
    pub(super) fn settle(&mut self, covered: Covered, found: NodeGeneration) -> bool {
        let durable = covered.generation == Some(found);
        let through = covered.through;
        self.open.retain(|generation, span| {
            let answered = durable || *generation != found;
            if answered && span.first <= through {
                span.first = through + 1;
            }
            span.first <= span.last
        });
        durable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeGeneration = NodeGeneration(10);
    const B: NodeGeneration = NodeGeneration(20);

    fn after(writes: &[NodeGeneration]) -> Ledger {
        let mut ledger = Ledger::default();
        for known in writes {
            ledger.acknowledged(*known);
        }
        ledger
    }

    #[test]
    fn writes_of_a_node_that_did_not_restart_are_durable_and_answered_for_once() {
        let mut ledger = after(&[A, A]);
        let covered = ledger.cover().expect("two writes are open");
        assert!(ledger.settle(covered, A));
        assert_eq!(ledger.cover(), None);
    }

    #[test]
    fn every_overlapping_call_is_told_of_a_restart() {
        let mut ledger = after(&[A]);
        let first = ledger.cover().expect("open");
        ledger.acknowledged(A);
        let second = ledger.cover().expect("open");
        assert!(!ledger.settle(first, B));
        assert!(!ledger.settle(second, B));
        assert_eq!(ledger.cover(), None);
    }

    #[test]
    fn a_write_that_no_call_covered_is_still_told_to_be_lost() {
        let mut ledger = after(&[A]);
        let first = ledger.cover().expect("open");
        ledger.acknowledged(A);
        assert!(!ledger.settle(first, B));
        ledger.acknowledged(B);
        let second = ledger.cover().expect("the second write is open");
        assert!(!ledger.settle(second, B));
        let third = ledger.cover().expect("what was written again is open");
        assert!(ledger.settle(third, B));
    }

    #[test]
    fn what_was_written_again_after_a_restart_is_durable_at_the_next_call() {
        let mut ledger = after(&[A, A]);
        let lost = ledger.cover().expect("open");
        assert!(!ledger.settle(lost, B));
        ledger.acknowledged(B);
        let again = ledger.cover().expect("open");
        assert!(ledger.settle(again, B));
    }

    #[test]
    fn a_write_after_the_call_is_not_answered_by_it() {
        let mut ledger = after(&[A]);
        let covered = ledger.cover().expect("open");
        ledger.acknowledged(A);
        assert!(ledger.settle(covered, A));
        assert!(ledger.cover().is_some());
    }

    #[test]
    fn a_call_that_failed_leaves_its_writes_to_the_next() {
        let mut ledger = after(&[A]);
        let failed = ledger.cover().expect("open");
        assert_eq!(ledger.cover(), Some(failed));
        assert!(!ledger.settle(failed, B));
    }
}
