//! Every record has one verdict, every promise is kept, and every row was attempted.

use super::{Stored, Violation};
use crate::{
    entry::{Entry, Heard},
    observed::{Logged, Observed},
};
use quipu_core::{event::EventKey, name::CounterName};
use std::collections::BTreeSet;

/// Whose record it is; none for poison.
pub(super) fn identity(record: &Logged) -> Option<(&CounterName, &EventKey)> {
    match record {
        Logged::Event(counter, key) => Some((counter, key)),
        Logged::Poison => None,
    }
}

/// Rows are distinct, were attempted as they are, and come from a record that was not refused.
pub(super) fn check_rows(stored: &Stored<'_>, observed: &Observed, found: &mut Vec<Violation>) {
    for (counter, rows) in &observed.rows {
        let mut seen = BTreeSet::new();
        for row in rows {
            let (counter, key) = (counter.clone(), row.key.clone());
            if !seen.insert(&row.key) {
                found.push(Violation::Doubled { counter, key });
                continue;
            }
            match stored.entries.get(&(&counter, &key)) {
                None => {
                    found.push(Violation::Invented { counter, key });
                    continue;
                }
                Some(entry) if entry.mutation != row.mutation => {
                    found.push(Violation::Changed {
                        counter: counter.clone(),
                        key: key.clone(),
                        attempted: entry.mutation,
                        stored: row.mutation,
                    });
                }
                Some(_) => {}
            }
            let place = (row.source.partition, row.source.offset);
            let source = observed.log.get(&place).and_then(identity);
            if source != Some((&counter, &key)) {
                found.push(Violation::WrongSource {
                    counter,
                    key,
                    place,
                });
            } else if let Some(reason) = observed.dead.get(&place) {
                found.push(Violation::TwoVerdicts {
                    counter,
                    key,
                    place,
                    reason: reason.clone(),
                });
            }
        }
    }
}

/// What was promised holds.
pub(super) fn check_entries(
    entries: &[Entry],
    stored: &Stored<'_>,
    observed: &Observed,
    found: &mut Vec<Violation>,
) {
    for entry in entries {
        let (counter, key) = (&entry.counter, &entry.key);
        let is_stored = stored.has(counter, key);
        if entry.is_acknowledged() && !is_stored {
            found.push(Violation::Lost {
                counter: counter.clone(),
                key: key.clone(),
            });
        }
        if entry.is_refused_for_good() && is_stored {
            found.push(Violation::CountedThoughLate {
                counter: counter.clone(),
                key: key.clone(),
            });
        }
        for heard in &entry.heard {
            let Heard::Published(partition, offset) = *heard else {
                continue;
            };
            let place = (partition, offset);
            if observed.log.get(&place).and_then(identity) != Some((counter, key)) {
                found.push(Violation::NotInLog {
                    counter: counter.clone(),
                    key: key.clone(),
                    place,
                });
            }
        }
    }
}

/// Every record is of a stored event, or refused with a reason.
pub(super) fn check_records(stored: &Stored<'_>, observed: &Observed, found: &mut Vec<Violation>) {
    for (place, record) in &observed.log {
        let is_stored = identity(record).is_some_and(|(counter, key)| stored.has(counter, key));
        if !is_stored && !observed.dead.contains_key(place) {
            found.push(Violation::Vanished(*place, format!("{record:?}")));
        }
    }
}
