//! What became of adds, as far as their answers tell.

use crate::{
    cluster::batch::{self, TOGETHER},
    freshness::COUNTERS,
};
use jiff::Timestamp;
use serde_json::Value;
use std::{ops::Sub, time::Instant};

/// What is known of all adds so far.
pub(super) struct Tally {
    /// By the counter's number.
    pub(super) counters: Vec<Counter>,
    pub(super) totals: Totals,
    /// What is to be retried, of one batch in [`BATCHES_A_RETRY`].
    pub(super) unresolved: Vec<Unresolved>,
    /// When the first add since this was last cleared was accepted.
    pub(super) first_accepted: Option<Instant>,
}

/// A batch of which some adds are of unknown outcome.
pub(super) struct Unresolved {
    pub(super) batch: u64,
    pub(super) generated: Timestamp,
    /// Their places in the batch.
    pub(super) items: Vec<usize>,
}

/// Adds that were retried until their outcome was known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Resolved {
    pub(super) counted: u64,
    pub(super) refused: u64,
}

/// What is known of the adds to a counter, each of 1.
#[derive(Clone, Debug, Default)]
pub(super) struct Counter {
    pub(super) accepted: u64,
    /// May have been counted.
    pub(super) unknown: u64,
    /// When the last accepted one was generated.
    pub(super) last_accepted: Option<Timestamp>,
}

/// Adds and reads by their outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) accepted: u64,
    /// Were not counted, and will not be without a retry.
    pub(super) refused: u64,
    pub(super) unknown: u64,
    pub(super) read: u64,
    pub(super) unread: u64,
}

impl Sub for Totals {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            accepted: self.accepted - before.accepted,
            refused: self.refused - before.refused,
            unknown: self.unknown - before.unknown,
            read: self.read - before.read,
            unread: self.unread - before.unread,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Counted,
    /// Neither this attempt nor an earlier one was counted, and none will be.
    Refused,
    /// This attempt was not counted.
    NothingWritten,
    Unknown,
}

/// As retries take their time, only these are made. All batches of a counter are among them or none
/// is, since each batch goes on where the one before it ended, and their number for all counters is
/// a multiple of this.
const BATCHES_A_RETRY: u64 = 10;
const _: () = assert!((COUNTERS / TOGETHER).is_multiple_of(BATCHES_A_RETRY));

impl Tally {
    pub(super) fn new() -> Self {
        Self {
            counters: vec![Counter::default(); index(COUNTERS)],
            totals: Totals::default(),
            unresolved: Vec::new(),
            first_accepted: None,
        }
    }

    /// Notes what the first answer to a batch says of its adds, if there was one.
    pub(super) fn answered(&mut self, batch: u64, generated: Timestamp, answer: Option<&Value>) {
        let mut unknown = Vec::new();
        for (item, counter) in batch::counters(batch).enumerate() {
            let counter = &mut self.counters[index(counter)];
            match answer.map_or(Outcome::Unknown, |answer| outcome(answer, item)) {
                Outcome::Counted => {
                    counter.accepted(generated);
                    self.totals.accepted += 1;
                    self.first_accepted.get_or_insert_with(Instant::now);
                }
                Outcome::Refused | Outcome::NothingWritten => self.totals.refused += 1,
                Outcome::Unknown => {
                    counter.unknown += 1;
                    self.totals.unknown += 1;
                    unknown.push(item);
                }
            }
        }
        if !unknown.is_empty() && batch.is_multiple_of(BATCHES_A_RETRY) {
            self.unresolved.push(Unresolved {
                batch,
                generated,
                items: unknown,
            });
        }
    }

    /// Notes what the answer to a retry says, if it says what became of every add that is unknown.
    pub(super) fn resolve(&mut self, retried: &Unresolved, answer: &Value) -> Option<Resolved> {
        let outcomes = retried
            .items
            .iter()
            .map(|item| match outcome(answer, *item) {
                Outcome::Counted => Some(true),
                Outcome::Refused => Some(false),
                Outcome::NothingWritten | Outcome::Unknown => None,
            });
        let outcomes: Vec<bool> = outcomes.collect::<Option<_>>()?;
        let counters: Vec<u64> = batch::counters(retried.batch).collect();
        let mut resolved = Resolved::default();
        for (item, counted) in retried.items.iter().zip(outcomes) {
            let counter = &mut self.counters[index(counters[*item])];
            counter.unknown -= 1;
            if counted {
                counter.accepted(retried.generated);
                resolved.counted += 1;
            } else {
                resolved.refused += 1;
            }
        }
        Some(resolved)
    }
}

impl Counter {
    fn accepted(&mut self, generated: Timestamp) {
        self.accepted += 1;
        self.last_accepted = self.last_accepted.max(Some(generated));
    }
}

fn index(counter: u64) -> usize {
    usize::try_from(counter).expect("counters are few")
}

/// What an answer says of an item of a batch, which has its own answer unless the whole batch
/// failed.
fn outcome(answer: &Value, item: usize) -> Outcome {
    let answer = answer
        .pointer(&format!("/results/{item}"))
        .unwrap_or(answer);
    if answer["status"].is_string() {
        return Outcome::Counted;
    }
    let mut details = answer["error"]["details"].as_array().into_iter().flatten();
    match details.find_map(|detail| detail["reason"].as_str()) {
        Some("LATE") => Outcome::Refused,
        Some("POLICY_EXPIRED" | "OVERLOADED") => Outcome::NothingWritten,
        _ => Outcome::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn failed(reason: &str) -> Value {
        json!({"error": {"details": [{"reason": reason}]}})
    }

    #[test]
    fn what_one_answer_leaves_open_a_retry_settles() {
        let mut tally = Tally::new();
        let mut results = vec![json!({"status": "ACCEPTED"}); 50];
        results[1] = failed("STORAGE_UNAVAILABLE");
        results[2] = failed("UNDECIDED");
        results[3] = failed("LATE");
        let answer = json!({"results": results});
        tally.answered(0, Timestamp::UNIX_EPOCH, Some(&answer));
        tally.answered(10, Timestamp::UNIX_EPOCH, Some(&failed("POLICY_EXPIRED")));
        let totals = tally.totals;
        assert_eq!(
            (totals.accepted, totals.refused, totals.unknown),
            (47, 51, 2)
        );

        let open = tally.unresolved.pop().unwrap();
        assert_eq!(tally.resolve(&open, &failed("POLICY_EXPIRED")), None);
        results[1] = json!({"status": "ALREADY_APPLIED"});
        assert_eq!(tally.resolve(&open, &json!({"results": results})), None);
        results[2] = failed("LATE");
        let resolved = tally.resolve(&open, &json!({"results": results}));
        let (counted, refused) = (1, 1);
        assert_eq!(resolved, Some(Resolved { counted, refused }));
        let known = |at: usize| (tally.counters[at].accepted, tally.counters[at].unknown);
        assert_eq!([0, 1, 2, 3].map(known), [(1, 0), (1, 0), (0, 0), (0, 0)]);
    }
}
