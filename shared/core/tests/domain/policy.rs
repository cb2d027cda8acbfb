use crate::{at, limits};
use proptest::prelude::*;
use quipu_core::{
    event::NamespaceId,
    name::Namespace,
    policy::{
        Cardinality, ChangeError, Incarnation, Limits, Mode, NamespaceHistory, PolicyBook, Refusal,
        RollupSettings,
    },
    time::Micros,
    window::{self, Window},
};
use std::time::Duration;

const ROLLUP: RollupSettings = RollupSettings {
    coalesce: Duration::from_secs(1),
    cardinality: Cardinality::Low,
};

fn any_limits() -> impl Strategy<Value = Limits> {
    (0_u64..40, 0_u64..15).prop_map(|(accept, future)| limits(accept, future))
}

/// A life with any sequence of changes, each 1 to 29 µs after the one before.
fn incarnation() -> impl Strategy<Value = Incarnation> {
    let changes = prop::collection::vec((1_i64..30, any_limits()), 0..8);
    (-50_i64..50, any_limits(), changes).prop_map(|(created, first, changes)| {
        let mut life = Incarnation::new(NamespaceId(1), at(created), first);
        let mut from = created;
        for (later, limits) in changes {
            from += later;
            life.change(at(from), limits).expect("it comes later");
        }
        life
    })
}

/// Effective times around all of a life's changes.
fn moments(life: &Incarnation) -> std::ops::RangeInclusive<i64> {
    let last = life.versions().last().expect("never empty").from.get();
    life.created_at().get() - 10..=last + 60
}

fn naive_limits(life: &Incarnation, t: i64) -> Limits {
    let in_force = life
        .versions()
        .iter()
        .rev()
        .find(|version| version.from <= at(t));
    in_force.unwrap_or(&life.versions()[0]).limits
}

/// R4, word for word: the maximum over every effective time since the creation.
fn naive_horizon(life: &Incarnation, t: i64) -> Micros {
    let created = life.created_at().get();
    (created..=t.max(created))
        .map(|s| at(s) - naive_limits(life, s).accept_limit)
        .max()
        .expect("never empty")
}

fn history(life: Incarnation) -> NamespaceHistory {
    NamespaceHistory::new("events", ROLLUP, life)
}

proptest! {
    #[test]
    fn the_newest_accepted_time_is_the_maximum_over_all_effective_times(life in incarnation()) {
        let created = life.created_at().get();
        for t in moments(&life) {
            let naive = (created..=t.max(created))
                .map(|s| at(s).min(at(t)) + naive_limits(&life, s).max_future)
                .max()
                .expect("never empty");
            prop_assert_eq!(life.newest_accepted(at(t)), naive, "at {}", t);
        }
    }

    #[test]
    fn the_horizon_is_the_running_maximum_and_never_goes_back(life in incarnation()) {
        let mut before = Micros::MIN;
        for t in moments(&life) {
            let horizon = life.horizon(at(t));
            prop_assert_eq!(horizon, naive_horizon(&life, t), "at {}", t);
            prop_assert!(horizon >= before);
            before = horizon;
        }
        prop_assert_eq!(life.horizon(Micros::MIN), life.origin());
    }

    #[test]
    fn a_change_leaves_every_horizon_before_it_as_it_was(
        life in incarnation(),
        later in 1_i64..20,
        next in any_limits(),
    ) {
        let from = life.versions().last().expect("never empty").from.get() + later;
        let mut changed = life.clone();
        changed.change(at(from), next).expect("it comes later");
        for t in moments(&life).take_while(|t| *t < from) {
            prop_assert_eq!(changed.horizon(at(t)), life.horizon(at(t)));
            prop_assert_eq!(changed.limits_at(at(t)), life.limits_at(at(t)));
        }
    }

    #[test]
    fn an_event_is_accepted_iff_it_is_after_the_horizon_and_not_too_far_ahead(
        life in incarnation(),
        effective in -60_i64..300,
        age in -60_i64..60,
        deleted_after in prop::option::of(1_i64..60),
    ) {
        let mut life = life;
        let last = life.versions().last().expect("never empty").from.get();
        if let Some(after) = deleted_after {
            life.delete(at(last + after)).expect("it comes later");
        }
        let event = effective - age;
        let verdict = history(life.clone()).decide(at(effective), at(event));
        let lives = at(effective) >= life.created_at()
            && life.deleted_at().is_none_or(|end| at(effective) < end);
        let horizon = naive_horizon(&life, effective);
        let newest = at(effective) + naive_limits(&life, effective).max_future;
        let expected = if !lives {
            Err(Refusal::UnknownNamespace)
        } else if at(event) <= horizon {
            Err(Refusal::Late { horizon })
        } else if at(event) > newest {
            Err(Refusal::TooFarAhead { newest })
        } else {
            Ok(NamespaceId(1))
        };
        prop_assert_eq!(verdict, expected);
    }

    #[test]
    fn what_is_accepted_later_lies_in_no_window_that_was_closed_before(
        life in incarnation(),
        low in -60_i64..250,
        later in 0_i64..60,
        age in -30_i64..60,
    ) {
        let effective = low + later;
        let event = at(effective - age);
        if history(life.clone()).decide(at(effective), event).is_ok() {
            prop_assert!(event > window::closed(&life, at(low)));
        }
    }
}

