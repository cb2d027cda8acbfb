//! One life of a namespace: its limits over time, and the horizon that follows from them (R4).

use crate::{event::NamespaceId, time::Micros};
use std::time::Duration;

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

/// Which counter a namespace gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Reads answer with the newest checkpoint.
    #[default]
    EventuallyConsistent,
    /// Reads add everything stored since the checkpoint.
    Accurate,
    /// A cache alone counts: nothing is logged or stored.
    BestEffort,
}

impl Mode {
    /// Whether every mutation is an event in the log.
    pub fn keeps_events(self) -> bool {
        self != Self::BestEffort
    }
}

/// One life of a namespace, from its creation to its deletion (R10).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incarnation {
    id: NamespaceId,
    mode: Mode,
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
    /// Whether a life keeps events is part of its verdicts, so it is fixed.
    #[error(
        "a namespace moves into BEST_EFFORT or out of it only by being made again; delete it \
         first, or make another"
    )]
    KeepsEvents,
}

impl Incarnation {
    /// An eventually consistent namespace created at an effective time.
    pub fn new(id: NamespaceId, created_at: Micros, limits: Limits) -> Self {
        let versions = vec![LimitsVersion {
            from: created_at,
            limits,
        }];
        Self {
            id,
            mode: Mode::default(),
            versions,
            deleted_at: None,
        }
    }

    /// The same, in another mode from its creation on.
    #[must_use]
    pub fn with_mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// Which counter it gives now.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Changes how counts are read. It changes no verdict and no count, so it has no history.
    pub fn set_mode(&mut self, mode: Mode) -> Result<(), ChangeError> {
        if mode.keeps_events() != self.mode.keeps_events() {
            return Err(ChangeError::KeepsEvents);
        }
        self.mode = mode;
        Ok(())
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

    /// The newest event time that was accepted at any effective time up to `t`: like the horizon it
    /// never moves back, whatever the limits become. Nothing that the log took by then lies after it.
    pub fn newest_accepted(&self, t: Micros) -> Micros {
        let ends = self.versions.iter().skip(1).map(|next| next.from.pred());
        let spans = self.versions.iter().zip(ends.chain([Micros::MAX]));
        let newest = spans
            .take_while(|(version, _)| version.from <= t)
            .map(|(version, end)| t.min(end) + version.limits.max_future)
            .max();
        newest.unwrap_or_else(|| self.newest_acceptable(t))
    }

    pub(super) fn lives_at(&self, effective: Micros) -> bool {
        self.created_at() <= effective && self.deleted_at.is_none_or(|end| effective < end)
    }
}
