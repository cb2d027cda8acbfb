//! Key bytes of a counter, its route and its partition. A persistent format: golden vectors in
//! the tests pin it.

use crate::name::{CounterName, Namespace};
use xxhash_rust::xxh3::xxh3_64;

/// The key bytes: each part behind its length (one byte for the namespace, two big-endian bytes
/// for the counter), so that ("a-b", "c") and ("a", "b-c") differ.
pub fn key_bytes(namespace: &Namespace, counter: &CounterName) -> Vec<u8> {
    let (ns, name) = (namespace.as_str().as_bytes(), counter.as_str().as_bytes());
    let mut key = Vec::with_capacity(3 + ns.len() + name.len());
    key.push(u8::try_from(ns.len()).expect("a namespace has at most 63 bytes"));
    key.extend_from_slice(ns);
    let length = u16::try_from(name.len()).expect("a counter name has at most 1,024 bytes");
    key.extend_from_slice(&length.to_be_bytes());
    key.extend_from_slice(name);
    key
}

/// The route of key bytes: XXH3-64 with seed 0.
pub fn route(key_bytes: &[u8]) -> u64 {
    xxh3_64(key_bytes)
}

/// The partition of a route among `partitions`.
///
/// # Panics
/// When `partitions` is zero.
pub fn partition(route: u64, partitions: u32) -> u32 {
    u32::try_from(route % u64::from(partitions)).expect("a remainder of a u32 fits a u32")
}