#[test]
fn the_bounds_of_acceptance_are_exact() {
    let life = Incarnation::new(NamespaceId(1), at(0), limits(5, 3));
    let history = history(life);
    let late = Err(Refusal::Late { horizon: at(95) });
    let ahead = Err(Refusal::TooFarAhead { newest: at(103) });
    for (event, verdict) in [
        (94, late.clone()),
        (95, late),
        (96, Ok(NamespaceId(1))),
        (103, Ok(NamespaceId(1))),
        (104, ahead),
    ] {
        assert_eq!(
            history.decide(at(100), at(event)),
            verdict,
            "event at {event}"
        );
    }
}

#[test]
fn a_longer_accept_limit_does_not_open_what_was_closed() {
    let mut life = Incarnation::new(NamespaceId(1), at(0), limits(5, 0));
    life.change(at(100), limits(50, 0)).expect("in order");
    assert_eq!(life.horizon(at(99)), at(94));
    assert_eq!(life.horizon(at(100)), at(94));
    assert_eq!(life.horizon(at(144)), at(94));
    assert_eq!(life.horizon(at(145)), at(95));
}

#[test]
fn changes_come_strictly_one_after_another() {
    let mut life = Incarnation::new(NamespaceId(1), at(10), limits(5, 5));
    assert!(life.change(at(10), limits(6, 6)).is_err());
    assert!(life.change(at(9), limits(6, 6)).is_err());
    life.change(at(11), limits(6, 6)).expect("in order");
    let error = life.delete(at(11)).expect_err("at the moment of a change");
    assert!(error.to_string().contains("11µs"), "{error}");
    life.delete(at(12)).expect("in order");
    assert_eq!(life.deleted_at(), Some(at(12)));
}

#[test]
fn a_life_that_ended_does_not_change_any_more() {
    let mut life = Incarnation::new(NamespaceId(1), at(0), limits(5, 5));
    life.delete(at(10)).expect("in order");
    let as_it_ended = life.clone();
    // Else an event at 15, refused once, would be accepted on replay.
    assert!(life.delete(at(20)).is_err());
    assert!(life.change(at(30), limits(1, 1)).is_err());
    assert_eq!(life, as_it_ended);
}

#[test]
fn a_namespace_made_again_is_another_one() {
    let mut history = history(Incarnation::new(NamespaceId(1), at(0), limits(50, 5)));
    let again = |id, created| Incarnation::new(NamespaceId(id), at(created), limits(50, 5));
    assert!(history.recreate(again(2, 100)).is_err(), "it still lives");
    history.newest_mut().delete(at(100)).expect("in order");
    assert_eq!(history.current(), None);
    assert!(history.recreate(again(2, 99)).is_err(), "it lived then");
    assert!(
        history.recreate(again(1, 100)).is_err(),
        "the number is taken"
    );
    history
        .recreate(again(2, 100))
        .expect("two lives may touch");
    assert_eq!(history.current().map(Incarnation::id), Some(NamespaceId(2)));

    assert_eq!(history.decide(at(99), at(90)), Ok(NamespaceId(1)));
    // The event is old enough for the first life, and the record is not: the second one gets it.
    assert_eq!(history.decide(at(100), at(90)), Ok(NamespaceId(2)));
    assert_eq!(
        history.decide(at(100), at(50)),
        Err(Refusal::Late { horizon: at(50) })
    );
}

