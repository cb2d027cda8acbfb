//! All histories together.

use super::{Incarnation, NamespaceHistory, RollupSettings};
use crate::{caps::CappedRanges, event::NamespaceId, name::Namespace, time::Micros};
use std::{collections::BTreeMap, sync::Arc};

/// Every namespace's history, and how far in effective time it may be relied on (R5).
#[derive(Clone, Debug, Default)]
pub struct PolicyBook {
    names: BTreeMap<Namespace, Arc<NamespaceHistory>>,
    ids: BTreeMap<NamespaceId, Namespace>,
    caps: BTreeMap<String, CappedRanges>,
    valid_through: Micros,
    in_effect: Option<Micros>,
}

impl PolicyBook {
    /// A book that may be relied on through `valid_through`.
    pub fn new(
        histories: impl IntoIterator<Item = (Namespace, NamespaceHistory)>,
        valid_through: Micros,
    ) -> Self {
        let mut book = Self {
            valid_through,
            ..Self::default()
        };
        for (name, history) in histories {
            book.insert(name, history);
        }
        book
    }

    /// Puts or replaces a namespace's history.
    pub fn insert(&mut self, name: Namespace, history: NamespaceHistory) {
        for life in history.lives() {
            self.ids.insert(life.id(), name.clone());
        }
        self.names.insert(name, Arc::new(history));
    }

    /// No verdict may be made beyond this effective time.
    pub fn valid_through(&self) -> Micros {
        self.valid_through
    }

    /// The newest effective time of which it is known that the log has passed it, because the
    /// change that was made then is in effect. `None` where changes are announced ahead.
    pub fn in_effect(&self) -> Option<Micros> {
        self.in_effect
    }

    /// Notes that a change is in effect.
    pub fn note_in_effect(&mut self, change: Micros) {
        self.in_effect = self.in_effect.max(Some(change));
    }

    /// The append times of a topic that an operator capped (R3).
    pub fn caps(&self, topic: &str) -> &CappedRanges {
        const NONE: &CappedRanges = &CappedRanges::none();
        self.caps.get(topic).unwrap_or(NONE)
    }

    /// Replaces the capped append times, by topic.
    pub fn set_caps(&mut self, caps: BTreeMap<String, CappedRanges>) {
        self.caps = caps;
    }

    /// The history of a name.
    pub fn history(&self, name: &str) -> Option<&Arc<NamespaceHistory>> {
        self.names.get(name)
    }

    /// The life with this number, and its name.
    pub fn incarnation(&self, id: NamespaceId) -> Option<(&Namespace, &Incarnation)> {
        let name = self.ids.get(&id)?;
        let life = self
            .names
            .get(name)?
            .lives()
            .iter()
            .find(|life| life.id() == id)?;
        Some((name, life))
    }

    /// How the counters of the namespace with this number are rolled up.
    pub fn rollup(&self, id: NamespaceId) -> Option<RollupSettings> {
        Some(self.names.get(self.ids.get(&id)?)?.rollup())
    }

    /// Every name with its history, in the order of names.
    pub fn iter(&self) -> impl Iterator<Item = (&Namespace, &Arc<NamespaceHistory>)> {
        self.names.iter()
    }

    /// A number for the next incarnation: larger than all that were ever given.
    pub fn next_id(&self) -> NamespaceId {
        NamespaceId(self.ids.last_key_value().map_or(1, |(id, _)| id.0 + 1))
    }
}
