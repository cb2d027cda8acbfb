//! Whether what is found afterwards is what was attempted and promised. Pure.

mod counts;
mod events;
mod violation;

#[cfg(test)]
mod tests;

pub use violation::{Source, Violation};

use crate::{
    entry::{Entry, Heard},
    observed::Observed,
};
use quipu_core::{event::EventKey, event::Mutation, name::CounterName};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The outcome of a run.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// What is wrong. Empty, if nothing was lost and nothing counted twice.
    pub violations: Vec<Violation>,
    /// What was looked at.
    pub tally: Tally,
}

/// How much a verdict stands on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Identities that were attempted.
    pub attempted: usize,
    /// Of those, the ones that somebody promised to count.
    pub acknowledged: usize,
    /// Refused as late, for good.
    pub late: usize,
    /// Published straight to the log, which promises a verdict and no more.
    pub published: usize,
    /// Refused otherwise at the last.
    pub refused: usize,
    /// Nothing that was heard settles them.
    pub unknown: usize,
    /// Stored: rows with an identity of their own.
    pub stored: usize,
    /// Attempted, and never in the log.
    pub never_in_log: usize,
    /// Records of the run in the log, copies and poison included.
    pub records: usize,
    /// Records that are no events.
    pub poison: usize,
    /// Refused records, by reason.
    pub dead_letters: BTreeMap<String, usize>,
    /// Counters of which every count was compared.
    pub counters: usize,
    /// Reads during the run that were compared.
    pub reads: usize,
}

/// The events that are stored, as the rows say and as the ledger knows them.
struct Stored<'a> {
    entries: HashMap<(&'a CounterName, &'a EventKey), &'a Entry>,
    /// Of each counter, its distinct rows in their order.
    rows: BTreeMap<&'a CounterName, BTreeMap<&'a EventKey, Mutation>>,
}

impl<'a> Stored<'a> {
    fn new(entries: &'a [Entry], observed: &'a Observed) -> Self {
        let by_identity = entries
            .iter()
            .map(|entry| ((&entry.counter, &entry.key), entry));
        let mut rows: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for entry in entries {
            rows.entry(&entry.counter).or_default();
        }
        for (counter, found) in &observed.rows {
            let of_it = rows.entry(counter).or_default();
            of_it.extend(found.iter().map(|row| (&row.key, row.mutation)));
        }
        Self {
            entries: by_identity.collect(),
            rows,
        }
    }

    fn has(&self, counter: &CounterName, key: &EventKey) -> bool {
        self.rows
            .get(counter)
            .is_some_and(|rows| rows.contains_key(key))
    }
}

/// Compares the ledger with what was found.
pub fn judge(entries: &[Entry], observed: &Observed) -> Verdict {
    let stored = Stored::new(entries, observed);
    let mut violations = Vec::new();
    events::check_rows(&stored, observed, &mut violations);
    events::check_entries(entries, &stored, observed, &mut violations);
    events::check_records(&stored, observed, &mut violations);
    counts::check_counters(&stored, observed, &mut violations);
    counts::check_shown(&stored, observed, &mut violations);
    Verdict {
        violations,
        tally: tally(entries, &stored, observed),
    }
}

fn tally(entries: &[Entry], stored: &Stored<'_>, observed: &Observed) -> Tally {
    let in_log: BTreeSet<_> = observed.log.values().filter_map(events::identity).collect();
    let mut dead_letters = BTreeMap::new();
    for reason in observed.dead.values() {
        *dead_letters.entry(reason.clone()).or_default() += 1;
    }
    let heard = |wanted: Settled| {
        let of_it = entries.iter().filter(|entry| settled(entry) == wanted);
        of_it.count()
    };
    Tally {
        attempted: entries.len(),
        acknowledged: heard(Settled::Acknowledged),
        late: heard(Settled::Late),
        published: heard(Settled::Published),
        refused: heard(Settled::Refused),
        unknown: heard(Settled::Unknown),
        stored: stored.rows.values().map(BTreeMap::len).sum(),
        never_in_log: entries
            .iter()
            .filter(|entry| !in_log.contains(&(&entry.counter, &entry.key)))
            .count(),
        records: observed.log.len(),
        poison: observed
            .log
            .values()
            .filter(|record| events::identity(record).is_none())
            .count(),
        dead_letters,
        counters: stored.rows.len(),
        reads: observed.shown.len(),
    }
}

/// The most that was heard of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settled {
    Acknowledged,
    Late,
    Published,
    Refused,
    Unknown,
}

fn settled(entry: &Entry) -> Settled {
    let heard = |wanted: fn(&Heard) -> bool| entry.heard.iter().any(wanted);
    if entry.is_acknowledged() {
        Settled::Acknowledged
    } else if entry.is_refused_for_good() {
        Settled::Late
    } else if heard(|heard| matches!(heard, Heard::Published(..))) {
        Settled::Published
    } else if heard(|heard| matches!(heard, Heard::Refused(_))) {
        Settled::Refused
    } else {
        Settled::Unknown
    }
}
