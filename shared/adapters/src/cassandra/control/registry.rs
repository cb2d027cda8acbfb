//! The history of the namespaces, folded from what is stored. What may change, and when, is decided
//! elsewhere.

use super::{caps::Caps, topics::Topics};
use crate::ports::{NamespaceRecord, NamespaceVersion};
use quipu_core::{
    event::NamespaceId,
    name::Namespace,
    policy::{Incarnation, NamespaceHistory, PolicyBook},
    time::Micros,
};
use quipu_schemas::namespace::{Author, NamespaceDocument};
use std::{collections::BTreeMap, fmt};

/// One version of a namespace, as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Version {
    pub(super) namespace: String,
    /// 1 at the creation, one more at each change, over all lives of the name.
    pub(super) number: i64,
    pub(super) id: i32,
    pub(super) topic: String,
    pub(super) effective_from: Micros,
    pub(super) document: String,
    pub(super) deleted: bool,
    /// Not known of versions that were made before this was kept.
    pub(super) changed_at: Option<Micros>,
    pub(super) author: Author,
}

impl Version {
    /// What callers see of it.
    pub(super) fn told(self) -> Result<NamespaceVersion, String> {
        let (name, number) = (&self.namespace, self.number);
        let damage = |what: &dyn fmt::Display| format!("version {number} of {name}: {what}");
        Ok(NamespaceVersion {
            version: number.unsigned_abs(),
            id: NamespaceId(u32::try_from(self.id).map_err(|error| damage(&error))?),
            effective_from: self.effective_from,
            changed_at: self.changed_at,
            document: serde_json::from_str(&self.document).map_err(|error| damage(&error))?,
            deleted: self.deleted,
            author: self.author,
        })
    }
}

/// What is stored of the whole book but its versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Heading {
    pub(super) granted: Micros,
    pub(super) changes: i64,
    pub(super) next_id: i32,
    pub(super) topics: Topics,
    pub(super) caps: Caps,
}

/// The fold of all versions.
#[derive(Clone, Debug, Default)]
pub(super) struct Registry {
    pub(super) heading: Heading,
    pub(super) names: BTreeMap<Namespace, Name>,
    /// The newest time that anything takes effect.
    pub(super) newest: Micros,
}

/// What is known of one name.
#[derive(Clone, Debug)]
pub(super) struct Name {
    history: NamespaceHistory,
    /// `None` once deleted.
    pub(super) record: Option<NamespaceRecord>,
    /// The newest version, over all lives.
    pub(super) version: i64,
    id: i32,
}

impl Registry {
    /// Folds versions, which come by name and then by version.
    pub(super) fn fold(
        heading: Heading,
        versions: impl IntoIterator<Item = Version>,
    ) -> Result<Self, String> {
        let mut registry = Self {
            heading,
            names: BTreeMap::new(),
            newest: Micros::MIN,
        };
        for version in versions {
            let (name, number) = (&version.namespace, version.number);
            registry
                .install(&version)
                .map_err(|error| format!("version {number} of namespace {name}: {error}"))?;
        }
        Ok(registry)
    }

    fn install(&mut self, version: &Version) -> Result<(), String> {
        let text = |error: &dyn fmt::Display| error.to_string();
        let name = Namespace::new(&version.namespace).map_err(|error| text(&error))?;
        let document: NamespaceDocument =
            serde_json::from_str(&version.document).map_err(|error| text(&error))?;
        let at = version.effective_from;
        self.newest = self.newest.max(at);
        let known = self.names.remove(&name);
        let expected = known.as_ref().map_or(1, |known| known.version + 1);
        if version.number != expected {
            return Err(format!("version {expected} is missing"));
        }
        let id = u32::try_from(version.id).map_err(|error| text(&error))?;
        let life = Incarnation::new(NamespaceId(id), at, document.limits())
            .with_mode(document.mode.into());
        let mut history = match known {
            None => NamespaceHistory::new(&version.topic, document.rollup_settings(), life),
            Some(mut known) if known.id != version.id => {
                known.history.recreate(life).map_err(|error| text(&error))?;
                known.history
            }
            Some(mut known) if version.deleted => {
                let life = known.history.newest_mut();
                life.delete(at).map_err(|error| text(&error))?;
                known.history
            }
            Some(mut known) => {
                let life = known.history.newest_mut();
                let read = life.set_mode(document.mode.into());
                read.map_err(|error| text(&error))?;
                if life.limits_at(Micros::MAX) != document.limits() {
                    let changed = life.change(at, document.limits());
                    changed.map_err(|error| text(&error))?;
                }
                known.history
            }
        };
        history.set_rollup(document.rollup_settings());
        history.set_counter_ttl(document.counter_ttl());
        history.set_quota(document.quota());
        let record = NamespaceRecord {
            document,
            version: version.number.unsigned_abs(),
            effective_from: at,
        };
        let known = Name {
            history,
            record: (!version.deleted).then_some(record),
            version: version.number,
            id: version.id,
        };
        self.names.insert(name, known);
        Ok(())
    }

