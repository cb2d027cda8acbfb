//! The keys that there are, as they follow from the defaults.

use super::Config;
use figment::value::{Dict, Value};

/// A key and its default.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// Its path, such as `kafka.brokers`.
    pub path: String,
    /// The default; its kind tells how the value of an environment variable is read.
    pub(super) default: Value,
}

impl Key {
    /// The default as the documentation shows it.
    ///
    /// # Panics
    /// Never: all defaults are text, numbers and tables.
    pub fn shown_default(&self) -> String {
        match &self.default {
            Value::Empty(..) => "none".to_owned(),
            Value::Dict(_, table) if table.is_empty() => "none".to_owned(),
            Value::Array(_, list) if list.is_empty() => "none".to_owned(),
            default => serde_json::to_string(default).expect("text and numbers are JSON"),
        }
    }
}

/// Every key.
///
/// # Panics
/// Never: all defaults are text, numbers and tables.
pub fn keys() -> Vec<Key> {
    let defaults = Value::serialize(Config::default()).expect("defaults serialize");
    let mut keys = Vec::new();
    collect(&mut keys, "", defaults.as_dict().expect("it is a struct"));
    keys
}

/// The environment variable of a key.
pub fn variable(path: &str) -> String {
    format!("QUIPU_{}", path.replace('.', "_").to_uppercase())
}

/// A table without a default entry takes any.
fn collect(keys: &mut Vec<Key>, parent: &str, table: &Dict) {
    for (name, value) in table {
        let path = format!("{parent}{name}");
        match value {
            Value::Dict(_, inner) if !inner.is_empty() => {
                collect(keys, &format!("{path}."), inner);
            }
            default => keys.push(Key {
                path,
                default: default.clone(),
            }),
        }
    }
}

/// The text that is most like one that is unknown.
pub(super) fn nearest(unknown: &str, known: impl Iterator<Item = String>) -> String {
    let likeness = |text: &String| strsim::jaro_winkler(unknown, text);
    let best = known.max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    best.unwrap_or_default()
}
