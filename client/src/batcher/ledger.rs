//! What a batcher has sent and not settled, and what failed. A machine without IO.

use super::FailedAdd;
use std::{collections::BTreeSet, mem};

/// What became of the adds since the last report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many count.
    pub applied: u64,
    /// How many failed.
    pub failed: u64,
    /// The first thousand of those that failed, and why.
    pub failures: Vec<FailedAdd>,
}

/// Calls by number, and whom to tell when they are done.
#[derive(Debug)]
pub(crate) struct Ledger<W> {
    next: u64,
    under_way: BTreeSet<u64>,
    /// With the number of the first call that they do not wait for.
    waiting: Vec<(u64, W)>,
    report: Report,
}

impl<W> Ledger<W> {
    const FAILURES: usize = 1_000;

    pub(crate) fn new() -> Self {
        Self {
            next: 0,
            under_way: BTreeSet::new(),
            waiting: Vec::new(),
            report: Report::default(),
        }
    }

    /// Notes a call. Returns its number.
    pub(crate) fn begin(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        self.under_way.insert(number);
        number
    }

    /// Notes that somebody waits for all calls so far.
    pub(crate) fn wait(&mut self, waiter: W) {
        self.waiting.push((self.next, waiter));
    }

    /// Notes an add that counts.
    pub(crate) fn applied(&mut self) {
        self.report.applied += 1;
    }

    /// Notes an add that failed.
    pub(crate) fn failed(&mut self, add: FailedAdd) {
        self.report.failed += 1;
        if self.report.failures.len() < Self::FAILURES {
            self.report.failures.push(add);
        }
    }

    /// Notes that all adds of a call are settled.
    pub(crate) fn end(&mut self, number: u64) {
        let known = self.under_way.remove(&number);
        assert!(known, "call {number} ends twice");
    }

    /// Those who need not wait any longer, each with what happened since the last report; the
    /// first of several gets it all.
    pub(crate) fn served(&mut self) -> Vec<(W, Report)> {
        let first = self.under_way.first().copied().unwrap_or(self.next);
        let (served, waiting) = mem::take(&mut self.waiting)
            .into_iter()
            .partition(|(until, _)| *until <= first);
        self.waiting = waiting;
        let served: Vec<(u64, W)> = served;
        let reported = served
            .into_iter()
            .map(|(_, waiter)| (waiter, mem::take(&mut self.report)));
        reported.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::{Error, Failure};

    #[test]
    fn a_flush_waits_for_the_calls_before_it_and_for_no_other() {
        let mut ledger = Ledger::new();
        let (first, second) = (ledger.begin(), ledger.begin());
        ledger.wait("flush");
        let third = ledger.begin();
        ledger.end(second);
        assert!(ledger.served().is_empty());
        ledger.applied();
        ledger.end(first);
        let served = ledger.served();
        assert_eq!((served[0].0, served[0].1.applied), ("flush", 1));
        ledger.end(third);
        assert!(ledger.served().is_empty());
        ledger.wait("idle");
        assert_eq!(ledger.served(), [("idle", Report::default())]);
    }

    #[test]
    fn failures_are_all_counted_but_only_so_many_kept() {
        let mut ledger = Ledger::new();
        for _ in 0..1_500 {
            ledger.failed(FailedAdd {
                namespace: "n".to_owned(),
                counter: "c".to_owned(),
                delta: 1,
                error: Error::unsent(Failure::invalid("bad")),
            });
        }
        ledger.wait(());
        let report = ledger.served().remove(0).1;
        assert_eq!((report.failed, report.failures.len()), (1_500, 1_000));
    }
}
