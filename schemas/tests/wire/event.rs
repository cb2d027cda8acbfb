use proptest::prelude::*;
use prost::Message;
use quipu_core::{
    event::{EventKey, Mutation},
    name::{CounterName, ItemKey, Namespace, Token},
    policy::Refusal,
    time::Micros,
};
use quipu_schemas::{
    event::{CheckedEvent, decode, encode},
    v1::{CounterEvent, counter_event},
};

/// 9999-12-31T23:59:59.999999Z.
const LATEST: i64 = 253_402_300_799_999_999;

fn event(time: i64, names: [&str; 4], mutation: Mutation) -> CheckedEvent {
    let [namespace, counter, token, item_key] = names;
    CheckedEvent {
        namespace: Namespace::new(namespace).expect("a valid namespace"),
        counter: CounterName::new(counter).expect("a valid counter"),
        key: EventKey {
            event_time: Micros::new(time),
            event_id: Token::new(token).expect("a valid token"),
            item_key: ItemKey::new(item_key).expect("a valid item key"),
        },
        mutation,
    }
}

/// A message that is right, for a test to spoil.
fn message() -> CounterEvent {
    CounterEvent {
        namespace: "billing".to_owned(),
        counter_name: "invoices".to_owned(),
        token: "t".to_owned(),
        generation_time: Some(prost_types::Timestamp {
            seconds: 1_700_000_000,
            nanos: 1_999,
        }),
        item_key: String::new(),
        mutation: Some(counter_event::Mutation::Delta(-3)),
    }
}

proptest! {
    #[test]
    fn an_event_is_the_same_after_it_was_written_and_read(
        time in Micros::EARLIEST.get()..=LATEST,
        counter in "[^\0]{1,40}",
        token in ".{1,30}",
        item_key in ".{0,30}",
        mutation in prop_oneof![any::<i64>().prop_map(Mutation::Add), Just(Mutation::Clear)],
    ) {
        let event = event(time, ["a-b_9", &counter, &token, &item_key], mutation);
        prop_assert_eq!(decode(&encode(&event)).expect("it was just written"), event);
    }

    #[test]
    fn any_bytes_are_an_event_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode(&bytes);
    }
}

#[test]
fn the_bytes_of_an_event_never_change() {
    let event = event(
        1_700_000_000_000_001,
        ["ns", "c", "t", "i"],
        Mutation::Add(-2),
    );
    let expected = b"\x0a\x02ns\x12\x01c\x1a\x01t\x22\x09\x08\x80\xe2\xcf\xaa\x06\x10\xe8\x07\x2a\x01i\x30\x03";
    assert_eq!(encode(&event), expected);
}

#[test]
fn a_time_is_floored_to_microseconds() {
    let event = decode(&message().encode_to_vec()).expect("a right message");
    assert_eq!(event.key.event_time, Micros::new(1_700_000_000_000_001));
    assert_eq!(event.mutation, Mutation::Add(-3));
}

#[test]
fn a_delta_of_zero_is_a_mutation_and_an_absent_one_is_none() {
    let zero = CounterEvent {
        mutation: Some(counter_event::Mutation::Delta(0)),
        ..message()
    };
    let zero = decode(&zero.encode_to_vec()).expect("a right message");
    assert_eq!(zero.mutation, Mutation::Add(0));
    let absent = CounterEvent {
        mutation: None,
        ..message()
    };
    assert!(decode(&absent.encode_to_vec()).is_err());
}

const fn timestamp(seconds: i64, nanos: i32) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds, nanos }
}

type Spoil = fn(&mut CounterEvent);

fn assert_refused(cases: &[(Spoil, &str)]) {
    for (spoil, expected) in cases {
        let mut message = message();
        spoil(&mut message);
        let error = decode(&message.encode_to_vec()).expect_err(expected);
        assert!(
            error.to_string().contains(expected),
            "{error} does not say {expected:?}"
        );
        assert_eq!(Refusal::from(error).reason(), "malformed");
    }
}

#[test]
fn a_wrong_name_is_refused_by_what_it_names() {
    assert_refused(&[
        (
            |it| it.namespace = "Billing".to_owned(),
            "namespace \"Billing\"",
        ),
        (|it| it.namespace.clear(), "namespace \"\""),
        (|it| it.counter_name.clear(), "counter name has 0 bytes"),
        (
            |it| it.counter_name = "x".repeat(1025),
            "counter name has 1025 bytes",
        ),
        (|it| it.counter_name = "a\0".to_owned(), "U+0000 at byte 1"),
        (|it| it.token.clear(), "idempotency token has 0 bytes"),
        (|it| it.token = "t".repeat(129), "idempotency token has 129"),
        (|it| it.item_key = "k".repeat(129), "item key has 129"),
    ]);
}

#[test]
fn a_wrong_time_is_refused_by_the_name_of_its_field() {
    let expected = "generation_time: a time must lie in the years 0001 to 9999";
    assert_refused(&[
        (|it| it.generation_time = None, "generation_time is missing"),
        (|it| it.generation_time = Some(timestamp(0, -1)), expected),
        (
            |it| it.generation_time = Some(timestamp(0, 1_000_000_000)),
            expected,
        ),
        (
            |it| it.generation_time = Some(timestamp(253_402_300_800, 0)),
            expected,
        ),
        (
            |it| it.generation_time = Some(timestamp(-62_135_596_801, 0)),
            expected,
        ),
        (
            |it| it.generation_time = Some(timestamp(i64::MAX, 0)),
            expected,
        ),
        (
            |it| it.generation_time = Some(timestamp(i64::MIN, 0)),
            expected,
        ),
    ]);
}

#[test]
fn an_event_that_does_nothing_is_refused() {
    assert_refused(&[
        (|it| it.mutation = None, "delta or clear is missing"),
        (
            |it| it.mutation = Some(counter_event::Mutation::Clear(false)),
            "clear must be true",
        ),
    ]);
}

#[test]
fn what_is_no_protobuf_is_said_to_be_none() {
    let whole = message().encode_to_vec();
    let mut not_utf8 = whole.clone();
    not_utf8[2] = 0xff;
    for bytes in [
        &b"{\"delta\": 1}"[..],
        &[0xff; 30],
        &whole[..whole.len() - 1],
        &not_utf8,
    ] {
        let error = decode(bytes).expect_err("no protobuf").to_string();
        assert!(
            error.starts_with("not a quipu.v1.CounterEvent: "),
            "{error}"
        );
    }
    // No bytes at all are a message without fields.
    let error = decode(b"").expect_err("an empty message").to_string();
    assert_eq!(error, "generation_time is missing");
}
