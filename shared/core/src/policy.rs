//! What is accepted, and when windows close: the policy of a namespace as a history in effective
//! time (R4, R5), and the one horizon that ingest, rollup and gateway share.

use crate::{caps::CappedRanges, event::NamespaceId, name::Namespace, time::Micros};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// How late and how early an event may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// An event older than this at its effective time is late.
    pub accept_limit: Duration,
    /// An event further ahead than this at its effective time is refused.
    pub max_future: Duration,
}

/// Limits, in force from an effective time on until the next version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitsVersion {
    /// The first effective time at which they hold.
    pub from: Micros,
    /// The limits.
    pub limits: Limits,
}

/// One life of a namespace, from its creation to its deletion (R10).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incarnation {
    id: NamespaceId,
    versions: Vec<LimitsVersion>,
    deleted_at: Option<Micros>,
}

/// Why a change was refused: it would have changed verdicts that were given already, or mixed two
/// lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// The history would not stay ordered in effective time.
    #[error("a policy change effective at {at} must come after the last one, effective at {last}")]
    OutOfOrder {
        /// When the change was to take effect.
        at: Micros,
        /// When the last change took effect.
        last: Micros,
    },
    /// A life that has ended is never changed or ended again.
    #[error("the namespace was deleted at {0}; make it again to change it")]
    Deleted(Micros),
    /// A new life was to begin in one that has not ended.
    #[error("the namespace exists; delete it before it is made again")]
    Exists,
    /// Numbers of lives rise, so that storage never mixes two (R10).
    #[error("incarnation {id:?} must have a larger number than the last one, {last:?}")]
    IdNotNew {
        /// The number of the new life.
        id: NamespaceId,
        /// The number of the newest life so far.
        last: NamespaceId,
    },
}

impl Incarnation {
    /// A namespace created at an effective time.
    pub fn new(id: NamespaceId, created_at: Micros, limits: Limits) -> Self {
        let versions = vec![LimitsVersion {
            from: created_at,
            limits,
        }];
        Self {
            id,
            versions,
            deleted_at: None,
        }
    }

    /// Its number.
    pub fn id(&self) -> NamespaceId {
        self.id
    }

    /// The effective time of its creation.
    pub fn created_at(&self) -> Micros {
        self.versions[0].from
    }

    /// The effective time of its deletion, once deleted.
    pub fn deleted_at(&self) -> Option<Micros> {
        self.deleted_at
    }

    /// Its limits over time, oldest first; never empty.
    pub fn versions(&self) -> &[LimitsVersion] {
        &self.versions
    }

    /// The limits in force at an effective time; before the creation, the first ones.
    pub fn limits_at(&self, effective: Micros) -> Limits {
        let after = self.versions.partition_point(|v| v.from <= effective);
        self.versions[after.saturating_sub(1)].limits
    }

    /// Changes the limits from `from` on.
    pub fn change(&mut self, from: Micros, limits: Limits) -> Result<(), ChangeError> {
        self.check_after_last(from)?;
        self.versions.push(LimitsVersion { from, limits });
        Ok(())
    }

    /// Ends this life at `at`.
    pub fn delete(&mut self, at: Micros) -> Result<(), ChangeError> {
        self.check_after_last(at)?;
        self.deleted_at = Some(at);
        Ok(())
    }

    fn check_after_last(&self, at: Micros) -> Result<(), ChangeError> {
        if let Some(deleted) = self.deleted_at {
            return Err(ChangeError::Deleted(deleted));
        }
        let last = self.versions[self.versions.len() - 1].from;
        if at > last {
            Ok(())
        } else {
            Err(ChangeError::OutOfOrder { at, last })
        }
    }

    /// The horizon (R4): at effective time `t`, an event is late iff its time is at or before it.
    /// It is the running maximum of `s - accept_limit(s)` over the effective times `s ≤ t` of this
    /// life, so it never moves back, whatever the limits become. Before the creation it is the
    /// horizon of the creation: nothing older can ever be accepted.
    pub fn horizon(&self, t: Micros) -> Micros {
        let ends = self.versions.iter().skip(1).map(|next| next.from.pred());
        let spans = self.versions.iter().zip(ends.chain([Micros::MAX]));
        let newest = spans
            .take_while(|(version, _)| version.from <= t)
            .map(|(version, end)| t.min(end) - version.limits.accept_limit)
            .max();
        newest.unwrap_or_else(|| self.origin())
    }

    /// The horizon at the creation: no event at or before it can ever be accepted, so a counter
    /// that was never rolled up is zero, exactly, through this time.
    pub fn origin(&self) -> Micros {
        self.created_at() - self.versions[0].limits.accept_limit
    }

    /// The newest event time that is accepted at an effective time.
    pub fn newest_acceptable(&self, effective: Micros) -> Micros {
        effective + self.limits_at(effective).max_future
    }

