use proptest::prelude::*;
use quipu_core::time::Micros;
use quipu_schemas::timestamp::{TimeError, from_proto, from_rfc3339, to_proto, to_rfc3339};

/// 9999-12-31T23:59:59.999999Z.
const LATEST: i64 = 253_402_300_799_999_999;

#[track_caller]
fn assert_reads(text: &str, micros: i64) {
    assert_eq!(from_rfc3339(text), Ok(Micros::new(micros)), "{text}");
}

#[test]
fn offsets_name_the_same_moment() {
    for text in [
        "2026-01-31T12:00:00Z",
        "2026-01-31T12:00:00z",
        "2026-01-31t12:00:00Z",
        "2026-01-31T12:00:00+00:00",
        "2026-01-31T12:00:00-00:00",
        "2026-01-31T17:30:00+05:30",
        "2026-01-31T00:00:00-12:00",
        "2026-02-01T11:59:00+23:59",
    ] {
        assert_reads(text, 1_769_860_800_000_000);
    }
}

#[test]
fn fractions_are_floored_to_microseconds_also_before_1970() {
    assert_reads("1970-01-01T00:00:00.000001999Z", 1);
    assert_reads("1970-01-01T00:00:00.999999999Z", 999_999);
    assert_reads("1970-01-01T00:00:00.5Z", 500_000);
    assert_reads("1969-12-31T23:59:59.999999999Z", -1);
    assert_reads("1969-12-31T23:59:59.999999Z", -1);
    assert_reads("1969-12-31T23:59:59.999998999Z", -2);
    // Floored in UTC, whatever the offset.
    assert_reads("1970-01-01T01:00:00.000000999+01:00", 0);
}

#[test]
fn a_leap_second_counts_as_the_second_before_it() {
    assert_reads("2016-12-31T23:59:60Z", 1_483_228_799_000_000);
    assert_reads("2016-12-31T23:59:59Z", 1_483_228_799_000_000);
}

#[test]
fn the_years_1_to_9999_are_read_to_their_last_microsecond() {
    assert_reads("0001-01-01T00:00:00Z", Micros::EARLIEST.get());
    assert_reads("9999-12-31T23:59:59.999999Z", LATEST);
    assert_reads("9999-12-31T23:59:59.999999999Z", LATEST);
    assert_reads("9999-12-31T21:59:59-02:00", LATEST - 999_999);
    assert_reads("0000-12-31T23:00:00-01:00", Micros::EARLIEST.get());
}

#[test]
fn other_years_are_out_of_range() {
    for text in [
        "0000-12-31T23:59:59.999999999Z",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "0000-01-01T00:00:00Z",
        "-000001-01-01T00:00:00Z",
    ] {
        assert_eq!(from_rfc3339(text), Err(TimeError::OutOfRange), "{text}");
    }
    assert!(from_rfc3339("10000-01-01T00:00:00Z").is_err());
    assert!(from_rfc3339("+010000-01-01T00:00:00Z").is_err());
}

#[test]
fn what_is_no_time_is_said_to_be_none() {
    for text in [
        "",
        "now",
        "1700000000",
        "2026-01-31",
        "2026-01-31T12:00:00",
        "2026-02-29T12:00:00Z",
        "2026-01-31T24:00:00Z",
        "2026-01-31T12:60:00Z",
        "2026-01-31T12:00:61Z",
        "2026-01-31T12:00:00+24:00:00:00",
        "2026-01-31T12:00:00Z and more",
        "2026-01-31T12:00:00.Z",
        "2026-01-31T12:00:00[Europe/Berlin]",
        "12:00:00Z",
    ] {
        let error = from_rfc3339(text).expect_err(text);
        assert!(
            matches!(error, TimeError::NotRfc3339 { .. }),
            "{text}: {error:?}"
        );
        assert!(
            error
                .to_string()
                .contains("RFC 3339 time such as 2026-01-31T"),
            "{error}"
        );
    }
}

#[test]
fn a_refused_text_is_shown_cut_to_a_readable_length() {
    let Err(TimeError::NotRfc3339 { text, .. }) = from_rfc3339(&"é".repeat(10_000)) else {
        panic!("it is no time");
    };
    assert_eq!(text, "é".repeat(60));
}

#[test]
fn text_is_utc_with_as_many_digits_as_needed() {
    for (micros, text) in [
        (0, "1970-01-01T00:00:00Z"),
        (1, "1970-01-01T00:00:00.000001Z"),
        (500_000, "1970-01-01T00:00:00.5Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
        (Micros::EARLIEST.get(), "0001-01-01T00:00:00Z"),
        (LATEST, "9999-12-31T23:59:59.999999Z"),
    ] {
        assert_eq!(to_rfc3339(Micros::new(micros)), text);
    }
}

#[test]
fn a_moment_outside_the_years_is_shown_as_the_nearest_inside() {
    assert_eq!(to_rfc3339(Micros::MIN), "0001-01-01T00:00:00Z");
    assert_eq!(to_rfc3339(Micros::MAX), "9999-12-31T23:59:59.999999Z");
}

#[test]
fn a_protobuf_time_outside_its_range_is_refused() {
    for (seconds, nanos) in [
        (0, -1),
        (0, 1_000_000_000),
        (253_402_300_800, 0),
        (-62_135_596_801, 999_999_999),
        (i64::MAX, 0),
        (i64::MIN, 0),
    ] {
        let time = prost_types::Timestamp { seconds, nanos };
        assert_eq!(from_proto(&time), Err(TimeError::OutOfRange), "{time:?}");
    }
    let last = prost_types::Timestamp {
        seconds: 253_402_300_799,
        nanos: 999_999_999,
    };
    assert_eq!(from_proto(&last), Ok(Micros::new(LATEST)));
}

proptest! {
    #[test]
    fn every_moment_of_the_years_1_to_9999_is_written_and_read(
        micros in Micros::EARLIEST.get()..=LATEST,
    ) {
        let time = Micros::new(micros);
        prop_assert_eq!(from_rfc3339(&to_rfc3339(time)), Ok(time));
        prop_assert_eq!(from_proto(&to_proto(time)), Ok(time));
    }

    #[test]
    fn any_text_is_a_time_or_an_error(text in "[-+0-9TZtz:., \\[\\]/u]{0,40}") {
        let _ = from_rfc3339(&text);
    }
}
