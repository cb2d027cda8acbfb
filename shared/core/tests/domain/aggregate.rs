use crate::{at, event_key};
use proptest::prelude::*;
use quipu_core::{
    aggregate::{Count, CountOutOfRange, OrderedFold},
    event::{EventKey, Mutation},
    time::Micros,
    window::Window,
};
use std::collections::BTreeMap;

type Events = BTreeMap<EventKey, Mutation>;

fn fold<'a>(base: Count, events: impl IntoIterator<Item = (&'a EventKey, &'a Mutation)>) -> Count {
    let mut fold = OrderedFold::from(base);
    for (key, mutation) in events {
        fold.push(key, *mutation);
    }
    fold.count()
}

fn mutation() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        6 => any::<i64>().prop_map(Mutation::Add),
        2 => (-3_i64..=3).prop_map(Mutation::Add),
        2 => Just(Mutation::Clear),
    ]
}

fn events() -> impl Strategy<Value = Events> {
    let key =
        (-20_i64..20, "[ab]", "[k]?").prop_map(|(time, id, item)| event_key(time, &id, &item));
    prop::collection::btree_map(key, mutation(), 0..40)
}

fn sum_after_the_last_clear(events: &Events) -> i128 {
    let mut newest_first = events.values().rev();
    let mut sum = 0;
    while let Some(Mutation::Add(delta)) = newest_first.next() {
        sum += i128::from(*delta);
    }
    sum
}

proptest! {
    #[test]
    fn a_count_is_the_sum_of_the_deltas_after_the_last_clear(events in events()) {
        prop_assert_eq!(fold(Count::ZERO, &events).get(), sum_after_the_last_clear(&events));
    }

    #[test]
    fn any_split_into_windows_folds_to_the_same_count(
        events in events(),
        mut ends in prop::collection::vec(-25_i64..25, 0..12),
    ) {
        ends.sort_unstable();
        ends.push(i64::MAX);
        let mut count = Count::ZERO;
        let mut after = Micros::MIN;
        for end in ends {
            let window = Window { after, through: at(end) };
            count = fold(count, events.iter().filter(|(key, _)| window.contains(key.event_time)));
            after = window.through;
        }
        prop_assert_eq!(count, fold(Count::ZERO, &events));
    }
}

#[test]
fn sums_are_exact_far_beyond_64_bits() {
    let mut fold = OrderedFold::from(Count::ZERO);
    for time in 0..10_000 {
        fold.push(&event_key(time, "t", ""), Mutation::Add(i64::MAX));
    }
    assert_eq!(fold.count().get(), 10_000 * i128::from(i64::MAX));
    assert_eq!(fold.events(), 10_000);
    for time in 10_000..30_000 {
        fold.push(&event_key(time, "t", ""), Mutation::Add(i64::MIN));
    }
    let expected = 10_000 * i128::from(i64::MAX) + 20_000 * i128::from(i64::MIN);
    assert_eq!(fold.count().get(), expected);
}

#[test]
fn a_count_that_does_not_fit_the_api_is_an_error_and_never_wraps() {
    for fits in [i64::MIN, -1, 0, i64::MAX] {
        assert_eq!(Count::new(fits.into()).to_i64(), Ok(fits));
    }
    for over in [
        i128::from(i64::MAX) + 1,
        i128::from(i64::MIN) - 1,
        i128::MAX,
    ] {
        let error = Count::new(over).to_i64().expect_err("too wide");
        assert_eq!(error, CountOutOfRange(over));
        assert!(error.to_string().contains(&over.to_string()));
    }
}

#[test]
fn a_clear_zeroes_what_stands_before_it_by_event_time_then_token_then_item() {
    let clear = event_key(10, "m", "m");
    for (before, after) in [
        ((9, "z", "z"), (11, "a", "")),
        ((10, "l", "z"), (10, "n", "")),
    ] {
        let events: Events = [
            (event_key(before.0, before.1, before.2), Mutation::Add(5)),
            (clear.clone(), Mutation::Clear),
            (event_key(after.0, after.1, after.2), Mutation::Add(3)),
        ]
        .into();
        assert_eq!(fold(Count::new(100), &events).get(), 3);
    }
    let same_token: Events = [
        (event_key(10, "m", "l"), Mutation::Add(5)),
        (clear, Mutation::Clear),
        (event_key(10, "m", "n"), Mutation::Add(3)),
    ]
    .into();
    assert_eq!(fold(Count::ZERO, &same_token).get(), 3);
}

#[test]
#[should_panic(expected = "strict order")]
fn an_event_out_of_order_is_never_folded() {
    let mut fold = OrderedFold::from(Count::ZERO);
    fold.push(&event_key(2, "t", ""), Mutation::Add(1));
    fold.push(&event_key(1, "t", ""), Mutation::Add(1));
}

#[test]
#[should_panic(expected = "strict order")]
fn an_event_that_comes_twice_is_never_folded_twice() {
    let mut fold = OrderedFold::from(Count::ZERO);
    fold.push(&event_key(1, "t", ""), Mutation::Add(1));
    fold.push(&event_key(1, "t", ""), Mutation::Add(1));
}
