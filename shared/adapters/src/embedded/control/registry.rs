//! The changes of the control plane as they are stored, and their fold. What may change, and when, is
//! decided elsewhere.

use crate::{embedded::OpenError, ports::NamespaceRecord};
use fjall::Keyspace;
use quipu_core::{
    event::NamespaceId,
    name::Namespace,
    policy::{Incarnation, NamespaceHistory, PolicyBook},
    time::Micros,
};
use quipu_schemas::namespace::NamespaceDocument;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

const EVENTS_TOPIC: &str = "quipu-events";
const FORMAT: u32 = 1;

/// One change, as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    format: u32,
    namespace: String,
    effective_micros: i64,
    change: What,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum What {
    Created {
        id: u32,
        document: NamespaceDocument,
    },
    Changed {
        document: NamespaceDocument,
    },
    Deleted,
}

/// The fold of all changes.
#[derive(Debug)]
pub(in crate::embedded) struct Registry {
    pub(super) book: PolicyBook,
    /// Namespaces that are not deleted.
    pub(super) records: BTreeMap<Namespace, NamespaceRecord>,
    /// How many changes there were.
    pub(super) changes: u64,
    newest: Micros,
}

impl Registry {
    fn empty() -> Self {
        let book = PolicyBook::new([], Micros::MAX);
        Self {
            book,
            records: BTreeMap::new(),
            changes: 0,
            newest: Micros::MIN,
        }
    }

    /// The effective time of the newest change.
    pub(in crate::embedded) fn newest(&self) -> Micros {
        self.newest
    }

    /// Takes the next change.
    pub(super) fn install(&mut self, entry: Entry) -> Result<(), String> {
        let text = |error: &dyn fmt::Display| error.to_string();
        if entry.format != FORMAT {
            return Err(format!(
                "it has format {}, and {FORMAT} is known",
                entry.format
            ));
        }
        let name = Namespace::new(&entry.namespace).map_err(|error| text(&error))?;
        let at = Micros::new(entry.effective_micros);
        let before = self.records.remove(&name);
        let version = before.map_or(1, |record| record.version + 1);
        let known = self
            .book
            .history(name.as_str())
            .map(|history| (**history).clone());
        let (mut history, document) = match (entry.change, known) {
            (What::Created { id, document }, known) => {
                let life = Incarnation::new(NamespaceId(id), at, document.limits())
                    .with_mode(document.mode.into());
                let rollup = document.rollup_settings();
                let history = match known {
                    None => NamespaceHistory::new(EVENTS_TOPIC, rollup, life),
                    Some(mut history) => {
                        history.recreate(life).map_err(|error| text(&error))?;
                        history.set_rollup(rollup);
                        history
                    }
                };
                (history, Some(document))
            }
            (What::Changed { document }, Some(mut history)) => {
                let newest = history.newest_mut();
                newest
                    .set_mode(document.mode.into())
                    .map_err(|error| text(&error))?;
                if newest.limits_at(Micros::MAX) != document.limits() {
                    newest
                        .change(at, document.limits())
                        .map_err(|error| text(&error))?;
                }
                history.set_rollup(document.rollup_settings());
                (history, Some(document))
            }
            (What::Deleted, Some(mut history)) => {
                history
                    .newest_mut()
                    .delete(at)
                    .map_err(|error| text(&error))?;
                (history, None)
            }
            (_, None) => return Err(format!("namespace {name} was not created before")),
        };
        if let Some(document) = document {
            history.set_counter_ttl(document.counter_ttl());
            let record = NamespaceRecord {
                document,
                version,
                effective_from: at,
            };
            self.records.insert(name.clone(), record);
        }
        self.book.insert(name, history);
        self.book.note_in_effect(at);
        self.changes += 1;
        self.newest = self.newest.max(at);
        Ok(())
    }
}

/// The change that every directory begins with: the namespace `default`.
pub(in crate::embedded) fn first_change(now: Micros) -> (Vec<u8>, Vec<u8>) {
    let document = NamespaceDocument::with_defaults("default");
    encode(0, "default", now, &What::Created { id: 1, document })
}

pub(super) fn encode(
    number: u64,
    namespace: &str,
    effective: Micros,
    change: &What,
) -> (Vec<u8>, Vec<u8>) {
    let entry = Entry {
        format: FORMAT,
        namespace: namespace.to_owned(),
        effective_micros: effective.get(),
        change: change.clone(),
    };
    let value = serde_json::to_vec(&entry).expect("a change is JSON");
    (number.to_be_bytes().to_vec(), value)
}

/// Reads all changes.
pub(in crate::embedded) fn load(changes: &Keyspace) -> Result<Registry, OpenError> {
    let mut registry = Registry::empty();
    for stored in changes.iter() {
        let (key, value) = stored.into_inner()?;
        let number = registry.changes;
        let damage = |what: &dyn fmt::Display| {
            OpenError::Damaged(format!("change {number} of the control plane: {what}"))
        };
        if *key != number.to_be_bytes() {
            return Err(damage(&format!("it is missing, {key:?} follows")));
        }
        let entry = serde_json::from_slice(&value).map_err(|error| damage(&error))?;
        registry.install(entry).map_err(|error| damage(&error))?;
    }
    Ok(registry)
}
