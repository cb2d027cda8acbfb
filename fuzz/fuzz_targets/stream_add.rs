//! Any bytes may arrive as a message of a stream of adds.

#![no_main]

use libfuzzer_sys::fuzz_target;
use prost::Message;
use quipu_schemas::{
    codec::{MAX_FIELDS, has_too_many_fields},
    timestamp::{from_proto, to_proto},
    v1::StreamAddRequest,
};

fuzz_target!(|bytes: &[u8]| {
    let is_bounded = !has_too_many_fields(bytes);
    let Ok(message) = StreamAddRequest::decode(bytes) else {
        return;
    };
    assert!(!is_bounded || message.items.len() <= MAX_FIELDS);
    for token in message.items.iter().flat_map(|item| &item.idempotency_token) {
        if let Some(Ok(time)) = token.generation_time.as_ref().map(from_proto) {
            assert_eq!(from_proto(&to_proto(time)), Ok(time));
        }
    }
    let again = StreamAddRequest::decode(&*message.encode_to_vec());
    assert_eq!(again.expect("what was written can be read"), message);
});
