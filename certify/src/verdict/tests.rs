use super::*;
use crate::{
    entry::Heard,
    observed::{Counted, Counts, Logged, Shown},
    testing::{add, clear, name},
};
use quipu_core::{
    event::{LogPosition, StoredEvent},
    time::Micros,
};

/// A run in which all went well: what was attempted, and what is there.
fn good() -> (Vec<Entry>, Observed) {
    let mut entries = vec![
        add("a", 10, "kept", 1_000),
        add("a", 30, "also", 77),
        add("a", 40, "late", 5),
        add("a", 50, "unsent", 6),
        clear("b", 20, "clear"),
        add("b", 15, "before", 300),
        add("b", 25, "after", 40),
    ];
    let heard = [
        vec![Heard::Unknown, Heard::Accepted],
        vec![Heard::Published(1, 8)],
        vec![Heard::Late],
        vec![],
        vec![Heard::Accepted],
        vec![Heard::AlreadyApplied],
        vec![Heard::Accepted],
    ];
    let mut observed = Observed::default();
    for (offset, (entry, heard)) in (7..).zip(entries.iter_mut().zip(heard)) {
        entry.heard = heard;
        if entry.key.event_id.as_str() == "unsent" {
            continue;
        }
        let place = (1, offset);
        let logged = Logged::Event(entry.counter.clone(), entry.key.clone());
        observed.log.insert(place, logged);
        if entry.heard.contains(&Heard::Late) {
            observed.dead.insert(place, "late".to_owned());
            continue;
        }
        let rows = observed.rows.entry(entry.counter.clone()).or_default();
        rows.push(row(entry, offset));
    }
    observed.log.insert((0, 3), Logged::Poison);
    observed.dead.insert((0, 3), "malformed".to_owned());
    for (counter, count) in [("a", 1_077), ("b", 40)] {
        let through = Micros::new(100);
        let counted = Some(Counted { count, through });
        let counts = Counts {
            checkpoint: counted,
            cached: counted,
            read: counted,
            accurate: Some(count),
        };
        observed.counts.insert(name(counter), counts);
    }
    for (counter, count, through) in [("a", 1_000, 29), ("b", 300, 19), ("b", 0, 20), ("b", 0, 9)] {
        let through = Micros::new(through);
        let counted = Counted { count, through };
        observed.shown.push(Shown {
            counter: name(counter),
            counted,
        });
    }
    (entries, observed)
}

fn row(entry: &Entry, offset: u64) -> StoredEvent {
    StoredEvent {
        key: entry.key.clone(),
        mutation: entry.mutation,
        source: LogPosition {
            effective_time: Micros::new(60),
            partition: 1,
            offset,
        },
    }
}

/// What is said of a run that was broken on purpose.
fn broken(change: impl FnOnce(&mut Vec<Entry>, &mut Observed)) -> Vec<String> {
    let (mut entries, mut observed) = good();
    change(&mut entries, &mut observed);
    let found = judge(&entries, &observed).violations;
    found.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn assert_said(found: &[String], words: &[&str]) {
    let told = |line: &String| words.iter().all(|word| line.contains(word));
    assert!(found.iter().any(told), "no line says {words:?}: {found:#?}");
}

fn counts<'a>(observed: &'a mut Observed, counter: &str) -> &'a mut Counts {
    observed.counts.get_mut(counter).unwrap()
}

#[test]
fn a_run_in_which_all_went_well_has_no_violation() {
    let (entries, observed) = good();
    let verdict = judge(&entries, &observed);
    assert_eq!(verdict.violations, []);
    let tally = verdict.tally;
    assert_eq!((tally.attempted, tally.acknowledged), (7, 4));
    assert_eq!((tally.late, tally.published, tally.refused), (1, 1, 0));
    assert_eq!((tally.unknown, tally.stored), (1, 5));
    assert_eq!((tally.records, tally.poison, tally.never_in_log), (7, 1, 1));
    assert_eq!(tally.dead_letters["late"], 1);
    assert_eq!((tally.counters, tally.reads), (2, 4));
}

