//! The JSON Schema of the document, made from its types. What is shipped is compared to it.

use super::{ClusterDocument, KAFKA_PROPERTIES, SCHEMA};
use crate::namespace::DURATION_PATTERN;
use schemars::{Schema, SchemaGenerator, generate::SchemaSettings, json_schema};
use serde_json::Value;
use std::{fs, path::Path};

pub(super) fn duration(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": DURATION_PATTERN})
}

pub(super) fn properties(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "propertyNames": {"enum": KAFKA_PROPERTIES},
        "additionalProperties": {"type": "string"},
    })
}

#[test]
fn the_schema_that_is_shipped_is_made_from_the_types() {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let schema = generator.into_root_schema_for::<ClusterDocument>();
    let mut generated = serde_json::to_string_pretty(&schema).expect("a schema is JSON");
    generated.push('\n');
    if std::env::var_os("QUIPU_WRITE_SCHEMA").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("cluster.schema.json");
        fs::write(path, &generated).expect("the schema is written");
    }
    assert_eq!(
        generated, SCHEMA,
        "write it with QUIPU_WRITE_SCHEMA=1 cargo test -p quipu-schemas --lib, and test again"
    );
}

/// What the schema says of a document, after what the reader says.
fn verdicts(json: &str) -> (bool, bool) {
    let schema: Value = serde_json::from_str(SCHEMA).expect("the schema is JSON");
    let validator = jsonschema::draft202012::new(&schema).expect("it is a schema");
    let read = ClusterDocument::from_json(json.as_bytes());
    let document = serde_json::from_str(json).expect("it is JSON");
    (read.is_ok(), validator.is_valid(&document))
}

#[test]
fn every_document_of_the_documentation_is_allowed_by_the_schema_and_by_the_reader() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/clusters.md");
    let text = fs::read_to_string(page).expect("the page is there");
    let mut documents = 0;
    for (at, _) in text.match_indices(r#"{"cluster": ""#) {
        let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
        let document = values.next().expect("a value").expect("JSON").to_string();
        assert_eq!(verdicts(&document), (true, true), "{document}");
        documents += 1;
    }
    assert!(documents >= 2, "{documents}");
}

#[test]
fn the_schema_and_the_reader_agree_on_what_is_good_and_what_is_bad() {
    let with = |kafka: &str, more: &str| {
        format!(
            r#"{{"cluster": "a", "kafka": {{"topic_prefix": "a-"{kafka}}},
                "cassandra": {{"keyspace": "a"}}{more}}}"#
        )
    };
    for good in [
        with("", ""),
        with(r#", "properties": {"sasl.username": "x"}"#, ""),
        with("", r#", "redis": {"database": 3, "tls": true}"#),
        with("", r#", "dataset": {"slice": "1d", "retention": "90d"}"#),
    ] {
        assert_eq!(verdicts(&good), (true, true), "{good}");
    }
    for bad in [
        r#"{"cluster": "a"}"#.to_owned(),
        with("", "").replace(r#""cluster": "a""#, r#""cluster": "A""#),
        with("", "").replace(r#"{"topic_prefix": "a-"}"#, r#"["a-"]"#),
        with("", r#", "redis": []"#),
        with(r#", "topics": {}"#, ""),
        with(r#", "properties": {"sasl.password": "x"}"#, ""),
        with("", r#", "redis": {"password": "x"}"#),
        with("", r#", "redis": {"database": -1}"#),
        with("", r#", "dataset": {"slice": 86400}"#),
    ] {
        assert_eq!(verdicts(&bad), (false, false), "{bad}");
    }
}