    /// The record of a namespace that is not deleted.
    pub(super) fn record(&self, name: &Namespace) -> Option<&NamespaceRecord> {
        self.names.get(name)?.record.as_ref()
    }

    /// The policy, which may be relied on through what was granted.
    pub(super) fn book(&self) -> PolicyBook {
        let histories = self
            .names
            .iter()
            .map(|(name, known)| (name.clone(), known.history.clone()));
        let mut book = PolicyBook::new(histories, self.heading.granted);
        book.set_caps(self.heading.caps.clone());
        book
    }

    /// The moment from which a change may hold: after all that was ever granted, and not long ago.
    pub(super) fn next_moment(&self, now: Micros) -> Micros {
        self.newest.max(self.heading.granted).succ().max(now)
    }

    /// The version that changes or ends the life of a namespace, or begins a new one.
    pub(super) fn next_version(
        &self,
        name: &Namespace,
        document: &NamespaceDocument,
        topic: &str,
        (now, author): (Micros, &Author),
    ) -> Version {
        let known = self.names.get(name);
        let living = known.filter(|known| known.record.is_some());
        Version {
            namespace: name.as_str().to_owned(),
            number: known.map_or(1, |known| known.version + 1),
            id: living.map_or(self.heading.next_id, |known| known.id),
            topic: known
                .map_or(topic, |known| known.history.topic())
                .to_owned(),
            effective_from: self.next_moment(now),
            document: serde_json::to_string(document).expect("a document is JSON"),
            deleted: false,
            changed_at: Some(now),
            author: author.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn after(registry: Registry, change: &Version) -> Registry {
        let heading = Heading {
            next_id: registry.heading.next_id.max(change.id + 1),
            ..registry.heading.clone()
        };
        let mut registry = Registry {
            heading,
            ..registry
        };
        registry.install(change).expect("it follows");
        registry
    }

    #[test]
    fn lives_have_numbers_of_their_own_and_versions_go_on_over_all_of_them() {
        let name = Namespace::new("a").expect("valid");
        let document = NamespaceDocument::with_defaults("a");
        let heading = Heading {
            next_id: 7,
            granted: Micros::new(100),
            ..Heading::default()
        };
        let registry = Registry::fold(heading, []).expect("an empty history");
        let next = |registry: &Registry, document, now| {
            registry.next_version(&name, document, "t", (Micros::new(now), &Author::default()))
        };
        let created = next(&registry, &document, 5);
        assert_eq!(
            created.effective_from,
            Micros::new(101),
            "after all that was granted"
        );
        let registry = after(registry, &created);
        let changed = NamespaceDocument {
            accept_limit: Duration::from_secs(9),
            ..document.clone()
        };
        let change = next(&registry, &changed, 5);
        assert_eq!((change.id, change.number), (7, 2));
        assert_eq!(
            change.effective_from,
            Micros::new(102),
            "after the last change"
        );
        let registry = after(registry, &change);
        assert_eq!(registry.record(&name).map(|record| record.version), Some(2));
        let deleted = Version {
            deleted: true,
            ..next(&registry, &changed, 5)
        };
        let registry = after(registry, &deleted);
        assert_eq!(registry.record(&name), None);
        let recreated = next(&registry, &document, 900);
        assert_eq!((recreated.id, recreated.number), (8, 4));
        let registry = after(registry, &recreated);
        let record = registry.record(&name).expect("it lives again");
        assert_eq!(
            (record.version, record.effective_from),
            (4, Micros::new(900))
        );
        let book = registry.book();
        let lives = book.history("a").expect("known").lives();
        assert_eq!(
            lives.iter().map(|life| life.id().0).collect::<Vec<_>>(),
            [7, 8]
        );
        assert_eq!(book.valid_through(), Micros::new(100));
    }

    #[test]
    fn a_version_that_is_missing_is_told() {
        let document = NamespaceDocument::with_defaults("a");
        let registry = Registry::fold(Heading::default(), []).expect("an empty history");
        let name = Namespace::new("a").expect("valid");
        let by = (Micros::new(1), &Author::default());
        let first = registry.next_version(&name, &document, "t", by);
        let second = Version { number: 2, ..first };
        let error = Registry::fold(Heading::default(), [second]).expect_err("refused");
        assert!(error.contains("version 1 is missing"), "{error}");
    }
}
