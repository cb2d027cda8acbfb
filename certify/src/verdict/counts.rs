//! For every counter: checkpoint = fold of rows = cache = read = accurate read. That the rows are
//! those of the ledger is checked before, so all of them equal its fold, too.

use super::{Source, Stored, Violation};
use crate::observed::{Counted, Counts, Observed};
use quipu_core::{
    aggregate::Count,
    event::{EventKey, Mutation},
    name::CounterName,
    time::Micros,
};
use std::collections::BTreeMap;

/// A counter's rows in their order.
type Rows<'a> = BTreeMap<&'a EventKey, Mutation>;

/// What a counter was after each of its events.
struct Course(Vec<(Micros, i128)>);

impl Course {
    fn of(rows: &Rows<'_>) -> Self {
        let mut count = Count::ZERO;
        let steps = rows.iter().map(|(key, mutation)| {
            count = count.after(*mutation);
            (key.event_time, count.get())
        });
        Self(steps.collect())
    }

    /// The count of all events up to a time.
    fn through(&self, time: Micros) -> i128 {
        let after = self.0.partition_point(|(at, _)| *at <= time);
        after.checked_sub(1).map_or(0, |last| self.0[last].1)
    }
}

pub(super) fn check_counters(stored: &Stored<'_>, observed: &Observed, found: &mut Vec<Violation>) {
    for (counter, rows) in &stored.rows {
        let course = Course::of(rows);
        let last = rows.keys().next_back().map(|key| key.event_time);
        let Counts {
            checkpoint,
            cached,
            read,
            accurate,
        } = observed.counts.get(*counter).copied().unwrap_or_default();
        let accurate = accurate.map(|count| Counted {
            count,
            through: Micros::MAX,
        });
        for (source_, said) in [
            (Source::Checkpoint, checkpoint),
            (Source::Cache, cached),
            (Source::Read, read),
            (Source::AccurateRead, accurate),
        ] {
            if let Some(said) = said {
                check_count((counter, rows), &course, source_, said, found);
            }
            let through = said.map(|said| said.through);
            if let Some(last) = last.filter(|last| through.is_none_or(|through| through < *last)) {
                found.push(Violation::Incomplete {
                    counter: (*counter).clone(),
                    source_,
                    through,
                    last,
                });
            }
        }
    }
}

/// Nobody was ever shown a count that was not true for ever.
pub(super) fn check_shown(stored: &Stored<'_>, observed: &Observed, found: &mut Vec<Violation>) {
    let nothing = Rows::new();
    let mut courses: BTreeMap<&CounterName, Course> = BTreeMap::new();
    for shown in &observed.shown {
        let rows = stored.rows.get(&shown.counter).unwrap_or(&nothing);
        let course = courses
            .entry(&shown.counter)
            .or_insert_with(|| Course::of(rows));
        let counter = (&shown.counter, rows);
        check_count(
            counter,
            course,
            Source::ReadDuringTheRun,
            shown.counted,
            found,
        );
    }
}

fn check_count(
    (counter, rows): (&CounterName, &Rows<'_>),
    course: &Course,
    source_: Source,
    said: Counted,
    found: &mut Vec<Violation>,
) {
    let expected = course.through(said.through);
    if said.count != expected {
        found.push(Violation::WrongCount {
            counter: counter.clone(),
            source_,
            said: said.count,
            through: said.through,
            expected,
            culprit: culprit(rows, said.count - expected),
        });
    }
}

/// Whose delta a difference is. Deltas are random, so it is hardly ever two events' by chance.
fn culprit(rows: &Rows<'_>, difference: i128) -> String {
    let explains = |wanted: i128| {
        rows.iter().find(|(_, mutation)| match mutation {
            Mutation::Add(delta) => i128::from(*delta) == wanted,
            Mutation::Clear => false,
        })
    };
    if let Some((key, _)) = explains(difference) {
        return format!("that of {key:?}, counted twice or too early");
    }
    if let Some((key, _)) = explains(-difference) {
        return format!("that of {key:?}, not counted");
    }
    "none of a single event: a clear, or several events".to_owned()
}
