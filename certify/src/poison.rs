//! Records that are no events, of every kind that a producer may get wrong.

use fastrand::Rng;
use quipu_core::{
    event::{EventKey, Mutation},
    name::{CounterName, ItemKey, Namespace, Token},
    time::Micros,
};
use quipu_schemas::event::{CheckedEvent, encode};

/// A value, and whether a header says that it is JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) content_type: Option<&'static str>,
}

const JSON: &str = "application/json";

/// What is wrong with each of these is told by its place in the list.
const IN_JSON: [&str; 8] = [
    "{\"namespace\": ",
    "[]",
    r#"{"namespace":"certify","counter_name":"","token":"t","generation_time":"2025-03-01T12:00:00Z","delta":1}"#,
    r#"{"namespace":"certify","counter_name":"a\u0000b","token":"t","generation_time":"2025-03-01T12:00:00Z","delta":1}"#,
    r#"{"namespace":"certify","counter_name":"a","token":"","generation_time":"2025-03-01T12:00:00Z","delta":1}"#,
    r#"{"namespace":"certify","counter_name":"a","token":"t","generation_time":"yesterday","delta":1}"#,
    r#"{"namespace":"certify","counter_name":"a","token":"t","generation_time":"2025-03-01T12:00:00Z"}"#,
    r#"{"namespace":"certify","counter_name":"a","token":"t","generation_time":"2025-03-01T12:00:00Z","delta":1,"clear":true}"#,
];

/// One of them.
pub(crate) fn record(rng: &mut Rng) -> Record {
    let of = |value| Record {
        value,
        content_type: None,
    };
    match rng.u8(..5) {
        0 => of(None),
        1 => of(Some(Vec::new())),
        2 => {
            let mut noise = vec![0; rng.usize(1..2_000)];
            rng.fill(&mut noise);
            // No field of an event has this number and type.
            noise[0] = 0xff;
            of(Some(noise))
        }
        3 => {
            let mut event = encode(&of_nobody());
            event.truncate(rng.usize(1..=event.len()));
            of(Some(event))
        }
        _ => Record {
            value: Some(rng.choice(IN_JSON).expect("some").as_bytes().to_vec()),
            content_type: Some(JSON),
        },
    }
}

/// A good event of a namespace that does not exist.
fn of_nobody() -> CheckedEvent {
    CheckedEvent {
        namespace: Namespace::new("certify-nobody").expect("a name"),
        counter: CounterName::new("a").expect("a name"),
        key: EventKey {
            event_time: Micros::new(1_740_830_400_000_000),
            event_id: Token::new("t").expect("a token"),
            item_key: ItemKey::new("").expect("a key"),
        },
        mutation: Mutation::Add(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_schemas::event::{decode, decode_json};

    #[test]
    fn none_of_them_is_an_event_of_a_namespace_that_exists() {
        let mut rng = Rng::with_seed(1);
        for _ in 0..2_000 {
            let record = record(&mut rng);
            let Some(value) = &record.value else {
                continue;
            };
            let event = match record.content_type {
                Some(_) => decode_json(value),
                None => decode(value),
            };
            if let Ok(event) = event {
                assert_eq!(event.namespace.as_str(), "certify-nobody", "{record:?}");
            }
        }
    }
}
