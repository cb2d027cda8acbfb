//! What must be sent: a machine without IO, rebuilt from the journal after every interruption.
//!
//! The identity of an add is its row's token, its item key and the generation time of an attempt.
//! Two attempts are two events, so an add may get attempt n+1 only when attempt n was refused for
//! good (R16), and whatever may have been sent is sent again as the same attempt. Hence each
//! attempt is durable in the journal before anything of it is sent. Adds are numbers here.

use quipu_core::time::Micros;
use rangemap::{RangeMap, RangeSet};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, ops::Range};

/// One attempt at an add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// 1 for the first.
    pub(crate) number: u32,
    /// Its generation time.
    pub(crate) time: Micros,
}

/// What the journal keeps of an import.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Note {
    /// These adds are about to be sent. It must be durable before they are.
    Send {
        /// Ranges of adds, half open.
        adds: Vec<(u64, u64)>,
        /// The number of the attempt.
        attempt: u32,
        /// Its generation time, in microseconds since the Unix epoch.
        generation_time: i64,
    },
    /// The server refused an add as malformed, so its row is rejected.
    Refused {
        /// The add.
        add: u64,
        /// What the server said.
        reason: String,
    },
    /// All adds below this number are finished. Losing it costs only a repetition.
    Done {
        /// The frontier.
        below: u64,
    },
    /// The whole file is finished.
    Finished(Ended),
}

/// What a finished import has done, over all its runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ended {
    /// How many rows the file has.
    pub(crate) rows: u64,
    /// How many adds are counted.
    pub(crate) adds: u64,
    /// How many rows were rejected.
    pub(crate) rejected: u64,
}

/// The state of an import.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    attempts: RangeMap<u64, Attempt>,
    finished: RangeSet<u64>,
    refused: BTreeMap<u64, String>,
    ended: Option<Ended>,
}

impl Plan {
    /// Takes up a note of the journal, in its order. A later attempt replaces an earlier one: it
    /// was made only because that one had been refused for good.
    pub(crate) fn replay(&mut self, note: Note) {
        match note {
            Note::Send {
                adds,
                attempt,
                generation_time,
            } => {
                let attempt = Attempt {
                    number: attempt,
                    time: Micros::new(generation_time),
                };
                for (first, end) in adds.into_iter().filter(|(first, end)| first < end) {
                    self.attempts.insert(first..end, attempt);
                }
            }
            Note::Refused { add, reason } => {
                self.refused.insert(add, reason);
                self.finish(add..add + 1);
            }
            Note::Done { below } => {
                self.finish(0..below);
            }
            Note::Finished(ended) => self.ended = Some(ended),
        }
    }

    /// The numbers of an import that was finished.
    pub(crate) fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// The adds that the server refused, and why.
    pub(crate) fn refused(&self) -> &BTreeMap<u64, String> {
        &self.refused
    }

    /// All adds below this one are finished.
    pub(crate) fn frontier(&self) -> u64 {
        self.finished
            .first()
            .filter(|range| range.start == 0)
            .map_or(0, |range| range.end)
    }

    /// Whether an add is finished.
    pub(crate) fn is_finished(&self, add: u64) -> bool {
        self.finished.contains(&add)
    }

    /// The attempt under which an add is sent now.
    pub(crate) fn attempt(&self, add: u64) -> Option<Attempt> {
        self.attempts.get(&add).copied()
    }

    /// The adds of a range that were never sent.
    pub(crate) fn unsent(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let range = range.start.max(self.frontier())..range.end;
        if range.is_empty() {
            Vec::new()
        } else {
            self.attempts.gaps(&range).collect()
        }
    }

    /// Begins the next attempt at adds that were never sent, or whose last attempt was refused
    /// for good. The note must be durable before any of them is sent.
    pub(crate) fn begin(&mut self, adds: &[Range<u64>], now: Micros) -> Note {
        let before = adds
            .iter()
            .flat_map(|range| self.attempts.overlapping(range));
        let before = before.map(|(_, attempt)| *attempt);
        let (number, time) = before.fold((1, now), |(number, time), attempt| {
            // Always later than the attempt before, or it would be the same event again.
            (
                number.max(attempt.number + 1),
                time.max(attempt.time.succ()),
            )
        });
        let adds = adds.iter().map(|range| (range.start, range.end)).collect();
        let note = Note::Send {
            adds,
            attempt: number,
            generation_time: time.get(),
        };
        self.replay(note.clone());
        note
    }

    /// Finishes adds. Returns a note when the frontier moved.
    pub(crate) fn finish(&mut self, adds: Range<u64>) -> Option<Note> {
        let before = self.frontier();
        if !adds.is_empty() {
            self.finished.insert(adds);
        }
        let below = self.frontier();
        if below == before {
            return None;
        }
        self.attempts.remove(before..below);
        Some(Note::Done { below })
    }
}
