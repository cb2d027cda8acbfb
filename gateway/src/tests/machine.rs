use crate::machine::{
    AfterAppend, AfterLookup, Moment, NoNamespace, Precheck, after_append, after_lookup, find,
    is_capped, is_stale, precheck,
};
use proptest::prelude::*;
use quipu_adapters::ports::{Appended, Lookup};
use quipu_core::{
    caps::{CappedRange, CappedRanges},
    event::{EventKey, LogPosition, Mutation, NamespaceId, StoredEvent},
    name::{ItemKey, Namespace, Token},
    policy::{
        Cardinality, Incarnation, Limits, NamespaceHistory, PolicyBook, Refusal, RollupSettings,
    },
    time::Micros,
    window,
};
use std::time::Duration;

fn at(seconds: i64) -> Micros {
    Micros::new(seconds * 1_000_000)
}

fn limits(accept: u64, future: u64) -> Limits {
    Limits {
        accept_limit: Duration::from_secs(accept),
        max_future: Duration::from_secs(future),
    }
}

fn book(life: Incarnation, valid_through: Micros) -> PolicyBook {
    let rollup = RollupSettings {
        coalesce: Duration::from_secs(1),
        cardinality: Cardinality::Low,
    };
    let history = NamespaceHistory::new("events", rollup, life);
    PolicyBook::new([(Namespace::new("n").unwrap(), history)], valid_through)
}

fn stored(event_time: Micros) -> Lookup {
    Lookup::Stored(StoredEvent {
        key: EventKey {
            event_time,
            event_id: Token::new("t").unwrap(),
            item_key: ItemKey::new("").unwrap(),
        },
        mutation: Mutation::Add(1),
        source: LogPosition {
            effective_time: event_time,
            partition: 0,
            offset: 0,
        },
    })
}

#[test]
fn a_mutation_is_appended_between_the_horizon_and_the_furthest_future() {
    let life = Incarnation::new(NamespaceId(1), at(100), limits(5, 3));
    let moment = Moment::new(at(200), at(190));
    for (event_time, expected) in [
        (at(95), Precheck::RefusedLate),
        (at(95).succ(), Precheck::LookUp),
        (at(195), Precheck::LookUp),
        (at(195).succ(), Precheck::Append),
        (at(203), Precheck::Append),
        (at(203).succ(), Precheck::TooFarAhead),
        (Micros::MIN, Precheck::RefusedLate),
        (Micros::MAX, Precheck::TooFarAhead),
    ] {
        assert_eq!(
            precheck(&life, moment, event_time),
            expected,
            "{event_time}"
        );
    }
}

#[test]
fn a_clock_behind_the_watermark_does_not_count() {
    assert_eq!(
        Moment::new(at(10), at(20)),
        Moment {
            low: at(20),
            effective: at(20)
        }
    );
    assert_eq!(
        Moment::new(at(20), at(10)),
        Moment {
            low: at(10),
            effective: at(20)
        }
    );
}

#[test]
fn a_namespace_is_found_while_it_lives_and_its_policy_holds() {
    let mut life = Incarnation::new(NamespaceId(1), at(100), limits(5, 5));
    let alive = book(life.clone(), at(300));
    let found = |book: &PolicyBook, name: &str, now| {
        find(book, name, Moment::new(now, Micros::MIN)).map(|life| life.id())
    };
    assert_eq!(found(&alive, "n", at(200)), Ok(NamespaceId(1)));
    assert_eq!(
        found(&alive, "n", at(99)),
        Ok(NamespaceId(1)),
        "created a moment ago"
    );
    assert_eq!(found(&alive, "m", at(200)), Err(NoNamespace::Unknown));
    assert_eq!(
        found(&alive, "n", at(300).succ()),
        Err(NoNamespace::PolicyExpired {
            valid_through: at(300)
        })
    );
    life.delete(at(250)).unwrap();
    let deleted = book(life, at(300));
    assert_eq!(found(&deleted, "n", at(249)), Ok(NamespaceId(1)));
    assert_eq!(found(&deleted, "n", at(250)), Err(NoNamespace::Unknown));
}

#[test]
fn an_append_that_took_too_long_is_not_accepted() {
    let policy = book(
        Incarnation::new(NamespaceId(1), at(100), limits(5, 3)),
        at(300),
    );
    let decide = |append_time, guard, event_time| {
        after_append(
            &policy,
            "n",
            append_time,
            Duration::from_secs(guard),
            event_time,
        )
    };
    let accepted = AfterAppend::Accepted(NamespaceId(1));
    assert_eq!(decide(at(200), 0, at(195).succ()), accepted);
    assert_eq!(decide(at(200), 0, at(195)), AfterAppend::Unavailable);
    assert_eq!(
        decide(at(200), 1, at(196)),
        AfterAppend::Unavailable,
        "the guard counts"
    );
    assert_eq!(decide(at(200), 1, at(203)), accepted);
    assert_eq!(decide(at(200), 1, at(203).succ()), AfterAppend::Unavailable);
    assert_eq!(
        decide(at(299), 2, at(299)),
        AfterAppend::Unavailable,
        "the policy ends before"
    );
    assert_eq!(
        decide(at(50), 0, at(99)),
        AfterAppend::Unavailable,
        "not created yet"
    );
}

