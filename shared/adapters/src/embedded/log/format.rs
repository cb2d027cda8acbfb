//! Keys and values of the log on disk. A persistent format: tests pin it.
//!
//! A batch is one key and one value: all records that one group appended to one partition. Its
//! key is the partition and the base offset, big-endian, so that a partition's batches follow one
//! another; the keyspace tells the topic. The engine checks the bytes by checksums of its own.

use crate::ports::{Body, LogError, Topic};
use bytes::{Buf, BufMut, Bytes, TryGetError};
use quipu_core::time::Micros;

const VERSION: u8 = 1;
const TICK: u8 = 0;
const PLAIN: u8 = 1;
const WITH_HEADERS: u8 = 2;

/// Every topic, in the order of their numbers on disk.
pub(super) const TOPICS: [Topic; 3] = [Topic::Events, Topic::Signals, Topic::DeadLetters];

/// The number of a topic in keys.
pub(super) const fn topic_number(topic: Topic) -> u8 {
    match topic {
        Topic::Events => 0,
        Topic::Signals => 1,
        Topic::DeadLetters => 2,
    }
}

/// The name of a topic in keyspaces and messages.
pub(super) const fn topic_name(topic: Topic) -> &'static str {
    match topic {
        Topic::Events => "events",
        Topic::Signals => "signals",
        Topic::DeadLetters => "dead-letters",
    }
}

/// All records that one group appended to one partition.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) base: u64,
    pub(super) append_time: Micros,
    pub(super) bodies: Vec<Body>,
}

impl Batch {
    /// The offset after its last record.
    pub(super) fn end(&self) -> u64 {
        self.base + self.bodies.len() as u64
    }
}

/// The bytes that a record's contents take, as budgets and limits count them.
pub(super) fn body_bytes(body: &Body) -> usize {
    match body {
        Body::Tick => 0,
        Body::Data { value, headers } => {
            let headers = headers
                .iter()
                .map(|(name, value)| name.len() + value.len() + 8);
            value.len() + headers.sum::<usize>()
        }
    }
}

/// The key of a batch in its topic's keyspaces.
pub(super) fn batch_key(partition: u32, base: u64) -> [u8; 12] {
    let mut key = [0; 12];
    key[..4].copy_from_slice(&partition.to_be_bytes());
    key[4..].copy_from_slice(&base.to_be_bytes());
    key
}

/// The value of a batch.
pub(super) fn encode_batch(append_time: Micros, bodies: &[Body]) -> Vec<u8> {
    let contents: usize = bodies.iter().map(|body| body_bytes(body) + 9).sum();
    let mut to = Vec::with_capacity(13 + contents);
    to.put_u8(VERSION);
    to.put_i64_le(append_time.get());
    put_length(&mut to, bodies.len());
    for body in bodies {
        match body {
            Body::Tick => to.put_u8(TICK),
            Body::Data { value, headers } if headers.is_empty() => {
                to.put_u8(PLAIN);
                put_bytes(&mut to, value);
            }
            Body::Data { value, headers } => {
                to.put_u8(WITH_HEADERS);
                put_bytes(&mut to, value);
                put_length(&mut to, headers.len());
                for (name, value) in headers {
                    put_bytes(&mut to, name.as_bytes());
                    put_bytes(&mut to, value);
                }
            }
        }
    }
    to
}

fn put_length(to: &mut Vec<u8>, length: usize) {
    to.put_u32_le(u32::try_from(length).expect("requests are bounded far below 4 GiB"));
}

fn put_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    put_length(to, bytes.len());
    to.put_slice(bytes);
}

