//! How gRPC messages are read and written: as protobuf, of no more fields than memory is meant for.

use prost::{
    Message,
    bytes::Buf,
    encoding::{DecodeContext, decode_key, skip_field},
};
use tonic::{
    Status,
    codec::{Codec, DecodeBuf, Decoder},
};
use tonic_prost::ProstCodec;

/// The most fields of a message, each of its items one. An empty item has two bytes on the wire and
/// over a hundred in memory: without this bound, a message of 4 MiB would take 200 MiB before anybody
/// counted its items.
pub const MAX_FIELDS: usize = 10_000;

/// No field has fewer bytes: its key, and a value or a length.
const LEAST_BYTES: usize = 2;

/// Protobuf, with the bound of [`MAX_FIELDS`].
#[derive(Clone, Debug)]
pub struct BoundedCodec<T, U>(ProstCodec<T, U>);

impl<T, U> Default for BoundedCodec<T, U> {
    fn default() -> Self {
        Self(ProstCodec::default())
    }
}

impl<T, U> Codec for BoundedCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = <ProstCodec<T, U> as Codec>::Encoder;
    type Decoder = BoundedDecoder<<ProstCodec<T, U> as Codec>::Decoder>;

    fn encoder(&mut self) -> Self::Encoder {
        self.0.encoder()
    }

    fn decoder(&mut self) -> Self::Decoder {
        BoundedDecoder(self.0.decoder())
    }
}

/// Reads a message once its fields are counted.
#[derive(Clone, Debug)]
pub struct BoundedDecoder<D>(D);

impl<D: Decoder<Error = Status>> Decoder for BoundedDecoder<D> {
    type Item = D::Item;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<D::Item>, Status> {
        if has_too_many_fields(buffer.chunk()) {
            return Err(Status::invalid_argument(format!(
                "the message has over {MAX_FIELDS} fields or items, far more than any call takes: \
                 split it"
            )));
        }
        self.0.decode(buffer)
    }

    fn buffer_settings(&self) -> tonic::codec::BufferSettings {
        self.0.buffer_settings()
    }
}

/// Whether an encoded message has more than [`MAX_FIELDS`] fields, as far as it can be read: whoever decodes
/// it finds out what is wrong with the rest.
pub fn has_too_many_fields(mut message: &[u8]) -> bool {
    if message.len() <= MAX_FIELDS * LEAST_BYTES {
        return false;
    }
    let mut fields = 0;
    while !message.is_empty() && fields <= MAX_FIELDS {
        let skipped = decode_key(&mut message).and_then(|(tag, wire_type)| {
            skip_field(wire_type, tag, &mut message, DecodeContext::default())
        });
        if skipped.is_err() {
            return false;
        }
        fields += 1;
    }
    fields > MAX_FIELDS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{BatchAddCountRequest, BatchAddItem};

    fn with_items(items: usize, item: &BatchAddItem) -> Vec<u8> {
        BatchAddCountRequest {
            namespace: "web".to_owned(),
            items: vec![item.clone(); items],
        }
        .encode_to_vec()
    }

    #[test]
    fn items_are_counted_whatever_their_size_before_they_are_read() {
        let named = BatchAddItem {
            counter_name: "x".repeat(300),
            ..Default::default()
        };
        for item in [BatchAddItem::default(), named] {
            let has_too_many = |items| has_too_many_fields(&with_items(items, &item));
            assert!(!has_too_many(1_000));
            assert!(
                !has_too_many(MAX_FIELDS - 1),
                "the namespace is a field, too"
            );
            assert!(has_too_many(MAX_FIELDS));
        }
        assert!(has_too_many_fields(&with_items(
            2 << 20,
            &BatchAddItem::default()
        )));
    }

    #[test]
    fn what_is_no_message_is_left_to_whoever_reads_it() {
        assert!(!has_too_many_fields(&vec![0xff; 1 << 20]));
        let broken_off = &with_items(MAX_FIELDS, &BatchAddItem::default());
        assert!(!has_too_many_fields(&broken_off[..broken_off.len() - 3]));
        assert!(!has_too_many_fields(&[]));
    }
}
