use proptest::prelude::*;
use prost::Message;
use quipu_core::{
    event::{CounterKey, NamespaceId},
    name::CounterName,
    time::Micros,
};
use quipu_schemas::{
    signal::{CheckedSignal, decode, encode},
    v1::Signal,
};

fn signal(namespace: u32, counter: &str, last_write: Option<i64>) -> CheckedSignal {
    CheckedSignal {
        counter: CounterKey {
            namespace: NamespaceId(namespace),
            name: CounterName::new(counter).expect("a valid counter"),
        },
        last_write: last_write.map(Micros::new),
    }
}

proptest! {
    #[test]
    fn a_signal_is_the_same_after_it_was_written_and_read(
        namespace: u32,
        counter in "[^\0]{1,40}",
        last_write in prop::option::of(any::<i64>()),
    ) {
        let signal = signal(namespace, &counter, last_write);
        prop_assert_eq!(decode(&encode(&signal)).expect("it was just written"), signal);
    }

    #[test]
    fn any_bytes_are_a_signal_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let _ = decode(&bytes);
    }
}

#[test]
fn the_bytes_of_a_signal_never_change() {
    assert_eq!(
        encode(&signal(7, "c", Some(300))),
        b"\x08\x07\x12\x01c\x18\xac\x02"
    );
    assert_eq!(encode(&signal(0, "c", None)), b"\x12\x01c");
}

#[test]
fn a_write_at_the_epoch_is_not_a_read() {
    let at_the_epoch = signal(1, "c", Some(0));
    assert_eq!(
        decode(&encode(&at_the_epoch)).expect("it was just written"),
        at_the_epoch
    );
}

#[test]
fn what_is_wrong_with_a_signal_is_said() {
    for (counter_name, expected) in [("", "counter name has 0 bytes"), ("\0", "U+0000 at byte 0")] {
        let counter_name = counter_name.to_owned();
        let wrong = Signal {
            namespace_id: 1,
            counter_name,
            last_write_micros: None,
        };
        let error = decode(&wrong.encode_to_vec())
            .expect_err(expected)
            .to_string();
        assert!(error.contains(expected), "{error}");
    }
    let error = decode(b"\xff\xff").expect_err("no protobuf").to_string();
    assert!(error.starts_with("not a quipu.v1.Signal: "), "{error}");
}
