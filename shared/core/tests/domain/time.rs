use crate::at;
use proptest::prelude::*;
use quipu_core::time::Micros;
use std::time::Duration;

#[test]
fn nanoseconds_are_floored_also_before_1970() {
    assert_eq!(Micros::from_unix(0, 1_999), Some(at(1)));
    assert_eq!(Micros::from_unix(0, 999), Some(at(0)));
    assert_eq!(Micros::from_unix(-1, 999_999_999), Some(at(-1)));
    assert_eq!(Micros::from_unix(-1, 999), Some(at(-1_000_000)));
    assert_eq!(Micros::from_unix(0, -1), Some(at(-1)));
    assert_eq!(Micros::from_unix(0, -1_001), Some(at(-2)));
    assert_eq!(Micros::from_unix(1, -1), Some(at(999_999)));
}

#[test]
fn a_negative_moment_has_floored_seconds_and_positive_nanoseconds() {
    assert_eq!(at(-1).to_unix(), (-1, 999_999_000));
    assert_eq!(at(-1_000_000).to_unix(), (-1, 0));
    assert_eq!(at(1_000_001).to_unix(), (1, 1_000));
}

#[test]
fn the_ends_of_time_go_to_seconds_and_back() {
    for end in [
        Micros::MIN,
        Micros::MAX,
        Micros::MIN.succ(),
        Micros::MAX.pred(),
    ] {
        let (seconds, nanos) = end.to_unix();
        assert_eq!(Micros::from_unix(seconds, nanos), Some(end));
    }
}

#[test]
fn what_does_not_fit_is_no_moment() {
    let (seconds, nanos) = Micros::MAX.to_unix();
    assert_eq!(Micros::from_unix(seconds, nanos + 1_000), None);
    assert_eq!(Micros::from_unix(i64::MAX, 0), None);
    let (seconds, nanos) = Micros::MIN.to_unix();
    assert_eq!(Micros::from_unix(seconds, nanos - 1), None);
    assert_eq!(Micros::from_unix(i64::MIN, 0), None);
}

#[test]
fn arithmetic_stops_at_the_ends() {
    assert_eq!(Micros::MAX.succ(), Micros::MAX);
    assert_eq!(Micros::MIN.pred(), Micros::MIN);
    assert_eq!(Micros::MAX + Duration::from_micros(1), Micros::MAX);
    assert_eq!(Micros::MIN - Duration::from_micros(1), Micros::MIN);
    assert_eq!(at(0) + Duration::MAX, Micros::MAX);
    assert_eq!(at(-2) - Duration::MAX, Micros::MIN);
    assert_eq!(at(5) + Duration::from_nanos(1_999), at(6));
}

#[test]
fn the_span_of_all_time_can_be_measured() {
    assert_eq!(
        Micros::MAX.since(Micros::MIN),
        Duration::from_micros(u64::MAX)
    );
    assert_eq!(Micros::MIN.since(Micros::MAX), Duration::ZERO);
    assert_eq!(at(7).since(at(7)), Duration::ZERO);
}

#[test]
fn the_earliest_moment_is_the_start_of_the_year_1() {
    assert_eq!(Micros::EARLIEST.to_unix(), (-62_135_596_800, 0));
}

proptest! {
    #[test]
    fn every_moment_goes_to_seconds_and_back(micros: i64) {
        let (seconds, nanos) = at(micros).to_unix();
        prop_assert!((0..1_000_000_000).contains(&nanos));
        prop_assert_eq!(Micros::from_unix(seconds, nanos), Some(at(micros)));
    }

    #[test]
    fn seconds_and_nanoseconds_are_floored(seconds: i64, nanos: i32) {
        let exact = (i128::from(seconds) * 1_000_000_000 + i128::from(nanos)).div_euclid(1_000);
        let expected = i64::try_from(exact).ok().map(at);
        prop_assert_eq!(Micros::from_unix(seconds, nanos), expected);
    }

    #[test]
    fn since_undoes_plus(micros in -(1_i64 << 60)..1 << 60, span in 0..1_u64 << 60) {
        let span = Duration::from_micros(span);
        prop_assert_eq!((at(micros) + span).since(at(micros)), span);
        prop_assert_eq!(at(micros) + span - span, at(micros));
    }
}
