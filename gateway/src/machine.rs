//! What becomes of a mutation: pure decisions, in the order in which a call meets them. Whoever
//! drives them does the IO in between.

use quipu_adapters::ports::{Appended, Lookup};
use quipu_core::{
    acknowledge::accepted_throughout,
    event::NamespaceId,
    policy::{Incarnation, NamespaceHistory, PolicyBook},
    time::Micros,
    window,
};
use std::{ops::Deref, sync::Arc, time::Duration};

/// What a call knows of time when it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The low watermark. It must be read before the store is: what closed after a look-up says
    /// nothing about what that look-up missed.
    pub low: Micros,
    /// An estimate of the log's effective time.
    pub effective: Micros,
}

impl Moment {
    /// The newest time that this process has proof of: its own clock may be behind the log's.
    pub fn new(clock: Micros, low: Micros) -> Self {
        Self {
            low,
            effective: clock.max(low),
        }
    }

    /// With what the policy proves: the log has passed every change that is in effect, so a clock
    /// that stepped back does not show namespaces as they were before one.
    #[must_use]
    pub fn at_least(self, book: &PolicyBook) -> Self {
        let proven = book.in_effect().unwrap_or(self.effective);
        Self {
            effective: self.effective.max(proven),
            ..self
        }
    }
}

/// Why no namespace can be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoNamespace {
    /// The policy may not be relied on any more at this time (R5).
    PolicyExpired {
        /// Until when it could be.
        valid_through: Micros,
    },
    /// It does not exist.
    Unknown,
}

/// A life of a namespace, in the history that it is part of: nothing is copied for a call.
#[derive(Clone, Debug)]
pub struct Life {
    history: Arc<NamespaceHistory>,
    at: usize,
}

impl Life {
    /// The history of the namespace's name.
    pub fn history(&self) -> &NamespaceHistory {
        &self.history
    }
}

impl Deref for Life {
    type Target = Incarnation;

    fn deref(&self) -> &Incarnation {
        &self.history.lives()[self.at]
    }
}

/// Finds the life of a namespace that a call is about.
pub fn find(book: &PolicyBook, name: &str, moment: Moment) -> Result<Life, NoNamespace> {
    let valid_through = book.valid_through();
    if moment.effective > valid_through {
        return Err(NoNamespace::PolicyExpired { valid_through });
    }
    let history = book.history(name).ok_or(NoNamespace::Unknown)?;
    // A namespace that was just created may begin a little after what this clock shows.
    let life = history
        .at(moment.effective)
        .or_else(|| history.current())
        .ok_or(NoNamespace::Unknown)?;
    let mut lives = history.lives().iter();
    let at = lives.rposition(|other| other.id() == life.id());
    Ok(Life {
        history: Arc::clone(history),
        at: at.expect("it is one of its history"),
    })
}

/// The first decision on a mutation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precheck {
    /// Append it, then ask [`after_append`].
    Append,
    /// It would be late: look its identity up, then ask [`after_lookup`] (R16).
    LookUp,
    /// It is refused for good: its namespace never accepted anything so old.
    RefusedLate,
    /// It is refused: its time is too far ahead.
    TooFarAhead,
}

/// Decides on a mutation before anything is written.
pub fn precheck(life: &Incarnation, moment: Moment, event_time: Micros) -> Precheck {
    if event_time <= life.origin() {
        return Precheck::RefusedLate;
    }
    if event_time <= life.horizon(moment.effective) {
        return Precheck::LookUp;
    }
    if event_time > life.newest_acceptable(moment.effective) {
        return Precheck::TooFarAhead;
    }
    Precheck::Append
}

/// What is known once the log has a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterAppend {
    /// Ingest will accept it, whenever it decides (R7).
    Accepted(NamespaceId),
    /// Ingest may or may not accept it. A retry finds out (R16).
    Unavailable,
}

/// Decides on a record that the log stamped with `append_time` (R7). Its effective time is then
/// between that and `append_time + guard`, and ACCEPTED is said only if ingest accepts the event
/// at every time between. `book` must be read after the append.
pub fn after_append(
    book: &PolicyBook,
    name: &str,
    append_time: Micros,
    guard: Duration,
    event_time: Micros,
) -> AfterAppend {
    let latest = append_time + guard;
    let decided = book
        .history(name)
        .filter(|_| latest <= book.valid_through())
        .and_then(|history| accepted_throughout(history, append_time, latest, event_time));
    decided.map_or(AfterAppend::Unavailable, AfterAppend::Accepted)
}

/// Whether an operator decided that the log's clock was wrong at this append (R3). Ingest takes
/// another time then, so nothing follows from this one. A policy that reaches past the append time
/// has every such decision that concerns it.
pub fn is_capped(book: &PolicyBook, name: &str, appended: Appended) -> bool {
    let Appended {
        partition,
        offset,
        append_time,
    } = appended;
    book.history(name).is_some_and(|history| {
        let caps = book.caps(history.topic());
        caps.append_time(partition, offset, append_time) != append_time
    })
}

/// What is known once the identity of a late mutation was looked up (R16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterLookup {
    /// An earlier attempt was accepted.
    AlreadyApplied,
    /// An earlier attempt may still be in the log: its window is not closed.
    RetryLater,
    /// No attempt was accepted, and none ever will be.
    RefusedLate,
    /// The slice was dropped: nobody can tell.
    OutcomeUnknown,
}

/// Decides on a late mutation. `closed` comes from a low watermark that was read before the
/// look-up: see [`Moment::low`].
pub fn after_lookup(lookup: &Lookup, closed: Micros, event_time: Micros) -> AfterLookup {
    match lookup {
        Lookup::Stored(_) => AfterLookup::AlreadyApplied,
        Lookup::Dropped => AfterLookup::OutcomeUnknown,
        Lookup::Absent if event_time <= closed => AfterLookup::RefusedLate,
        Lookup::Absent => AfterLookup::RetryLater,
    }
}

/// How far a namespace was closed at a moment (R14).
pub fn closed(life: &Incarnation, moment: Moment) -> Micros {
    window::closed(life, moment.low)
}

/// Whether a checkpoint is so far behind what is closed that a read should ask for a rollup.
/// Writes within `coalesce` are one aggregation, so a shorter lag is as it should be.
pub fn is_stale(lag: Duration, coalesce: Duration) -> bool {
    lag > coalesce.max(Duration::from_secs(1))
}