#[test]
fn an_acknowledged_event_without_a_row_is_lost_and_named() {
    let found = broken(|_, observed| {
        observed.rows.get_mut("a").unwrap().remove(0);
    });
    assert_said(&found, &["acknowledged, and not stored", "kept"]);
    assert_said(&found, &["neither stored nor a dead letter"]);
}

#[test]
fn a_published_event_that_vanished_is_named() {
    let found = broken(|_, observed| {
        observed.rows.get_mut("a").unwrap().remove(1);
    });
    assert_said(&found, &["neither stored nor a dead letter", "also"]);
    let found = broken(|_, observed| {
        observed.log.remove(&(1, 8));
    });
    assert_said(&found, &["the log acknowledged", "also"]);
}

#[test]
fn an_event_refused_for_good_must_not_be_stored() {
    let found = broken(|entries, observed| {
        let rows = observed.rows.get_mut("a").unwrap();
        rows.push(row(&entries[2], 9));
    });
    assert_said(&found, &["refused as late for good, and stored", "late"]);
    assert_said(&found, &["stored, and a dead letter (late)", "late"]);
}

#[test]
fn poison_without_a_dead_letter_vanished() {
    let found = broken(|_, observed| {
        observed.dead.remove(&(0, 3));
    });
    assert_said(&found, &["neither stored nor a dead letter", "(0, 3)"]);
}

#[test]
fn rows_that_nobody_attempted_or_that_are_twice_or_changed_are_named() {
    let found = broken(|_, observed| {
        let rows = observed.rows.get_mut("a").unwrap();
        rows.push(row(&add("a", 60, "stranger", 1), 70));
    });
    assert_said(&found, &["never attempted", "stranger"]);
    let found = broken(|_, observed| {
        let rows = observed.rows.get_mut("a").unwrap();
        rows.push(rows[0].clone());
    });
    assert_said(&found, &["stored twice", "kept"]);
    let found = broken(|_, observed| {
        observed.rows.get_mut("a").unwrap()[0].mutation = Mutation::Add(1_001);
    });
    assert_said(
        &found,
        &["was Add(1000), and is stored as Add(1001)", "kept"],
    );
}

#[test]
fn a_row_must_come_from_a_record_of_its_own() {
    let found = broken(|_, observed| {
        observed.rows.get_mut("a").unwrap()[0].source.offset = 8;
    });
    assert_said(&found, &["the log has no record of it", "kept", "(1, 8)"]);
}

#[test]
fn a_wrong_count_names_its_source_and_the_event_whose_delta_it_is() {
    let found = broken(|_, observed| {
        counts(observed, "a").checkpoint.as_mut().unwrap().count = 77;
    });
    assert_said(&found, &["the checkpoint says 77", "kept", "not counted"]);
    let found = broken(|_, observed| {
        counts(observed, "a").cached.as_mut().unwrap().count += 77;
    });
    assert_said(&found, &["the cache says 1154", "also", "counted twice"]);
    let found = broken(|_, observed| {
        counts(observed, "b").read.as_mut().unwrap().count += 300 - 40;
    });
    assert_said(&found, &["a read says 300", "none of a single event"]);
    let found = broken(|_, observed| {
        counts(observed, "b").accurate = Some(0);
    });
    assert_said(&found, &["an accurate read says 0", "after", "not counted"]);
}

#[test]
fn a_count_that_is_missing_or_does_not_reach_the_newest_row_is_incomplete() {
    let found = broken(|_, observed| counts(observed, "a").cached = None);
    assert_said(&found, &["the cache has None", "a:"]);
    let found = broken(|_, observed| {
        let checkpoint = Counted {
            count: 1_000,
            through: Micros::new(29),
        };
        counts(observed, "a").checkpoint = Some(checkpoint);
    });
    assert_said(&found, &["a: the checkpoint has Some(Micros(29))"]);
    assert_eq!(found.len(), 1, "its count is right as far as it goes");
}

#[test]
fn a_reader_who_was_shown_what_was_not_true_is_believed() {
    let found = broken(|_, observed| observed.shown[0].counted.through = Micros::new(30));
    assert_said(&found, &["a read during the run says 1000", "also"]);
}
