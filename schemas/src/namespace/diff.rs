//! What differs between two documents, field by field.

use super::NamespaceDocument;
use serde::Serialize;
use serde_json::Value;
use std::{collections::BTreeMap, fmt};

/// A field that two documents do not agree on. Fields are compared by what they mean: defaults are
/// filled in, and `60s` is `1m`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Its path, as `rollup.coalesce` or `persistence[0].ttl`.
    pub field: String,
    /// What it was; `None` where it was not there.
    pub before: Option<Value>,
    /// What it is; `None` where it is not there.
    pub after: Option<Value>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            field,
            before,
            after,
        } = self;
        match (before, after) {
            (Some(before), Some(after)) => write!(f, "{field}: {before} -> {after}"),
            (None, Some(after)) => write!(f, "{field}: added {after}"),
            (Some(before), None) => write!(f, "{field}: removed {before}"),
            (None, None) => write!(f, "{field}: absent"),
        }
    }
}

/// What differs, by the fields' paths. Against no document at all, every field does.
pub fn differences(
    before: Option<&NamespaceDocument>,
    after: Option<&NamespaceDocument>,
) -> Vec<Difference> {
    let (mut before, mut after) = (fields(before), fields(after));
    let mut paths: Vec<String> = before.keys().chain(after.keys()).cloned().collect();
    paths.sort();
    paths.dedup();
    let difference = |field: String| Difference {
        before: before.remove(&field),
        after: after.remove(&field),
        field,
    };
    let all = paths.into_iter().map(difference);
    all.filter(|field| field.before != field.after).collect()
}

/// The values of a document that hold no others, by their paths.
fn fields(document: Option<&NamespaceDocument>) -> BTreeMap<String, Value> {
    let mut fields = BTreeMap::new();
    if let Some(document) = document {
        let document = serde_json::to_value(document).expect("a document is JSON");
        flatten(String::new(), document, &mut fields);
    }
    fields
}

fn flatten(path: String, value: Value, into: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(members) => {
            let dot = if path.is_empty() { "" } else { "." };
            for (name, value) in members {
                flatten(format!("{path}{dot}{name}"), value, into);
            }
        }
        Value::Array(items) => {
            for (at, value) in items.into_iter().enumerate() {
                flatten(format!("{path}[{at}]"), value, into);
            }
        }
        value => {
            into.insert(path, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(json: &str) -> NamespaceDocument {
        NamespaceDocument::from_json(json.as_bytes()).expect("a document")
    }

    fn told(before: Option<&str>, after: Option<&str>) -> Vec<String> {
        let (before, after) = (before.map(document), after.map(document));
        let differences = differences(before.as_ref(), after.as_ref());
        differences.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn documents_that_mean_the_same_have_no_differences() {
        let told = told(
            Some(r#"{"namespace": "a", "accept_limit": "60s"}"#),
            Some(r#"{"accept_limit": "1m", "max_future": "5000ms", "namespace": "a"}"#),
        );
        assert!(told.is_empty(), "{told:?}");
    }

    #[test]
    fn each_field_that_differs_is_told_with_both_values() {
        let before = r#"{"namespace": "a", "rollup": {"cardinality": "HIGH"}, "persistence":
            [{"id": "CACHE", "physical_storage": {"type": "REDIS"}, "ttl": "1d"}]}"#;
        let after = r#"{"namespace": "a", "accept_limit": "7s", "persistence":
            [{"id": "CACHE", "physical_storage": {"type": "REDIS"}}]}"#;
        let expected = [
            r#"accept_limit: "5s" -> "7s""#,
            r#"persistence[0].ttl: removed "1day""#,
            r#"rollup.cardinality: "HIGH" -> "LOW""#,
        ];
        assert_eq!(told(Some(before), Some(after)), expected);
    }

    #[test]
    fn against_no_document_every_field_differs() {
        let created = told(None, Some(r#"{"namespace": "a"}"#));
        assert_eq!(created.len(), 6, "{created:?}");
        assert_eq!(created[0], r#"accept_limit: added "5s""#);
        assert_eq!(told(None, None), Vec::<String>::new());
    }
}
