//! The changes of the control plane as they are stored, and their fold. What may change, and when, is
//! decided elsewhere.

use crate::{
    embedded::OpenError,
    ports::{NamespaceRecord, NamespaceVersion},
};
use fjall::Keyspace;
use quipu_core::{
    event::NamespaceId,
    name::Namespace,
    policy::{Incarnation, NamespaceHistory, PolicyBook},
    time::Micros,
};
use quipu_schemas::namespace::{Author, NamespaceDocument};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

const EVENTS_TOPIC: &str = "quipu-events";
/// Since 2, a change has its author and the time when it was made.
const FORMAT: u32 = 2;
const OLDEST_FORMAT: u32 = 1;

/// One change, as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    format: u32,
    namespace: String,
    effective_micros: i64,
    #[serde(default)]
    changed_micros: Option<i64>,
    #[serde(default)]
    author: Author,
    change: What,
}

/// What every format has. It is read first: what else a newer one has is not known.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

impl Entry {
    /// A change that takes effect at a moment.
    pub(super) fn new(
        namespace: &str,
        effective: Micros,
        changed: Micros,
        author: Author,
        change: What,
    ) -> Self {
        Self {
            format: FORMAT,
            namespace: namespace.to_owned(),
            effective_micros: effective.get(),
            changed_micros: Some(changed.get()),
            author,
            change,
        }
    }

    /// The change as it is stored, under its number.
    pub(super) fn encode(&self, number: u64) -> (Vec<u8>, Vec<u8>) {
        let value = serde_json::to_vec(self).expect("a change is JSON");
        (number.to_be_bytes().to_vec(), value)
    }

    fn decode(stored: &[u8]) -> Result<Self, String> {
        let text = |error: serde_json::Error| error.to_string();
        let Format { format } = serde_json::from_slice(stored).map_err(text)?;
        if !(OLDEST_FORMAT..=FORMAT).contains(&format) {
            return Err(format!(
                "it has format {format}, and {OLDEST_FORMAT} to {FORMAT} are known: a newer \
                 version of this program wrote it"
            ));
        }
        serde_json::from_slice(stored).map_err(text)
    }
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
    /// Every version of every name, in their order.
    pub(super) versions: BTreeMap<Namespace, Vec<NamespaceVersion>>,
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
            versions: BTreeMap::new(),
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
        let name = Namespace::new(&entry.namespace).map_err(|error| error.to_string())?;
        let at = Micros::new(entry.effective_micros);
        let before = self.records.remove(&name);
        let known = self
            .book
            .history(name.as_str())
            .map(|history| (**history).clone());
        let (mut history, document) = evolve(known, at, entry.change)?;
        let versions = self.versions.entry(name.clone()).or_default();
        let made = NamespaceVersion {
            version: versions.len() as u64 + 1,
            id: history.newest_mut().id(),
            effective_from: at,
            changed_at: entry.changed_micros.map(Micros::new),
            author: entry.author,
            deleted: document.is_none(),
            document: document
                .or(before.map(|record| record.document))
                .ok_or_else(|| format!("namespace {name} was deleted before"))?,
        };
        history.set_counter_ttl(made.document.counter_ttl());
        history.set_quota(made.document.quota());
        if !made.deleted {
            let record = NamespaceRecord {
                document: made.document.clone(),
                version: made.version,
                effective_from: at,
            };
            self.records.insert(name.clone(), record);
        }
        versions.push(made);
        self.book.insert(name, history);
        self.book.note_in_effect(at);
        self.changes += 1;
        self.newest = self.newest.max(at);
        Ok(())
    }
}

/// The history of a namespace after its next change, and the document that is in force then.
fn evolve(
    known: Option<NamespaceHistory>,
    at: Micros,
    change: What,
) -> Result<(NamespaceHistory, Option<NamespaceDocument>), String> {
    Ok(match (change, known) {
        (What::Created { id, document }, known) => {
            let life = Incarnation::new(NamespaceId(id), at, document.limits())
                .with_mode(document.mode.into());
            let rollup = document.rollup_settings();
            let history = match known {
                None => NamespaceHistory::new(EVENTS_TOPIC, rollup, life),
                Some(mut history) => {
                    history.recreate(life).map_err(|error| error.to_string())?;
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
                .map_err(|error| error.to_string())?;
            if newest.limits_at(Micros::MAX) != document.limits() {
                newest
                    .change(at, document.limits())
                    .map_err(|error| error.to_string())?;
            }
            history.set_rollup(document.rollup_settings());
            (history, Some(document))
        }
        (What::Deleted, Some(mut history)) => {
            history
                .newest_mut()
                .delete(at)
                .map_err(|error| error.to_string())?;
            (history, None)
        }
        (_, None) => return Err("the namespace was not created before".to_owned()),
    })
}

/// The change that every directory begins with: the namespace `default`.
pub(in crate::embedded) fn first_change(now: Micros) -> (Vec<u8>, Vec<u8>) {
    let document = NamespaceDocument::with_defaults("default");
    let created = What::Created { id: 1, document };
    Entry::new("default", now, now, Author::setup(), created).encode(0)
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
        let entry = Entry::decode(&value).map_err(|error| damage(&error))?;
        registry.install(entry).map_err(|error| damage(&error))?;
    }
    Ok(registry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_was_stored_before_authors_were_kept_is_read() {
        let stored = br#"{"format": 1, "namespace": "a", "effective_micros": 7,
            "change": {"created": {"id": 3, "document": {"namespace": "a"}}}}"#;
        let mut registry = Registry::empty();
        let entry = Entry::decode(stored).expect("an old change");
        registry.install(entry).expect("it comes first");
        let [version] = &registry.versions[&Namespace::new("a").expect("valid")][..] else {
            panic!("one version");
        };
        assert_eq!((version.version, version.id), (1, NamespaceId(3)));
        assert_eq!(version.changed_at, None);
        assert_eq!(version.author.as_str(), "unknown");
    }

    #[test]
    fn a_change_is_read_as_it_was_stored() {
        let author = Author::new("ana@build").expect("valid");
        let (now, effective) = (Micros::new(5), Micros::new(7));
        let entry = Entry::new("a", effective, now, author, What::Deleted);
        let (key, value) = entry.encode(258);
        assert_eq!(key, [0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(Entry::decode(&value), Ok(entry));
    }

    #[test]
    fn a_change_of_a_newer_version_is_told_as_such() {
        let stored = br#"{"format": 3, "something": "else"}"#;
        let told = Entry::decode(stored).expect_err("refused");
        assert!(told.starts_with("it has format 3"), "{told}");
    }
}
