//! Golden vectors: what is stored by one version must be found by every later one. The hashes come
//! from the reference implementation of XXH3 (Python's `xxhash`), not from ours.

use quipu_core::{
    key::{key_bytes, partition, route},
    name::{CounterName, Namespace},
};

fn key(namespace: &str, counter: &str) -> Vec<u8> {
    let namespace = Namespace::new(namespace).expect("a valid namespace");
    key_bytes(
        &namespace,
        &CounterName::new(counter).expect("a valid counter"),
    )
}

#[test]
fn key_bytes_never_change() {
    assert_eq!(key("a", "b"), b"\x01a\x00\x01b");
    assert_eq!(key("a-b", "c"), b"\x03a-b\x00\x01c");
    assert_eq!(key("a", "b-c"), b"\x01a\x00\x03b-c");
    assert_eq!(
        key("billing_metrics", "invoices"),
        b"\x0fbilling_metrics\x00\x08invoices"
    );
    assert_eq!(
        key("n0", "🦊/中"),
        b"\x02n0\x00\x08\xf0\x9f\xa6\x8a/\xe4\xb8\xad"
    );
    let longest = key(&"z".repeat(63), &"x".repeat(1024));
    assert_eq!(longest[..2], [63, b'z']);
    assert_eq!(longest[63..67], [b'z', 4, 0, b'x']);
    assert_eq!(longest.len(), 1 + 63 + 2 + 1024);
}

#[test]
fn routes_and_partitions_never_change() {
    let (long_namespace, long_counter) = ("z".repeat(63), "x".repeat(1024));
    let short_of_two_bytes = "x".repeat(256);
    // Namespace, counter, route, its partition among 12, 64 and 1,000,003.
    for (namespace, counter, expected, among_12, among_64, among_prime) in [
        ("a", "b", 0x203a_b5fc_3fce_0e81, 5, 1, 709_433),
        ("a-b", "c", 0x3449_a365_0d64_829e, 10, 30, 102_137),
        ("a", "b-c", 0xfea6_5879_ea6f_0b9e, 6, 30, 205_077),
        (
            "billing_metrics",
            "invoices",
            0x5dd7_fe71_25de_7cee,
            6,
            46,
            663_483,
        ),
        (
            &long_namespace,
            &long_counter,
            0xbf39_464d_2498_a965,
            1,
            37,
            669_448,
        ),
        ("events", "caf\u{e9}", 0x5d66_20c8_af42_f074, 4, 52, 85_094),
        (
            "events",
            "cafe\u{301}",
            0x7865_c40d_9eea_5b51,
            1,
            17,
            526_282,
        ),
        ("n0", "🦊/中", 0xf088_03ef_f29e_9913, 11, 19, 404_462),
        (
            "a",
            &short_of_two_bytes,
            0x075e_e881_0e8f_d2a3,
            11,
            35,
            467_864,
        ),
    ] {
        let actual = route(&key(namespace, counter));
        assert_eq!(actual, expected, "route of {namespace:?}, {counter:?}");
        assert_eq!(partition(actual, 1), 0);
        assert_eq!(partition(actual, 12), among_12);
        assert_eq!(partition(actual, 64), among_64);
        assert_eq!(partition(actual, 1_000_003), among_prime);
    }
}

#[test]
#[should_panic(expected = "divisor of zero")]
fn there_is_no_partition_among_none() {
    partition(1, 0);
}
