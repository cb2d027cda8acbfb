//! Windows of event time, half open on the left: `(after, through]` (R14).

use crate::{policy::Incarnation, time::Micros};

/// The events with `after < event_time ≤ through`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The window starts just after this.
    pub after: Micros,
    /// The window ends with this.
    pub through: Micros,
}

impl Window {
    /// Whether no time lies in it.
    pub fn is_empty(self) -> bool {
        self.through <= self.after
    }

    /// Whether a time lies in it.
    pub fn contains(self, time: Micros) -> bool {
        self.after < time && time <= self.through
    }
}

/// How far a namespace is closed (R14): the horizon of the low watermark. Every record not yet
/// decided has an effective time at or after the low watermark, so if it is accepted its event
/// time is after this.
pub fn closed(incarnation: &Incarnation, low_watermark: Micros) -> Micros {
    incarnation.horizon(low_watermark)
}

/// What a rollup may aggregate on top of a checkpoint that is true through `last_rollup`.
/// `None` when nothing has closed since.
pub fn to_aggregate(last_rollup: Micros, closed: Micros) -> Option<Window> {
    let window = Window {
        after: last_rollup,
        through: closed,
    };
    (!window.is_empty()).then_some(window)
}
