//! Records, from librdkafka's messages and to them.

use super::frontier::from_millis;
use crate::ports::{Body, Record, Stamp};
use bytes::{Bytes, BytesMut};
use rdkafka::{
    Timestamp,
    message::{BorrowedMessage, Header, Headers, Message, OwnedHeaders},
};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The header of a tick (R13).
const TICK: &str = "quipu-tick";
/// Stands for headers of which one has a name that is not text.
const UNREADABLE: &str = "quipu-unreadable-headers";
/// Values are copied into blocks of this size, which their records share.
const BLOCK: usize = 128 << 10;

/// Copies a message out of the client's memory.
pub(super) fn record(message: &BorrowedMessage<'_>, block: &mut BytesMut) -> Record {
    Record {
        offset: u64::try_from(message.offset()).expect("a record that was read has an offset"),
        stamp: stamp(message.timestamp()),
        body: body(message, block),
    }
}

fn stamp(timestamp: Timestamp) -> Stamp {
    match timestamp {
        Timestamp::LogAppendTime(millis) => Stamp::Log(from_millis(millis)),
        Timestamp::CreateTime(millis) => Stamp::Producer(from_millis(millis)),
        Timestamp::NotAvailable => Stamp::Producer(from_millis(0)),
    }
}

fn body(message: &BorrowedMessage<'_>, block: &mut BytesMut) -> Body {
    let headers = message.headers().map(headers).unwrap_or_default();
    let Some(value) = message.payload() else {
        // Anybody may write a null value: only Quipu's own says that it is a tick.
        return if headers.iter().any(|(name, _)| name == TICK) {
            Body::Tick
        } else {
            let value = Bytes::new();
            Body::Data { value, headers }
        };
    };
    let value = copy(value, block);
    Body::Data { value, headers }
}

fn copy(value: &[u8], block: &mut BytesMut) -> Bytes {
    if value.len() > BLOCK / 4 {
        return Bytes::copy_from_slice(value);
    }
    if block.capacity() < value.len() {
        *block = BytesMut::with_capacity(BLOCK);
    }
    block.extend_from_slice(value);
    block.split().freeze()
}

fn headers<H: Headers>(headers: &H) -> Vec<(String, Bytes)> {
    let read = || {
        let pair = |header: Header<'_, &[u8]>| {
            let value = header.value.unwrap_or_default();
            (header.key.to_owned(), Bytes::copy_from_slice(value))
        };
        headers.iter().map(pair).collect()
    };
    // The client panics at a name that is not UTF-8, and anybody can write one: such a record
    // must not stop its partition.
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|_| vec![(UNREADABLE.to_owned(), Bytes::new())])
}

/// The value and headers of a record to append.
pub(super) fn parts(body: Body) -> (Option<Bytes>, Option<OwnedHeaders>) {
    match body {
        Body::Tick => {
            let tick = Header {
                key: TICK,
                value: None::<&[u8]>,
            };
            (None, Some(OwnedHeaders::new().insert(tick)))
        }
        Body::Data { value, headers } => {
            let owned = (!headers.is_empty()).then(|| {
                let insert = |owned: OwnedHeaders, (name, value): &(String, Bytes)| {
                    owned.insert(Header {
                        key: name,
                        value: Some(&value[..]),
                    })
                };
                let empty = OwnedHeaders::new_with_capacity(headers.len());
                headers.iter().fold(empty, insert)
            });
            (Some(value), owned)
        }
    }
}

/// The size of a record's contents.
pub(super) fn size(body: &Body) -> usize {
    match body {
        Body::Tick => TICK.len(),
        Body::Data { value, headers } => {
            let headers = headers.iter().map(|(name, value)| name.len() + value.len());
            value.len() + headers.sum::<usize>()
        }
    }
}
