//! What is accepted, and when windows close: the policy of a namespace as a history in effective
//! time (R4, R5), and the one horizon that ingest, rollup and gateway share.

mod book;
mod incarnation;

pub use book::PolicyBook;
pub use incarnation::{ChangeError, Incarnation, Limits, LimitsVersion, Mode};

use crate::{event::NamespaceId, quota::Quota, time::Micros};
use std::{sync::Arc, time::Duration};

/// Why a record of the events topic was refused. Refusals go to the dead-letter topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its namespace does not exist at its effective time.
    UnknownNamespace,
    /// It lies in another topic than its namespace's (R6).
    WrongTopic,
    /// Its namespace is `BEST_EFFORT`: it keeps no events.
    KeepsNoEvents,
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
            Self::KeepsNoEvents => "keeps_no_events",
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

/// How long a counter that a cache alone keeps lives after its last add, unless its namespace says
/// otherwise.
pub const DEFAULT_COUNTER_TTL: Duration = Duration::from_hours(24);

/// All lives of one namespace's name, and the topic that its events lie in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceHistory {
    topic: Arc<str>,
    rollup: RollupSettings,
    counter_ttl: Duration,
    quota: Quota,
    lives: Vec<Incarnation>,
}

impl NamespaceHistory {
    /// The history of a name that was just created.
    pub fn new(topic: &str, rollup: RollupSettings, first: Incarnation) -> Self {
        Self {
            topic: topic.into(),
            rollup,
            counter_ttl: DEFAULT_COUNTER_TTL,
            quota: Quota::default(),
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

    /// How long a counter lives after its last add, where a cache alone keeps it
    /// ([`Mode::BestEffort`]).
    pub fn counter_ttl(&self) -> Duration {
        self.counter_ttl
    }

    /// Changes how long such a counter lives, from its next add on.
    pub fn set_counter_ttl(&mut self, ttl: Duration) {
        self.counter_ttl = ttl;
    }

    /// What it may use up.
    pub fn quota(&self) -> Quota {
        self.quota
    }

    /// Changes what it may use up.
    pub fn set_quota(&mut self, quota: Quota) {
        self.quota = quota;
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
        self.lives.last().filter(|life| life.deleted_at().is_none())
    }

    /// The newest life, to change it.
    pub fn newest_mut(&mut self) -> &mut Incarnation {
        self.lives.last_mut().expect("a history is never empty")
    }

    /// Starts a new life after the last one was deleted.
    pub fn recreate(&mut self, life: Incarnation) -> Result<(), ChangeError> {
        let newest = self.newest_mut();
        let (id, at) = (life.id(), life.created_at());
        let last = newest.deleted_at().ok_or(ChangeError::Exists)?;
        // Two lives may touch (created at the moment of deletion) but never overlap.
        if at < last {
            return Err(ChangeError::OutOfOrder { at, last });
        }
        if id <= newest.id() {
            let last = newest.id();
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
        if !life.mode().keeps_events() {
            return Err(Refusal::KeepsNoEvents);
        }
        let horizon = life.horizon(effective);
        if event_time <= horizon {
            return Err(Refusal::Late { horizon });
        }
        let newest = life.newest_acceptable(effective);
        if event_time > newest {
            return Err(Refusal::TooFarAhead { newest });
        }
        Ok(life.id())
    }
}
