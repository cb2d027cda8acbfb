//! Replays everything that fuzzing found worth keeping: no input may panic, and whatever is read
//! must be the same after it was written and read again.

use prost::Message;
use quipu_schemas::{
    codec, event, namespace::NamespaceDocument, signal, timestamp, v1::StreamAddRequest,
};
use std::{fs, path::Path};

/// Feeds each file of a target's corpus to `read`; returns how many were understood and refused.
fn replay(target: &str, read: impl Fn(&[u8]) -> bool) -> (usize, usize) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fuzz/corpus")
        .join(target);
    let entries =
        fs::read_dir(&corpus).unwrap_or_else(|error| panic!("{}: {error}", corpus.display()));
    let (mut understood, mut refused) = (0, 0);
    for entry in entries {
        let path = entry.expect("a readable directory").path();
        let bytes = fs::read(&path).expect("a readable file");
        if read(&bytes) {
            understood += 1;
        } else {
            refused += 1;
        }
    }
    (understood, refused)
}

fn assert_covered((understood, refused): (usize, usize)) {
    assert!(
        understood > 0 && refused > 0,
        "{understood} understood, {refused} refused"
    );
}

#[test]
fn every_event_of_the_corpus_is_read_or_refused() {
    assert_covered(replay("event", |value| match event::decode(value) {
        Ok(read) => {
            let again = event::decode(&event::encode(&read)).expect("it was just written");
            assert_eq!(again, read);
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }));
}

#[test]
fn every_signal_of_the_corpus_is_read_or_refused() {
    assert_covered(replay("signal", |value| match signal::decode(value) {
        Ok(read) => {
            let again = signal::decode(&signal::encode(&read)).expect("it was just written");
            assert_eq!(again, read);
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }));
}

#[test]
fn every_namespace_document_of_the_corpus_is_read_or_refused() {
    assert_covered(replay(
        "namespace",
        |json| match NamespaceDocument::from_json(json) {
            Ok(read) => {
                let text = serde_json::to_vec(&read).expect("a document can be written");
                let again = NamespaceDocument::from_json(&text).expect("it was just written");
                assert_eq!(again, read);
                true
            }
            Err(error) => {
                assert!(!error.field.is_empty() && !error.problem.is_empty());
                false
            }
        },
    ));
}

#[test]
fn every_message_of_a_stream_of_the_corpus_is_read_or_refused() {
    assert_covered(replay("stream_add", |bytes| {
        assert!(!codec::has_too_many_fields(bytes));
        let Ok(read) = StreamAddRequest::decode(bytes) else {
            return false;
        };
        for token in read.items.iter().flat_map(|item| &item.idempotency_token) {
            if let Some(Ok(time)) = token.generation_time.as_ref().map(timestamp::from_proto) {
                assert_eq!(timestamp::from_proto(&timestamp::to_proto(time)), Ok(time));
            }
        }
        let again = StreamAddRequest::decode(&*read.encode_to_vec());
        assert_eq!(again.expect("it was just written"), read);
        true
    }));
}

#[test]
fn every_time_of_the_corpus_is_read_or_refused() {
    assert_covered(replay("timestamp", |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else {
            return false;
        };
        match timestamp::from_rfc3339(text) {
            Ok(read) => {
                assert_eq!(
                    timestamp::from_rfc3339(&timestamp::to_rfc3339(read)),
                    Ok(read)
                );
                assert_eq!(timestamp::from_proto(&timestamp::to_proto(read)), Ok(read));
                true
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                false
            }
        }
    }));
}