    fn lives_at(&self, effective: Micros) -> bool {
        self.created_at() <= effective && self.deleted_at.is_none_or(|end| effective < end)
    }
}

/// Why a record of the events topic was refused. Refusals go to the dead-letter topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its namespace does not exist at its effective time.
    UnknownNamespace,
    /// It lies in another topic than its namespace's (R6).
    WrongTopic,
    /// Its append time was not stamped by the log (R1).
    NotLogStamped,
    /// Its time is at or before the horizon.
    Late {
        /// The horizon at its effective time.
        horizon: Micros,
    },
    /// Its time is too far ahead.
    TooFarAhead {
        /// The newest time that would have been accepted.
        newest: Micros,
    },
    /// It cannot be read as an event. The text says why.
    Malformed(String),
}

impl Refusal {
    /// The reason as dead-letter headers and metric labels name it.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::UnknownNamespace => "unknown_namespace",
            Self::WrongTopic => "wrong_topic",
            Self::NotLogStamped => "not_log_stamped",
            Self::Late { .. } => "late",
            Self::TooFarAhead { .. } => "too_far_ahead",
            Self::Malformed(_) => "malformed",
        }
    }
}

/// How many counters a namespace has, roughly, and so how they are rolled up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cardinality {
    /// Few: they stay in constant circulation.
    Low,
    /// Many: a counter leaves once it has converged, and comes back by a signal.
    High,
}

/// How a namespace's counters are rolled up. It changes no count, so it has no history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RollupSettings {
    /// Writes within this window are one aggregation.
    pub coalesce: Duration,
    /// Whether counters circulate.
    pub cardinality: Cardinality,
}

/// All lives of one namespace's name, and the topic that its events lie in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceHistory {
    topic: Arc<str>,
    rollup: RollupSettings,
    lives: Vec<Incarnation>,
}

impl NamespaceHistory {
    /// The history of a name that was just created.
    pub fn new(topic: &str, rollup: RollupSettings, first: Incarnation) -> Self {
        Self {
            topic: topic.into(),
            rollup,
            lives: vec![first],
        }
    }

    /// How its counters are rolled up now.
    pub fn rollup(&self) -> RollupSettings {
        self.rollup
    }

    /// Changes how its counters are rolled up.
    pub fn set_rollup(&mut self, rollup: RollupSettings) {
        self.rollup = rollup;
    }

    /// The events topic, fixed for all lives (R6).
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// All lives, oldest first; never empty.
    pub fn lives(&self) -> &[Incarnation] {
        &self.lives
    }

    /// The newest life, when it is not deleted.
    pub fn current(&self) -> Option<&Incarnation> {
        self.lives.last().filter(|life| life.deleted_at.is_none())
    }

    /// The newest life, to change it.
    pub fn newest_mut(&mut self) -> &mut Incarnation {
        self.lives.last_mut().expect("a history is never empty")
    }

    /// Starts a new life after the last one was deleted.
    pub fn recreate(&mut self, life: Incarnation) -> Result<(), ChangeError> {
        let newest = self.newest_mut();
        let (id, at) = (life.id, life.created_at());
        let last = newest.deleted_at.ok_or(ChangeError::Exists)?;
        // Two lives may touch (created at the moment of deletion) but never overlap.
        if at < last {
            return Err(ChangeError::OutOfOrder { at, last });
        }
        if id <= newest.id {
            let last = newest.id;
            return Err(ChangeError::IdNotNew { id, last });
        }
        self.lives.push(life);
        Ok(())
    }

    /// The life that an effective time falls into.
    pub fn at(&self, effective: Micros) -> Option<&Incarnation> {
        self.lives
            .iter()
            .rev()
            .find(|life| life.lives_at(effective))
    }

    /// The verdict on an event (R4): pure in the record and the history, so it is the same on
    /// every replay.
    pub fn decide(&self, effective: Micros, event_time: Micros) -> Result<NamespaceId, Refusal> {
        let life = self.at(effective).ok_or(Refusal::UnknownNamespace)?;
        let horizon = life.horizon(effective);
        if event_time <= horizon {
            return Err(Refusal::Late { horizon });
        }
        let newest = life.newest_acceptable(effective);
        if event_time > newest {
            return Err(Refusal::TooFarAhead { newest });
        }
        Ok(life.id)
    }
}

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
        for life in &history.lives {
            self.ids.insert(life.id, name.clone());
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
            .lives
            .iter()
            .find(|life| life.id == id)?;
        Some((name, life))
    }

    /// How the counters of the namespace with this number are rolled up.
    pub fn rollup(&self, id: NamespaceId) -> Option<RollupSettings> {
        Some(self.names.get(self.ids.get(&id)?)?.rollup)
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
