use proptest::prelude::*;
use quipu_core::policy::{Cardinality, Limits, RollupSettings};
use quipu_schemas::namespace::{
    DocumentCardinality, DocumentError, DocumentQuota, Mode, NamespaceDocument, Persistence,
    PersistenceId, PhysicalStorage, Rollup, StorageKind,
};
use serde_json::Value;
use std::time::Duration;

const WHOLE: &str = r#"{"namespace": "billing_metrics", "type": "EVENTUALLY_CONSISTENT",
 "persistence": [
  {"id": "CACHE", "physical_storage": {"type": "REDIS", "cluster": "default"}, "ttl": "1d"},
  {"id": "EVENT_STORE", "physical_storage": {"type": "CASSANDRA", "cluster": "default", "dataset": "events_7d"}},
  {"id": "ROLLUP_STORE", "physical_storage": {"type": "CASSANDRA", "cluster": "default"}}],
 "accept_limit": "5s", "max_future": "5s", "rollup": {"coalesce": "1s", "cardinality": "LOW"},
 "quota": {"writes_per_second": 5000, "active_counters": 100000}}"#;

fn read(json: &str) -> NamespaceDocument {
    NamespaceDocument::from_json(json.as_bytes()).expect("a right document")
}

fn refused(json: &str) -> DocumentError {
    NamespaceDocument::from_json(json.as_bytes()).expect_err(json)
}

/// A document that is right but for `field`, which is set to a JSON value.
fn with(field: &str, value: &str) -> String {
    format!("{{\"namespace\": \"a\", \"{field}\": {value}}}")
}

fn place(id: PersistenceId, kind: StorageKind) -> Persistence {
    let cluster = "default".to_owned();
    let physical_storage = PhysicalStorage {
        kind,
        cluster,
        dataset: None,
    };
    Persistence {
        id,
        physical_storage,
        ttl: None,
    }
}

#[test]
fn a_document_with_every_field_is_read() {
    let document = read(WHOLE);
    let mut cache = place(PersistenceId::Cache, StorageKind::Redis);
    cache.ttl = Some(Duration::from_hours(24));
    let mut events = place(PersistenceId::EventStore, StorageKind::Cassandra);
    events.physical_storage.dataset = Some("events_7d".to_owned());
    let rollups = place(PersistenceId::RollupStore, StorageKind::Cassandra);
    let expected = NamespaceDocument {
        namespace: "billing_metrics".to_owned(),
        mode: Mode::EventuallyConsistent,
        persistence: vec![cache, events, rollups],
        accept_limit: Duration::from_secs(5),
        max_future: Duration::from_secs(5),
        rollup: Rollup {
            coalesce: Duration::from_secs(1),
            cardinality: DocumentCardinality::Low,
        },
        quota: DocumentQuota {
            writes_per_second: Some(5_000),
            active_counters: Some(100_000),
        },
    };
    assert_eq!(document, expected);
}

#[test]
fn what_is_left_out_gets_its_default() {
    let document = read(r#"{"namespace": "a"}"#);
    assert_eq!(document, NamespaceDocument::with_defaults("a"));
    assert_eq!(document.mode, Mode::EventuallyConsistent);
    let five_seconds = Duration::from_secs(5);
    let limits = Limits {
        accept_limit: five_seconds,
        max_future: five_seconds,
    };
    assert_eq!(document.limits(), limits);
    let rollup = RollupSettings {
        coalesce: Duration::from_millis(200),
        cardinality: Cardinality::Low,
    };
    assert_eq!(document.rollup_settings(), rollup);
    assert_eq!(read(&with("rollup", "{}")), document);
    let cardinality = r#"{"cardinality": "HIGH"}"#;
    let rollup = read(&with("rollup", cardinality)).rollup_settings();
    assert_eq!(rollup.cardinality, Cardinality::High);
    let storage = r#"[{"id": "CACHE", "physical_storage": {"type": "EMBEDDED"}}]"#;
    let expected = vec![place(PersistenceId::Cache, StorageKind::Embedded)];
    assert_eq!(read(&with("persistence", storage)).persistence, expected);
}

/// Each object inside of a value: its path, as errors show it, and as a pointer.
fn objects(value: &Value, path: &str, pointer: &str, found: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            found.push((path.to_owned(), pointer.to_owned()));
            for (name, value) in fields {
                let path = format!("{path}.{name}");
                objects(value, &path, &format!("{pointer}/{name}"), found);
            }
        }
        Value::Array(items) => {
            for (at, value) in items.iter().enumerate() {
                let path = format!("{path}[{at}]");
                objects(value, &path, &format!("{pointer}/{at}"), found);
            }
        }
        _ => {}
    }
}

