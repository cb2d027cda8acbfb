//! The JSON Schema of the document, made from its types. What is shipped is compared to it, so that
//! no program needs the generator.

use super::{ACCEPT_LIMIT, COALESCE, MAX_FUTURE, NamespaceDocument, SCHEMA, TTLS};
use schemars::{Schema, SchemaGenerator, generate::SchemaSettings, json_schema};
use serde_json::{Value, json};
use std::{fs, ops::RangeInclusive, path::Path, time::Duration};

/// Numbers with units, as `humantime` reads them; white space inside of a number is not suggested.
pub(crate) const DURATION: &str = r"^\s*(\d+(\.\d+)?\s*(nanos|nsec|ns|usec|us|µs|millis|msec|ms|seconds|second|secs|sec|s|minutes|minute|mins|min|m|hours|hour|hrs|hr|h|days|day|d|weeks|week|wks|wk|w|months|month|M|years|year|yrs|yr|y)\s*)+$";

fn within(range: &RangeInclusive<Duration>) -> Schema {
    let mut schema = json_schema!({"type": "string", "pattern": DURATION});
    for (name, bound) in [("x-minimum", range.start()), ("x-maximum", range.end())] {
        let bound = humantime::format_duration(*bound).to_string();
        schema.insert(name.to_owned(), bound.into());
    }
    schema
}

pub(super) fn accept_limit(_: &mut SchemaGenerator) -> Schema {
    within(&ACCEPT_LIMIT)
}

pub(super) fn max_future(_: &mut SchemaGenerator) -> Schema {
    within(&MAX_FUTURE)
}

pub(super) fn coalesce(_: &mut SchemaGenerator) -> Schema {
    within(&COALESCE)
}

pub(super) fn ttl(_: &mut SchemaGenerator) -> Schema {
    within(&TTLS)
}

fn generated() -> String {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let schema = generator.into_root_schema_for::<NamespaceDocument>();
    let mut text = serde_json::to_string_pretty(&schema).expect("a schema is JSON");
    text.push('\n');
    text
}

#[test]
fn the_schema_that_is_shipped_is_made_from_the_types() {
    let generated = generated();
    if std::env::var_os("QUIPU_WRITE_SCHEMA").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("namespace.schema.json");
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
    let read = NamespaceDocument::from_json(json.as_bytes());
    let document = serde_json::from_str(json).expect("it is JSON");
    (read.is_ok(), validator.is_valid(&document))
}

/// The JSON objects in code blocks of the documentation that declare a namespace.
fn documented() -> Vec<String> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let mut found = Vec::new();
    for page in ["namespaces.md", "api.md"] {
        let text = fs::read_to_string(docs.join(page)).expect("the page is there");
        for (at, _) in text.match_indices(r#"{"namespace":"#) {
            let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
            // A gRPC request begins in the same way.
            if let Some(Ok(value)) = values.next()
                && value.get("counter_name").is_none()
            {
                found.push(value.to_string());
            }
        }
    }
    found
}

#[test]
fn every_document_of_the_documentation_is_allowed_by_the_schema_and_by_the_reader() {
    let documents = documented();
    assert!(documents.len() >= 4, "{documents:?}");
    for document in documents {
        assert_eq!(verdicts(&document), (true, true), "{document}");
    }
}

#[test]
fn the_schema_and_the_reader_agree_on_what_is_good_and_what_is_bad() {
    let with = |fields: &str| format!(r#"{{"namespace": "a", {fields}}}"#);
    let stored = |fields: &str| with(&format!(r#""persistence": [{fields}]"#));
    let good = [
        with(r#""accept_limit": "1m 30s", "max_future": "0s""#),
        with(r#""accept_limit": " 90 sec ""#),
        with(r#""accept_limit": "1.5s", "rollup": {}"#),
        with(r#""type": "BEST_EFFORT", "rollup": {"cardinality": "HIGH", "coalesce": "1h"}"#),
        stored(r#"{"id": "CACHE", "physical_storage": {"type": "REDIS"}, "ttl": "1d"}"#),
        stored(
            r#"{"id": "EVENT_STORE", "physical_storage": {"type": "EMBEDDED", "dataset": null}}"#,
        ),
    ];
    for document in good {
        assert_eq!(verdicts(&document), (true, true), "{document}");
    }
    let bad = [
        "{}".to_owned(),
        "7".to_owned(),
        r#"{"namespace": "A"}"#.to_owned(),
        format!(r#"{{"namespace": "{}"}}"#, "a".repeat(64)),
        with(r#""acept_limit": "5s""#),
        with(r#""accept_limit": 5"#),
        with(r#""accept_limit": "5""#),
        with(r#""accept_limit": "5 parsecs""#),
        with(r#""accept_limit": "-5s""#),
        with(r#""accept_limit": null"#),
        with(r#""max_future": """#),
        with(r#""type": "accurate""#),
        with(r#""rollup": {"cardinality": "SOME"}"#),
        with(r#""rollup": {"coalesce": "10ms", "every": "1s"}"#),
        with(r#""persistence": {}"#),
        stored(r#"{"id": "CACHE"}"#),
        stored(r#"{"id": "CACHE", "physical_storage": {"type": "REDIS"}, "ttl": null}"#),
        stored(r#"{"id": "OTHER", "physical_storage": {"type": "REDIS"}}"#),
        stored(r#"{"id": "CACHE", "physical_storage": {"type": "REDIS", "host": "x"}}"#),
    ];
    for document in bad {
        assert_eq!(verdicts(&document), (false, false), "{document}");
    }
}

#[test]
fn the_schema_has_every_default_and_limit() {
    let schema: Value = serde_json::from_str(SCHEMA).expect("the schema is JSON");
    let limit = &schema["properties"]["accept_limit"];
    assert_eq!(limit["default"], json!("5s"));
    assert_eq!(limit["x-maximum"], json!("1day"));
    assert_eq!(schema["additionalProperties"], json!(false));
    let read: NamespaceDocument =
        serde_json::from_value(json!({"namespace": "a"})).expect("a document");
    assert_eq!(read, NamespaceDocument::with_defaults("a"));
}