#[test]
fn nothing_is_accepted_by_an_append_time_that_an_operator_capped() {
    let life = Incarnation::new(NamespaceId(1), at(100), limits(5, 5));
    let mut policy = book(life, at(300));
    let cap = CappedRange {
        partition: 1,
        first: 7,
        last: 8,
        time: at(150),
        above: at(200),
    };
    let mut caps = CappedRanges::none();
    caps.add(cap).unwrap();
    policy.set_caps([("events".to_owned(), caps)].into());
    let capped = |offset, append_time| {
        let appended = Appended {
            partition: 1,
            offset,
            append_time,
        };
        is_capped(&policy, "n", appended)
    };
    assert!(capped(7, at(201)));
    assert!(!capped(9, at(201)), "another record");
    assert!(!capped(7, at(200)), "ingest may have decided it before");
}

#[test]
fn a_look_up_decides_only_what_is_closed() {
    let (before, closed, after) = (at(99), at(100), at(101));
    for (lookup, event_time, expected) in [
        (stored(before), before, AfterLookup::AlreadyApplied),
        (stored(after), after, AfterLookup::AlreadyApplied),
        (Lookup::Absent, before, AfterLookup::RefusedLate),
        (Lookup::Absent, closed, AfterLookup::RefusedLate),
        (Lookup::Absent, after, AfterLookup::RetryLater),
        (Lookup::Dropped, before, AfterLookup::OutcomeUnknown),
    ] {
        assert_eq!(
            after_lookup(&lookup, closed, event_time),
            expected,
            "{lookup:?}"
        );
    }
}

#[test]
fn a_read_is_stale_beyond_a_second_or_the_coalesce_window() {
    let secs = Duration::from_secs;
    assert!(!is_stale(secs(1), secs(0)));
    assert!(is_stale(secs(2), secs(1)));
    assert!(!is_stale(secs(2), secs(3)));
}

/// A history with a few changes of its limits, and perhaps a deletion.
fn histories() -> impl Strategy<Value = Incarnation> {
    let change = (1..50_i64, 1..20_u64, 0..20_u64);
    (proptest::collection::vec(change, 1..6), any::<bool>()).prop_map(|(changes, deleted)| {
        let mut now = 100;
        let (_, accept, future) = changes[0];
        let mut life = Incarnation::new(NamespaceId(1), at(now), limits(accept, future));
        for (after, accept, future) in &changes[1..] {
            now += after;
            life.change(at(now), limits(*accept, *future)).unwrap();
        }
        if deleted {
            life.delete(at(now + 10)).unwrap();
        }
        life
    })
}

proptest! {
    #[test]
    fn what_is_accepted_ingest_accepts_at_any_effective_time_within_the_guard(
        life in histories(),
        append in 90..400_i64,
        guard in 0..10_u64,
        event in 80..420_i64,
    ) {
        let book = book(life, at(380));
        let history = book.history("n").unwrap();
        let guard = Duration::from_secs(guard);
        let (append, event) = (at(append), at(event));
        let said = after_append(&book, "n", append, guard, event);
        let mut verdicts = (0..=guard.as_secs()).map(|s| {
            history.decide(append + Duration::from_secs(s), event)
        });
        if let AfterAppend::Accepted(id) = said {
            prop_assert!(append + guard <= book.valid_through());
            prop_assert!(verdicts.all(|verdict| verdict == Ok(id)));
        } else {
            // Nor is anything refused that could have been accepted safely.
            let safe = append + guard <= book.valid_through() && verdicts.all(|v| v.is_ok());
            prop_assert!(!safe);
        }
    }

    #[test]
    fn a_refusal_as_late_is_definitive(
        life in histories(),
        clock in 90..400_i64,
        low in 90..400_i64,
        later in 0..200_i64,
        event in 70..420_i64,
    ) {
        let moment = Moment::new(at(clock), at(low));
        let event = at(event);
        let refused = match precheck(&life, moment, event) {
            Precheck::RefusedLate => true,
            Precheck::LookUp => {
                let closed = window::closed(&life, moment.low);
                after_lookup(&Lookup::Absent, closed, event) == AfterLookup::RefusedLate
            }
            Precheck::Append | Precheck::TooFarAhead => false,
        };
        if refused {
            // Whatever is not decided yet has an effective time at or after the low watermark.
            let book = book(life, Micros::MAX);
            let verdict = book.history("n").unwrap().decide(at(low + later), event);
            let refused = matches!(verdict, Err(Refusal::Late { .. } | Refusal::UnknownNamespace));
            prop_assert!(refused);
        }
    }
}