#[test]
fn an_array_is_refused_wherever_an_object_is_meant() {
    let whole: Value = serde_json::from_str(WHOLE).expect("it is JSON");
    let mut found = Vec::new();
    objects(&whole, "", "", &mut found);
    assert_eq!(found.len(), 9, "{found:?}");
    for (path, pointer) in found {
        for with_values in [true, false] {
            let mut document = whole.clone();
            let object = document.pointer_mut(&pointer).expect("it is there");
            let fields = object.as_object().expect("it is an object");
            let values = fields.values().filter(|_| with_values).cloned().collect();
            *object = Value::Array(values);
            let error = refused(&document.to_string());
            let field = path.strip_prefix('.').unwrap_or(".");
            assert_eq!(error.field, field, "{error}");
            assert!(error.problem.contains("expected an object"), "{error}");
        }
    }
}

#[test]
fn an_unknown_field_is_named_with_its_path() {
    for (json, field) in [
        (with("acept_limit", "\"5s\""), "acept_limit"),
        (with("rollup", r#"{"coalesc": "1s"}"#), "rollup.coalesc"),
        (WHOLE.replace("\"ttl\"", "\"tll\""), "persistence[0].tll"),
        (
            WHOLE.replace("\"dataset\"", "\"data_set\""),
            "persistence[1].physical_storage.data_set",
        ),
    ] {
        let error = refused(&json);
        assert_eq!(error.field, field, "{error}");
        assert!(error.problem.contains("unknown field"), "{error}");
        assert!(error.problem.contains("expected"), "{error}");
    }
}

#[test]
fn a_field_without_a_name_is_refused_at_the_document() {
    let error = refused(&with("", "1"));
    assert_eq!(error.field, ".");
    assert!(error.problem.contains("unknown field ``"), "{error}");
}

#[test]
fn a_wrong_value_is_named_with_its_path_and_what_it_may_be() {
    for (json, field, problem) in [
        (with("type", "\"EXACT\""), "type", "`ACCURATE`"),
        (with("type", "\"accurate\""), "type", "`ACCURATE`"),
        (
            with("accept_limit", "5"),
            "accept_limit",
            "expected a string",
        ),
        (
            with("accept_limit", "null"),
            "accept_limit",
            "expected a string",
        ),
        (
            with("accept_limit", "\"5\""),
            "accept_limit",
            "\"5\" is no duration such as \"5s\"",
        ),
        (
            with("accept_limit", "\"-5s\""),
            "accept_limit",
            "is no duration",
        ),
        (
            with("accept_limit", "\"5 parsecs\""),
            "accept_limit",
            "is no duration",
        ),
        (
            with("rollup", r#"{"coalesce": ""}"#),
            "rollup.coalesce",
            "is no duration",
        ),
        (
            with("rollup", r#"{"cardinality": "SOME"}"#),
            "rollup.cardinality",
            "`LOW`",
        ),
        (
            with("persistence", "{}"),
            "persistence",
            "expected a sequence",
        ),
        (
            with("persistence", "[{}]"),
            "persistence[0]",
            "missing field `id`",
        ),
        (
            WHOLE.replace("\"1d\"", "\"1 fortnight\""),
            "persistence[0].ttl",
            "is no duration",
        ),
        (
            WHOLE.replace("REDIS", "POSTGRES"),
            "persistence[0].physical_storage.type",
            "`REDIS`",
        ),
    ] {
        let error = refused(&json);
        assert_eq!(error.field, field, "{error}");
        assert!(error.problem.contains(problem), "{error}");
    }
}

#[test]
fn what_is_no_document_is_refused() {
    for (json, problem) in [
        ("", "EOF"),
        ("{", "EOF"),
        ("null", "expected an object"),
        ("{}", "missing field `namespace`"),
        (r#"{"namespace": "a"} more"#, "trailing characters"),
        (
            r#"{"namespace": "a", "namespace": "b"}"#,
            "duplicate field `namespace`",
        ),
    ] {
        let error = refused(json);
        assert!(error.problem.contains(problem), "{json}: {error}");
    }
    assert!(NamespaceDocument::from_json(b"{\"namespace\": \"\xff\"}").is_err());
    let deep = "[".repeat(100_000);
    assert!(NamespaceDocument::from_json(deep.as_bytes()).is_err());
}

#[test]
fn a_name_outside_its_rules_is_refused() {
    for name in ["", "A", "a b", "0a", &"a".repeat(64)] {
        let error = refused(&format!("{{\"namespace\": {name:?}}}"));
        assert_eq!(error.field, "namespace");
        assert!(error.problem.contains("[a-z][a-z0-9_-]{0,62}"), "{error}");
    }
}

#[test]
fn durations_have_units() {
    for (text, expected) in [
        ("5s", Duration::from_secs(5)),
        ("200ms", Duration::from_millis(200)),
        ("1m 30s", Duration::from_secs(90)),
        ("2h", Duration::from_hours(2)),
        ("1d", Duration::from_hours(24)),
        ("1500us", Duration::from_micros(1500)),
    ] {
        let document = read(&with("accept_limit", &format!("{text:?}")));
        assert_eq!(document.accept_limit, expected, "{text}");
    }
}

#[test]
fn durations_are_taken_up_to_their_limits_and_refused_past_them() {
    let rollup = |coalesce: &str| with("rollup", &format!("{{\"coalesce\": {coalesce}}}"));
    for inside in [
        with("accept_limit", "\"1ms\""),
        with("accept_limit", "\"1d\""),
        with("max_future", "\"0s\""),
        with("max_future", "\"1d\""),
        rollup("\"10ms\""),
        rollup("\"1h\""),
    ] {
        read(&inside);
    }
    for (past, field) in [
        (with("accept_limit", "\"999us\""), "accept_limit"),
        (with("accept_limit", "\"0s\""), "accept_limit"),
        (with("accept_limit", "\"24h 1ns\""), "accept_limit"),
        (with("max_future", "\"24h 1ns\""), "max_future"),
        (rollup("\"9999us\""), "rollup.coalesce"),
        (rollup("\"1h 1ns\""), "rollup.coalesce"),
    ] {
        let error = refused(&past);
        assert_eq!(error.field, field);
        assert!(error.problem.contains("is not between"), "{error}");
    }
    // Too long to be a duration at all.
    assert_eq!(
        refused(&with("accept_limit", "\"999999999999999999999y\"")).field,
        "accept_limit"
    );
}

#[test]
fn a_cached_value_lives_between_a_second_and_a_year() {
    let cached = |kind: &str, ttl: &str| {
        format!(
            r#"{{"namespace": "a", "type": "{kind}", "persistence": [
                {{"id": "CACHE", "physical_storage": {{"type": "REDIS"}}, "ttl": "{ttl}"}}]}}"#
        )
    };
    let an_hour = read(&cached("BEST_EFFORT", "1h"));
    assert_eq!(an_hour.counter_ttl(), Duration::from_hours(1));
    let unsaid = read(r#"{"namespace": "a", "type": "BEST_EFFORT"}"#);
    assert_eq!(unsaid.counter_ttl(), Duration::from_hours(24));
    for ttl in ["999ms", "0s", "366d"] {
        let error = refused(&cached("BEST_EFFORT", ttl));
        assert_eq!(error.field, "persistence[0].ttl");
        assert!(error.problem.contains("is not between"), "{error}");
    }
}

#[test]
fn a_namespace_of_best_effort_has_no_events_to_place() {
    let events = r#"[{"id": "EVENT_STORE", "physical_storage": {"type": "CASSANDRA"}}]"#;
    let document =
        |kind| format!(r#"{{"namespace": "a", "type": "{kind}", "persistence": {events}}}"#);
    read(&document("ACCURATE"));
    let field = refused(&document("BEST_EFFORT")).field;
    assert_eq!(field, "persistence[0].id");
}

fn document() -> impl Strategy<Value = NamespaceDocument> {
    let mode = prop_oneof![
        Just(Mode::EventuallyConsistent),
        Just(Mode::Accurate),
        Just(Mode::BestEffort)
    ];
    let rollup = (10_u64..3_600_000, any::<bool>()).prop_map(|(millis, high)| Rollup {
        coalesce: Duration::from_millis(millis),
        cardinality: if high {
            DocumentCardinality::High
        } else {
            DocumentCardinality::Low
        },
    });
    let limits = (1_000_u64..86_400_000_000, 0_u64..86_400_000_000);
    let ttl = prop::option::of(1_000_000_u64..10_000_000_000);
    (
        "[a-z][a-z0-9_-]{0,62}",
        mode,
        rollup,
        limits,
        ttl,
        ".{0,10}",
        prop::option::of(1_u32..10_000_000),
    )
        .prop_map(
            |(namespace, mode, rollup, (accept, future), ttl, dataset, quota)| {
                let mut cache = place(PersistenceId::Cache, StorageKind::Redis);
                cache.ttl = ttl.map(Duration::from_micros);
                cache.physical_storage.dataset = Some(dataset);
                NamespaceDocument {
                    namespace,
                    mode,
                    persistence: vec![cache],
                    accept_limit: Duration::from_micros(accept),
                    max_future: Duration::from_micros(future),
                    rollup,
                    quota: DocumentQuota {
                        writes_per_second: quota,
                        active_counters: None,
                    },
                }
            },
        )
}

proptest! {
    #[test]
    fn a_document_is_the_same_after_it_was_written_and_read(document in document()) {
        let json = serde_json::to_vec(&document).expect("a document can be written");
        prop_assert_eq!(NamespaceDocument::from_json(&json), Ok(document));
    }
}
