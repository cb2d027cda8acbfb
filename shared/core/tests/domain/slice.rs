use crate::{at, event_key};
use proptest::prelude::*;
use quipu_core::{
    slice::{EventBucket, SliceError, SliceId, SliceLayout, Slicing, TimeBucket},
    time::Micros,
    window::Window,
};
use std::time::Duration;

const SECOND: i64 = 1_000_000;

fn slicing(seconds: u64) -> Slicing {
    Slicing::new(Duration::from_secs(seconds)).expect("a valid length")
}

fn layout(seconds: u64, event_buckets: u16) -> SliceLayout {
    SliceLayout::new(Duration::from_secs(seconds), event_buckets).expect("valid settings")
}

fn window(after: i64, through: i64) -> Window {
    Window {
        after: at(after),
        through: at(through),
    }
}

/// Times near the ends of slices, on both sides of 1970.
fn time() -> impl Strategy<Value = i64> {
    (-20_i64..20, -2_i64..3, any::<bool>()).prop_map(|(second, near, middle)| {
        second * SECOND + near + if middle { SECOND / 2 } else { 0 }
    })
}

proptest! {
    #[test]
    fn every_time_lies_in_exactly_one_slice(time in any::<i64>(), seconds in 1_u64..10_000_000) {
        let slicing = slicing(seconds);
        let slice = slicing.slice_of(at(time));
        prop_assert!(slicing.start(slice) <= at(time) && at(time) <= slicing.last(slice));
        let (before, after) = (SliceId(slice.0 - 1), SliceId(slice.0 + 1));
        prop_assert!(slicing.last(before) < at(time) || at(time) == Micros::MIN);
        prop_assert!(at(time) < slicing.start(after) || at(time) == Micros::MAX);
    }

    #[test]
    fn slices_follow_one_another_without_gap_or_overlap(
        slice in -1_000_000_i64..1_000_000,
        seconds in 1_u64..1_000_000,
    ) {
        let slicing = slicing(seconds);
        let (slice, next) = (SliceId(slice), SliceId(slice + 1));
        prop_assert_eq!(slicing.last(slice).succ(), slicing.start(next));
        prop_assert_eq!(slicing.slice_of(slicing.start(slice)), slice);
        prop_assert_eq!(slicing.slice_of(slicing.last(slice)), slice);
    }

    #[test]
    fn a_window_touches_exactly_the_slices_and_buckets_with_a_time_in_it(
        after in time(),
        through in time(),
        seconds in 1_u64..7,
    ) {
        let window = window(after, through);
        let length = i64::try_from(seconds).expect("small") * SECOND;
        // Naive: a slice is touched if one of its moments lies in the window.
        let touched: Vec<i64> = (-30..30)
            .filter(|id| {
                let (first, last) = (id * length, id * length + length - 1);
                first.max(after + 1) <= last.min(through)
            })
            .collect();
        let slices: Vec<i64> = slicing(seconds).touched(window).map(|SliceId(id)| id).collect();
        prop_assert_eq!(&slices, &touched);
        let buckets: Vec<i64> =
            layout(seconds, 1).touched(window).map(|TimeBucket(id)| id).collect();
        prop_assert_eq!(&buckets, &touched);
        let partitions = layout(seconds, 3).partitions(window);
        prop_assert_eq!(partitions, 3 * u64::try_from(touched.len()).expect("small"));
    }

    #[test]
    fn the_clips_of_a_window_hold_each_of_its_times_once(
        after in time(),
        through in time(),
        seconds in 1_u64..7,
        sample in time(),
    ) {
        let (slicing, window) = (slicing(seconds), window(after, through));
        let clips: Vec<_> =
            slicing.touched(window).map(|slice| (slice, slicing.clip(window, slice))).collect();
        let holding = clips.iter().filter(|(_, clip)| clip.contains(at(sample)));
        prop_assert_eq!(holding.count(), usize::from(window.contains(at(sample))));
        for (slice, clip) in clips {
            prop_assert!(!clip.is_empty());
            prop_assert_eq!(slicing.slice_of(clip.after.succ()), slice);
            prop_assert_eq!(slicing.slice_of(clip.through), slice);
        }
    }

    #[test]
    fn an_event_bucket_depends_on_the_token_alone(
        (time, token, item) in (time(), "[a-z]{1,12}", "[a-z]{0,3}"),
        buckets in 1_u16..,
    ) {
        let layout = layout(60, buckets);
        let bucket = layout.event_bucket(&event_key(time, &token, &item));
        prop_assert!(bucket.0 < buckets);
        prop_assert_eq!(layout.event_bucket(&event_key(0, &token, "")), bucket);
    }
}

#[test]
fn event_buckets_never_change() {
    // From the reference implementation of XXH3: token, its buckets among 2, 7, 64 and 65,535.
    let long = "ü".repeat(64);
    for (token, expected) in [
        ("a", [1, 1, 31, 34_354]),
        ("token-1", [0, 0, 34, 3_971]),
        (&long, [0, 0, 4, 50_530]),
        ("018f3c1e-7b9d-7cc4-9d1a-2f6f6d2d0c11", [1, 3, 37, 21_129]),
    ] {
        let key = event_key(0, token, "");
        assert_eq!(layout(1, 1).event_bucket(&key), EventBucket(0));
        let among = [2, 7, 64, 65_535].map(|buckets| layout(1, buckets).event_bucket(&key).0);
        assert_eq!(among, expected, "token {token:?}");
    }
}

#[test]
fn slices_and_buckets_are_floored_also_before_1970() {
    let (slicing, layout) = (slicing(10), layout(10, 1));
    for (time, id) in [
        (-1, -1),
        (0, 0),
        (9_999_999, 0),
        (10_000_000, 1),
        (-10_000_000, -1),
    ] {
        assert_eq!(slicing.slice_of(at(time)), SliceId(id), "at {time}");
        assert_eq!(layout.time_bucket(at(time)), TimeBucket(id), "at {time}");
    }
    assert_eq!(slicing.slice_of(at(-10_000_001)), SliceId(-2));
}

#[test]
fn the_ends_of_time_lie_in_slices() {
    let slicing = slicing(86_400);
    let (first, last) = (slicing.slice_of(Micros::MIN), slicing.slice_of(Micros::MAX));
    assert_eq!(slicing.start(first), Micros::MIN);
    assert_eq!(slicing.last(last), Micros::MAX);
    let everything = Window {
        after: Micros::MIN,
        through: Micros::MAX,
    };
    assert!(slicing.clip(everything, last).contains(Micros::MAX));
}

#[test]
fn lengths_are_from_a_second_to_a_thousand_years() {
    let thousand_years = Duration::from_hours(1000 * 366 * 24);
    for length in [Duration::from_secs(1), thousand_years] {
        let layout = SliceLayout::new(length, 3).expect("a valid length");
        assert_eq!(
            (layout.bucket_length(), layout.event_buckets()),
            (length, 3)
        );
        assert!(Slicing::new(length).is_ok());
    }
    let (short, long) = (Duration::from_nanos(999_999_999), thousand_years * 2);
    for length in [Duration::ZERO, short, long, Duration::MAX] {
        assert_eq!(Slicing::new(length), Err(SliceError::Length));
        assert_eq!(SliceLayout::new(length, 3), Err(SliceError::Length));
    }
    let error = SliceLayout::new(thousand_years, 0).expect_err("no bucket");
    assert_eq!(error, SliceError::NoEventBucket);
}
