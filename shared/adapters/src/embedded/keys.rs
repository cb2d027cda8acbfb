//! Keys and values of the embedded stores: byte order is the order of the domain.
//!
//! An event's key holds the log position of its copy, behind the identity. So copies of one event
//! are adjacent rows, the first of them is the one that wins (R8), and a write never has to read.
//! A persistent format: a golden vector in the tests pins it.

use quipu_core::{
    event::{CounterKey, EventKey, EventRow, LogPosition, Mutation, NamespaceId, StoredEvent},
    key::route,
    name::{CounterName, ItemKey, NameError, Token},
    slice::{EventBucket, SliceLayout, TimeBucket},
    time::Micros,
};

/// Bytes that are no key or value of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum KeyError {
    #[error("it ends in the middle of {0}")]
    Short(&'static str),
    #[error("{0} is no valid text")]
    Text(&'static str),
    #[error("{0} is out of its range")]
    Range(&'static str),
    #[error(transparent)]
    Name(#[from] NameError),
}

/// Between a zero byte that belongs to a text, and the end of the text: the end sorts first.
const END: [u8; 2] = [0, 1];
const ESCAPED_ZERO: [u8; 2] = [0, 0xFF];

/// The length of an integer stands in its first byte, on both sides of this.
const INT_ZERO: u8 = 0x80;

const KIND_ADD: u8 = 0;
const KIND_CLEAR: u8 = 1;

/// Appends an integer so that bytes sort as values: its length above or below a middle, then its
/// significant bytes, big-endian. Small values take two bytes, zero one.
pub(super) fn put_int(out: &mut Vec<u8>, value: i128) {
    let magnitude = if value < 0 { !value } else { value };
    let bits = i128::BITS - magnitude.leading_zeros();
    let length = bits.div_ceil(8).to_be_bytes()[3];
    out.push(if value < 0 {
        INT_ZERO - 1 - length
    } else {
        INT_ZERO + length
    });
    out.extend_from_slice(&value.to_be_bytes()[16 - usize::from(length)..]);
}

/// Takes an integer that [`put_int`] appended.
pub(super) fn take_int(from: &mut &[u8], what: &'static str) -> Result<i128, KeyError> {
    let [tag] = take(from, what)?;
    let (length, fill) = if tag < INT_ZERO {
        (INT_ZERO - 1 - tag, 0xFF)
    } else {
        (tag - INT_ZERO, 0)
    };
    let start = 16_usize
        .checked_sub(usize::from(length))
        .ok_or(KeyError::Range(what))?;
    let significant = from
        .split_off(..usize::from(length))
        .ok_or(KeyError::Short(what))?;
    let mut bytes = [fill; 16];
    bytes[start..].copy_from_slice(significant);
    Ok(i128::from_be_bytes(bytes))
}

/// Takes an integer of a narrower type.
pub(super) fn take_narrow<T: TryFrom<i128>>(
    from: &mut &[u8],
    what: &'static str,
) -> Result<T, KeyError> {
    T::try_from(take_int(from, what)?).map_err(|_| KeyError::Range(what))
}

fn take<const N: usize>(from: &mut &[u8], what: &'static str) -> Result<[u8; N], KeyError> {
    from.split_off(..N)
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or(KeyError::Short(what))
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    let mut parts = text.as_bytes().split(|byte| *byte == 0);
    out.extend_from_slice(parts.next().unwrap_or_default());
    for part in parts {
        out.extend_from_slice(&ESCAPED_ZERO);
        out.extend_from_slice(part);
    }
    out.extend_from_slice(&END);
}

/// Takes a text up to its end. Nearly none holds a zero byte, and then nothing is copied.
fn take_text<T>(
    from: &mut &[u8],
    what: &'static str,
    check: fn(&str) -> Result<T, NameError>,
) -> Result<T, KeyError> {
    let mut unescaped = Vec::new();
    loop {
        let zero = from
            .iter()
            .position(|byte| *byte == 0)
            .ok_or(KeyError::Short(what))?;
        let part = from.split_off(..zero).ok_or(KeyError::Short(what))?;
        let mark: [u8; 2] = take(from, what)?;
        if mark == END && unescaped.is_empty() {
            return text(part, what, check);
        }
        unescaped.extend_from_slice(part);
        match mark {
            END => return text(&unescaped, what, check),
            ESCAPED_ZERO => unescaped.push(0),
            _ => return Err(KeyError::Text(what)),
        }
    }
}

fn text<T>(
    bytes: &[u8],
    what: &'static str,
    check: fn(&str) -> Result<T, NameError>,
) -> Result<T, KeyError> {
    let text = std::str::from_utf8(bytes).map_err(|_| KeyError::Text(what))?;
    Ok(check(text)?)
}

fn put_time(out: &mut Vec<u8>, time: Micros) {
    out.extend_from_slice(&(time.get() ^ i64::MIN).to_be_bytes());
}

fn take_time(from: &mut &[u8], what: &'static str) -> Result<Micros, KeyError> {
    Ok(Micros::new(
        i64::from_be_bytes(take(from, what)?) ^ i64::MIN,
    ))
}

/// Appends a counter. A name holds no zero byte, so one ends it, and sorts before what goes on.
pub(super) fn put_counter(out: &mut Vec<u8>, counter: &CounterKey) {
    out.extend_from_slice(&counter.namespace.0.to_be_bytes());
    out.extend_from_slice(counter.name.as_str().as_bytes());
    out.push(0);
}

const HASH_LEN: usize = 4;

/// Appends a counter behind four bytes of its hash. The engine keeps the first four bytes of a key
/// beside it, so nearly all comparisons of different counters need no other memory, which saves
/// an eighth of the work of a write. Counters then sort by their hashes, and by themselves only where those are equal.
fn put_hashed_counter(out: &mut Vec<u8>, counter: &CounterKey) {
    let start = out.len();
    out.extend_from_slice(&[0; HASH_LEN]);
    put_counter(out, counter);
    let hash = route(&out[start + HASH_LEN..]).to_be_bytes();
    out[start..start + HASH_LEN].copy_from_slice(&hash[..HASH_LEN]);
}

/// The key of a counter: what the keys of its events begin with.
pub(super) fn counter_key(counter: &CounterKey) -> Vec<u8> {
    let mut key = Vec::with_capacity(HASH_LEN + 5 + counter.name.as_str().len());
    put_hashed_counter(&mut key, counter);
    key
}

/// The place of a counter's key among all: the hash that it begins with.
pub(super) fn place_of(key: &[u8]) -> Result<u32, KeyError> {
    let hash = key.first_chunk().ok_or(KeyError::Short("the hash"))?;
    Ok(u32::from_be_bytes(*hash))
}

/// The counter that an event's key begins with.
pub(super) fn counter_of(key: &[u8]) -> Result<CounterKey, KeyError> {
    take_counter(&mut key.get(HASH_LEN..).ok_or(KeyError::Short("the hash"))?)
}

/// Takes a counter.
pub(super) fn take_counter(from: &mut &[u8]) -> Result<CounterKey, KeyError> {
    let namespace = NamespaceId(u32::from_be_bytes(take(from, "the namespace")?));
    let what = "the counter name";
    let zero = from
        .iter()
        .position(|byte| *byte == 0)
        .ok_or(KeyError::Short(what))?;
    let name = from.split_off(..zero).ok_or(KeyError::Short(what))?;
    *from = &from[1..];
    Ok(CounterKey {
        namespace,
        name: text(name, what, CounterName::new)?,
    })
}

/// Appends where a bucket of a counter begins.
pub(super) fn put_bucket(out: &mut Vec<u8>, time: TimeBucket, event: EventBucket) {
    put_int(out, time.0.into());
    put_int(out, event.0.into());
}

/// Appends where the events of a bucket begin that happened at a time.
pub(super) fn put_event_time(out: &mut Vec<u8>, time: Micros) {
    put_time(out, time);
}

/// Appends what all copies of an event share, and no other event's key starts with.
pub(super) fn put_identity(
    out: &mut Vec<u8>,
    counter: &CounterKey,
    key: &EventKey,
    layout: SliceLayout,
) {
    put_hashed_counter(out, counter);
    put_bucket(
        out,
        layout.time_bucket(key.event_time),
        layout.event_bucket(key),
    );
    put_time(out, key.event_time);
    put_text(out, key.event_id.as_str());
    put_text(out, key.item_key.as_str());
}

/// Writes the key of a row into an empty buffer.
pub(super) fn event_key(out: &mut Vec<u8>, row: &EventRow, layout: SliceLayout) {
    let StoredEvent { key, source, .. } = &row.event;
    put_identity(out, &row.counter, key, layout);
    // Copies share their event time, so the distance to it sorts as the effective time itself,
    // and takes a third of the bytes.
    let distance = i128::from(source.effective_time.get()) - i128::from(key.event_time.get());
    put_int(out, distance);
    put_int(out, source.partition.into());
    put_int(out, source.offset.into());
}

/// The value of a row.
pub(super) fn event_value(out: &mut Vec<u8>, mutation: Mutation) {
    match mutation {
        Mutation::Add(delta) => {
            out.push(KIND_ADD);
            put_int(out, delta.into());
        }
        Mutation::Clear => out.push(KIND_CLEAR),
    }
}

/// A row as it was read.
#[derive(Debug)]
pub(super) struct DecodedEvent {
    /// How many bytes of the key are the identity.
    pub(super) identity_len: usize,
    /// The event.
    pub(super) event: StoredEvent,
}

/// Decodes a row whose key begins with `counter_len` bytes of the counter.
pub(super) fn decode_event(
    key: &[u8],
    counter_len: usize,
    value: &[u8],
) -> Result<DecodedEvent, KeyError> {
    let mut rest = key
        .get(counter_len..)
        .ok_or(KeyError::Short("the counter"))?;
    take_int(&mut rest, "the time bucket")?;
    take_int(&mut rest, "the event bucket")?;
    let event_key = EventKey {
        event_time: take_time(&mut rest, "the event time")?,
        event_id: take_text(&mut rest, "the token", Token::new)?,
        item_key: take_text(&mut rest, "the item key", ItemKey::new)?,
    };
    let identity_len = key.len() - rest.len();
    let distance = take_int(&mut rest, "the effective time")?;
    let effective = i128::from(event_key.event_time.get()) + distance;
    let effective = i64::try_from(effective).map_err(|_| KeyError::Range("the effective time"))?;
    let source = LogPosition {
        effective_time: Micros::new(effective),
        partition: take_narrow(&mut rest, "the partition")?,
        offset: take_narrow(&mut rest, "the offset")?,
    };
    let mutation = decode_value(value)?;
    Ok(DecodedEvent {
        identity_len,
        event: StoredEvent {
            key: event_key,
            mutation,
            source,
        },
    })
}

fn decode_value(mut value: &[u8]) -> Result<Mutation, KeyError> {
    match take(&mut value, "the kind")? {
        [KIND_ADD] => Ok(Mutation::Add(take_narrow(&mut value, "the delta")?)),
        [KIND_CLEAR] => Ok(Mutation::Clear),
        [_] => Err(KeyError::Range("the kind")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    fn layout() -> impl Strategy<Value = SliceLayout> {
        let bucket = (1..100_000_u64).prop_map(Duration::from_secs);
        (bucket, 1..300_u16).prop_map(|(bucket, n)| SliceLayout::new(bucket, n).expect("valid"))
    }

    /// Short texts of few characters, so that prefixes and equal parts are common.
    fn text(longest: usize) -> impl Strategy<Value = String> {
        let char = prop::sample::select(vec!['\0', '\u{1}', 'a', 'b', 'ÿ', '\u{10FFFF}']);
        prop::collection::vec(char, 0..=longest).prop_map(String::from_iter)
    }

    fn counter() -> impl Strategy<Value = CounterKey> {
        (0..3_u32, text(4)).prop_map(|(namespace, name)| CounterKey {
            namespace: NamespaceId(namespace),
            name: CounterName::new(&format!("a{}", name.replace('\0', ""))).expect("valid"),
        })
    }

    fn time() -> impl Strategy<Value = Micros> {
        prop_oneof![-3..3_i64, any::<i64>()].prop_map(Micros::new)
    }

    fn event() -> impl Strategy<Value = StoredEvent> {
        let key = (time(), text(3), text(3)).prop_map(|(event_time, token, item)| EventKey {
            event_time,
            event_id: Token::new(&format!("{token}t")).expect("valid"),
            item_key: ItemKey::new(&item).expect("valid"),
        });
        let source =
            (time(), any::<u32>(), any::<u64>()).prop_map(|(effective_time, p, o)| LogPosition {
                effective_time,
                partition: p,
                offset: o,
            });
        let mutation = prop_oneof![
            any::<i64>().prop_map(Mutation::Add),
            (-2..2_i64).prop_map(Mutation::Add),
            Just(Mutation::Clear),
        ];
        (key, mutation, source).prop_map(|(key, mutation, source)| StoredEvent {
            key,
            mutation,
            source,
        })
    }

    fn row() -> impl Strategy<Value = EventRow> {
        (counter(), event()).prop_map(|(counter, event)| EventRow { counter, event })
    }

    fn key_of(row: &EventRow, layout: SliceLayout) -> Vec<u8> {
        let mut key = Vec::new();
        event_key(&mut key, row, layout);
        key
    }

    fn identity_of(row: &EventRow, layout: SliceLayout) -> Vec<u8> {
        let mut identity = Vec::new();
        put_identity(&mut identity, &row.counter, &row.event.key, layout);
        identity
    }

    proptest! {
        #[test]
        fn an_integer_comes_back_and_sorts_by_its_value(a: i128, b: i128, shift in 0..128_u32) {
            let (a, b) = (a >> shift, b >> shift);
            let bytes = |value| {
                let mut out = Vec::new();
                put_int(&mut out, value);
                out
            };
            prop_assert_eq!(take_int(&mut &*bytes(a), "it"), Ok(a));
            prop_assert_eq!(bytes(a).cmp(&bytes(b)), a.cmp(&b));
        }

        #[test]
        fn a_row_comes_back_as_it_was_written(row in row(), layout in layout()) {
            let key = key_of(&row, layout);
            let mut value = Vec::new();
            event_value(&mut value, row.event.mutation);
            prop_assert_eq!(&counter_of(&key).expect("readable"), &row.counter);
            let counter = counter_key(&row.counter);
            prop_assert!(key.starts_with(&counter));
            let decoded = decode_event(&key, counter.len(), &value).expect("readable");
            prop_assert_eq!(decoded.event, row.event.clone());
            let identity = identity_of(&row, layout);
            prop_assert_eq!(&key[..decoded.identity_len], &*identity);
        }

        #[test]
        fn keys_of_a_counter_sort_as_bucket_event_and_position(
            a in row(), b in row(), same_event: bool, layout in layout()
        ) {
            let mut b = b;
            if same_event {
                b.counter = a.counter.clone();
                b.event.key = a.event.key.clone();
            }
            let order = |row: &EventRow| {
                let EventKey { event_time, .. } = row.event.key;
                let event_bucket = layout.event_bucket(&row.event.key);
                let bucket = (layout.time_bucket(event_time), event_bucket);
                (counter_key(&row.counter), bucket, row.event.key.clone(), row.event.source)
            };
            prop_assert_eq!(key_of(&a, layout).cmp(&key_of(&b, layout)), order(&a).cmp(&order(&b)));
        }

        #[test]
        fn only_copies_of_an_event_start_with_its_identity(
            a in row(), b in row(), layout in layout()
        ) {
            let copies = (&a.counter, &a.event.key) == (&b.counter, &b.event.key);
            prop_assert_eq!(key_of(&b, layout).starts_with(&identity_of(&a, layout)), copies);
        }

        #[test]
        fn damaged_bytes_are_an_error_and_no_panic(
            key in prop::collection::vec(any::<u8>(), 0..40),
            value in prop::collection::vec(any::<u8>(), 0..20),
            counter_len in 0..10_usize,
        ) {
            drop(counter_of(&key));
            drop(decode_event(&key, counter_len, &value));
        }
    }

    #[test]
    fn the_format_of_a_row_never_changes() {
        let row = EventRow {
            counter: CounterKey {
                namespace: NamespaceId(7),
                name: CounterName::new("views").expect("valid"),
            },
            event: StoredEvent {
                key: EventKey {
                    event_time: Micros::new(1_700_000_000_000_000),
                    event_id: Token::new("t\0k").expect("valid"),
                    item_key: ItemKey::new("").expect("valid"),
                },
                mutation: Mutation::Add(-3),
                source: LogPosition {
                    effective_time: Micros::new(1_700_000_000_000_300),
                    partition: 2,
                    offset: 70_000,
                },
            },
        };
        let layout = SliceLayout::new(Duration::from_hours(24), 1).expect("valid");
        let mut value = Vec::new();
        event_value(&mut value, row.event.mutation);
        assert_eq!(
            key_of(&row, layout).escape_ascii().to_string(),
            concat!(
                r"$\xcc\xa87\x00\x00\x00\x07views\x00\x82L\xdb\x80\x80\x06\n$\x18\x1e@\x00",
                r"t\x00\xffk\x00\x01\x00\x01\x82\x01,\x81\x02\x83\x01\x11p",
            )
        );
        assert_eq!(value.escape_ascii().to_string(), r"\x00~\xfd");
    }
}
