//! Records that are no events.

use super::{
    installation::{Addresses, Installation},
    kafka::{self, Publisher},
    mutations::{now, record},
    turns::Turn,
};
use std::collections::BTreeMap;

#[test]
fn a_topic_full_of_something_else_stops_ingest_instead_of_filling_the_dead_letters() {
    let _turn = Turn::take();
    let installation = Installation::new(Addresses::shared(), 1);
    installation.set_up();
    let (kafka, topic) = (&installation.addresses.kafka, installation.topic("events"));
    let publisher = Publisher::new(kafka, &topic);
    for number in 0..2_000 {
        publisher.publish(0, format!("<order number={number}/>").as_bytes(), &[]);
    }
    publisher.flush();
    let (code, said) = installation.ended(installation.spawn("ingest"));
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("100% of the last records"), "{said}");
    assert!(
        said.contains(&topic) && said.contains("malformed"),
        "{said}"
    );
    let dead = kafka::read_all(kafka, &installation.topic("dlq")).len();
    assert!(dead <= 1_000, "{dead} dead letters");
}

#[test]
fn garbage_among_events_is_dead_lettered_as_it_was_and_the_events_are_counted() {
    let mut turn = Turn::take();
    let cluster = turn.cluster();
    let (api, installation) = (cluster.api(), &cluster.installation);
    api.put_namespace("poisoned", "5s");
    let (kafka, topic) = (&installation.addresses.kafka, installation.topic("events"));
    let publisher = Publisher::new(kafka, &topic);
    let mut garbage = BTreeMap::new();
    for number in 0..600_u32 {
        let partition = i32::try_from(number % 4).expect("small");
        let value = record("poisoned", "good", &number.to_string(), 1);
        publisher.publish(partition, &value, &[]);
        if number % 20 == 0 {
            let id = number.to_string();
            let (value, kind): (_, &[u8]) = match number % 40 {
                0 => ([&[0xff, 0x00][..], id.as_bytes()].concat(), b"\x00\xfe"),
                _ => (format!("{{\"{id}\": ").into_bytes(), b"application/json"),
            };
            let headers = [
                ("content-type", kind),
                ("id", id.as_bytes()),
                ("id", b"last"),
            ];
            publisher.publish(3 - partition, &value, &headers);
            garbage.insert(id, value);
        }
    }
    publisher.flush();
    let through = now().get();
    assert_eq!(api.count_through("poisoned", "good", through), 600);

    let events = kafka::read_all(kafka, &topic);
    let letters = kafka::read_all(kafka, &installation.topic("dlq"));
    for letter in letters.values() {
        let Some((_, id)) = letter.headers.iter().find(|(name, _)| name == "id") else {
            continue;
        };
        let id = std::str::from_utf8(id).expect("text");
        let value = garbage.remove(id).expect("it was refused once");
        assert_eq!(letter.value.as_ref(), Some(&value));
        assert_eq!(letter.header("quipu-source-topic"), topic);
        let source = |name: &str| letter.header(name).parse::<i64>().expect("a number");
        let partition = i32::try_from(source("quipu-source-partition")).expect("small");
        let origin = &events[&(partition, source("quipu-source-offset"))];
        assert_eq!(origin.value, letter.value, "the headers lead to the record");
        assert_eq!(letter.headers[..origin.headers.len()], origin.headers);
        let micros = source("quipu-source-timestamp");
        assert_eq!(micros, origin.timestamp_millis * 1_000);
        assert_eq!(letter.header("quipu-reason"), "malformed");
        assert!(!letter.header("quipu-detail").is_empty());
    }
    assert!(
        garbage.is_empty(),
        "neither counted nor refused: {garbage:?}"
    );
    installation.assert_no_panic();
}