#[test]
fn nothing_is_accepted_between_two_lives() {
    let mut history = history(Incarnation::new(NamespaceId(1), at(0), limits(50, 5)));
    history.newest_mut().delete(at(100)).expect("in order");
    let second = Incarnation::new(NamespaceId(7), at(120), limits(50, 5));
    history.recreate(second).expect("in order");
    for effective in [-1, 100, 119] {
        let verdict = history.decide(at(effective), at(effective));
        assert_eq!(verdict, Err(Refusal::UnknownNamespace), "at {effective}");
    }
    assert_eq!(history.decide(at(120), at(120)), Ok(NamespaceId(7)));
}

#[test]
fn a_new_number_is_larger_than_all_that_were_ever_given() {
    let name = |name| Namespace::new(name).expect("a valid name");
    let mut book = PolicyBook::default();
    assert_eq!(book.next_id(), NamespaceId(1));
    let mut first = history(Incarnation::new(NamespaceId(1), at(0), limits(5, 5)));
    book.insert(name("a"), first.clone());
    let second = history(Incarnation::new(book.next_id(), at(0), limits(5, 5)));
    book.insert(name("b"), second);
    first.newest_mut().delete(at(10)).expect("in order");
    book.insert(name("a"), first.clone());
    assert_eq!(book.next_id(), NamespaceId(3));
    let life = Incarnation::new(book.next_id(), at(20), limits(5, 5));
    first.recreate(life).expect("in order");
    book.insert(name("a"), first);
    assert_eq!(book.next_id(), NamespaceId(4));

    // Every life can still be found by its number.
    for (id, namespace, created) in [(1, "a", 0), (2, "b", 0), (3, "a", 20)] {
        let (found, life) = book.incarnation(NamespaceId(id)).expect("a known number");
        assert_eq!(
            (found.as_str(), life.created_at()),
            (namespace, at(created))
        );
        assert_eq!(book.rollup(NamespaceId(id)), Some(ROLLUP));
    }
    assert!(book.incarnation(NamespaceId(4)).is_none());
    assert!(book.history("c").is_none());
    assert_eq!(book.iter().count(), 2);
}

#[test]
fn a_window_is_open_on_the_left_and_closed_on_the_right() {
    let window = Window {
        after: at(1),
        through: at(3),
    };
    let inside = [0, 1, 2, 3, 4].map(|time| window.contains(at(time)));
    assert_eq!(inside, [false, false, true, true, false]);
    assert_eq!(window::to_aggregate(at(1), at(3)), Some(window));
    assert_eq!(window::to_aggregate(at(3), at(3)), None);
    assert_eq!(window::to_aggregate(at(4), at(3)), None);
}

#[test]
fn every_refusal_has_a_reason_of_its_own() {
    let refusals = [
        Refusal::UnknownNamespace,
        Refusal::WrongTopic,
        Refusal::KeepsNoEvents,
        Refusal::NotLogStamped,
        Refusal::Late { horizon: at(0) },
        Refusal::TooFarAhead { newest: at(0) },
        Refusal::Malformed(String::new()),
    ];
    // Dashboards and dead-letter headers hold these names.
    assert_eq!(
        refusals.map(|refusal| refusal.reason()),
        [
            "unknown_namespace",
            "wrong_topic",
            "keeps_no_events",
            "not_log_stamped",
            "late",
            "too_far_ahead",
            "malformed"
        ]
    );
}

#[test]
fn a_life_that_keeps_no_events_accepts_none_and_stays_so() {
    let life = |mode| Incarnation::new(NamespaceId(1), at(0), limits(5, 5)).with_mode(mode);
    let verdict = |mode| NamespaceHistory::new("t", ROLLUP, life(mode)).decide(at(9), at(9));
    assert_eq!(verdict(Mode::Accurate), Ok(NamespaceId(1)));
    assert_eq!(verdict(Mode::BestEffort), Err(Refusal::KeepsNoEvents));
    let mut exact = life(Mode::EventuallyConsistent);
    assert_eq!(exact.set_mode(Mode::Accurate), Ok(()));
    assert_eq!(exact.mode(), Mode::Accurate);
    let refused = Err(ChangeError::KeepsEvents);
    assert_eq!(exact.set_mode(Mode::BestEffort), refused);
    assert_eq!(life(Mode::BestEffort).set_mode(Mode::Accurate), refused);
}