/// Why a value is no batch.
#[derive(Debug, thiserror::Error)]
enum BatchError {
    #[error("it ends too early")]
    Short(#[from] TryGetError),
    #[error("it has format {0}, and this version of quipu reads {VERSION}")]
    Version(u8),
    #[error("it holds a record of unknown kind {0}")]
    Kind(u8),
    #[error("a header's name is not UTF-8")]
    HeaderName,
    #[error("it has {0} bytes too many")]
    Long(usize),
}

/// Reads a batch back.
pub(super) fn decode_batch(key: &[u8], value: Bytes) -> Result<Batch, LogError> {
    let base = key
        .get(4..12)
        .and_then(|base| base.try_into().ok())
        .map(u64::from_be_bytes);
    let base = base.ok_or_else(|| LogError::Damaged(format!("{key:?} is no key of a batch")))?;
    let damaged = |error| LogError::Damaged(format!("the batch at offset {base}: {error}"));
    let (append_time, bodies) = decode_value(value).map_err(damaged)?;
    Ok(Batch {
        base,
        append_time,
        bodies,
    })
}

fn decode_value(mut value: Bytes) -> Result<(Micros, Vec<Body>), BatchError> {
    let version = value.try_get_u8()?;
    if version != VERSION {
        return Err(BatchError::Version(version));
    }
    let append_time = Micros::new(value.try_get_i64_le()?);
    let count = value.try_get_u32_le()? as usize;
    let mut bodies = Vec::with_capacity(count.min(value.len()));
    for _ in 0..count {
        bodies.push(decode_body(&mut value)?);
    }
    if value.is_empty() {
        Ok((append_time, bodies))
    } else {
        Err(BatchError::Long(value.len()))
    }
}

fn decode_body(from: &mut Bytes) -> Result<Body, BatchError> {
    let kind = from.try_get_u8()?;
    if kind == TICK {
        return Ok(Body::Tick);
    }
    if kind != PLAIN && kind != WITH_HEADERS {
        return Err(BatchError::Kind(kind));
    }
    let value = get_bytes(from)?;
    let count = if kind == WITH_HEADERS {
        from.try_get_u32_le()?
    } else {
        0
    };
    let mut headers = Vec::new();
    for _ in 0..count {
        let name =
            String::from_utf8(get_bytes(from)?.into()).map_err(|_| BatchError::HeaderName)?;
        headers.push((name, get_bytes(from)?));
    }
    Ok(Body::Data { value, headers })
}

fn get_bytes(from: &mut Bytes) -> Result<Bytes, BatchError> {
    let length = from.try_get_u32_le()? as usize;
    if length > from.len() {
        let missing = TryGetError {
            requested: length,
            available: from.len(),
        };
        return Err(missing.into());
    }
    Ok(from.split_to(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header_body() -> Body {
        Body::Data {
            value: Bytes::from_static(b"v"),
            headers: vec![("h".to_owned(), Bytes::from_static(b"x"))],
        }
    }

    #[test]
    fn a_batch_keeps_the_bytes_that_earlier_versions_wrote() {
        let bodies = vec![Body::Tick, Body::value("ab"), header_body()];
        let value = encode_batch(Micros::new(258), &bodies);
        let expected = [
            &[1, 2, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0][..],
            &[0],
            &[1, 2, 0, 0, 0, b'a', b'b'],
            &[
                2, 1, 0, 0, 0, b'v', 1, 0, 0, 0, 1, 0, 0, 0, b'h', 1, 0, 0, 0, b'x',
            ],
        ];
        assert_eq!(value, expected.concat());
        let key = batch_key(1, 7);
        assert_eq!(key, [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7]);
        let batch = decode_batch(&key, value.into()).unwrap();
        assert_eq!(
            batch,
            Batch {
                base: 7,
                append_time: Micros::new(258),
                bodies
            }
        );
        assert_eq!(batch.end(), 10);
    }

    #[test]
    fn a_cut_or_foreign_value_is_damage_and_no_batch() {
        let whole = encode_batch(Micros::new(5), &[header_body()]);
        for length in 0..whole.len() {
            let cut = Bytes::copy_from_slice(&whole[..length]);
            assert!(
                decode_batch(&batch_key(0, 0), cut).is_err(),
                "{length} bytes"
            );
        }
        let mut newer = whole.clone();
        newer[0] = 2;
        assert!(decode_batch(&batch_key(0, 0), newer.into()).is_err());
        let longer = [&whole[..], &[0]].concat();
        assert!(decode_batch(&batch_key(0, 0), longer.into()).is_err());
    }
}
