use quipu_core::{event::Mutation, policy::Refusal, time::Micros};
use quipu_schemas::event::{decode, decode_json, encode, is_json};

fn json(rest: &str) -> String {
    format!(
        r#"{{"namespace": "web", "counter_name": "pages/é", "token": "t-1",
            "generation_time": "2026-01-31T12:00:00.0000019+01:00"{rest}}}"#
    )
}

#[test]
fn the_same_event_in_json_and_protobuf_has_one_identity() {
    for delta in [r#""-3""#, "-3"] {
        let event =
            decode_json(json(&format!(r#", "delta": {delta}, "item_key": "k""#)).as_bytes());
        let event = event.expect("it is well made");
        assert_eq!(event.key.event_time, Micros::new(1_769_857_200_000_001));
        assert_eq!(event.mutation, Mutation::Add(-3));
        assert_eq!(event.key.item_key.as_str(), "k");
        assert_eq!(decode(&encode(&event)).expect("it was just written"), event);
    }
    let clear = decode_json(json(r#", "clear": true"#).as_bytes()).expect("it is well made");
    assert_eq!(
        (clear.mutation, clear.key.item_key.as_str()),
        (Mutation::Clear, "")
    );
}

#[test]
fn all_of_64_bits_fit_and_nothing_more() {
    for (delta, wanted) in [
        (r#""9223372036854775807""#, Some(i64::MAX)),
        ("-9223372036854775808", Some(i64::MIN)),
        ("9223372036854775808", None),
        (r#""9223372036854775808""#, None),
        ("1.0", None),
        (r#""""#, None),
        ("true", None),
    ] {
        let event = decode_json(json(&format!(r#", "delta": {delta}"#)).as_bytes());
        assert_eq!(
            event.ok().map(|event| event.mutation),
            wanted.map(Mutation::Add),
            "{delta}"
        );
    }
}

#[test]
fn an_error_names_the_field_and_what_is_wrong_with_it() {
    let cases = [
        (json(""), "delta or clear is missing"),
        (json(r#", "delta": 1, "clear": true"#), "not both"),
        (json(r#", "clear": false"#), "clear must be true"),
        (json(r#", "delta": "x""#), "delta: invalid value"),
        (
            json(r#", "delta": 1, "itemkey": "k""#),
            "itemkey: unknown field",
        ),
        (json(r#", "delta": 1"#) + "x", "trailing characters"),
        ("[]".to_owned(), "invalid length"),
        (
            json(r#", "delta": 1"#).replace("12:00", "25:00"),
            "RFC 3339",
        ),
        (json(r#", "delta": 1"#).replace("web", "Web"), "namespace"),
    ];
    for (text, wanted) in cases {
        let Err(error) = decode_json(text.as_bytes()) else {
            panic!("{text} was read")
        };
        let Refusal::Malformed(told) = Refusal::from(error) else {
            panic!("not malformed")
        };
        assert!(told.contains(wanted), "{text}: {told}");
    }
}

#[test]
fn content_types_may_have_parameters_and_any_case() {
    for (header, wanted) in [
        ("application/json", true),
        ("Application/JSON; charset=utf-8", true),
        ("application/x-protobuf", false),
        ("application/jsonl", false),
        ("", false),
    ] {
        assert_eq!(is_json(header.as_bytes()), wanted, "{header}");
    }
}
