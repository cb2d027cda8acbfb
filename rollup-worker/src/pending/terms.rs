//! What the coalescing set is told, and what it tells.

use quipu_adapters::ports::Parked;
use quipu_core::time::Micros;
use std::time::Duration;

/// Where a signal stands in its topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SignalAt {
    /// The signal partition.
    pub partition: u32,
    /// The offset there.
    pub offset: u64,
}

/// Signals of one counter that came within a coalesce window, held by the offset of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The first signal.
    pub at: SignalAt,
    /// The write that it told of.
    pub first_write: Micros,
    /// The newest write that any of them told of: rolled up past it, all are finished.
    pub last_write: Micros,
    /// When the first was read, by the worker's clock.
    pub opened: Micros,
}

/// When a counter that was rolled up is due again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Not before this much more event time has closed.
    pub coalesce: Duration,
    /// When it has converged: again after this much, or `None` to let it go.
    pub circulation: Option<Duration>,
}

/// What a rollup finished.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Signals whose writes are covered, once the checkpoint is durable.
    pub signals: Vec<SignalAt>,
    /// The parked row that is covered, likewise.
    pub parked: Option<(u32, Parked)>,
}
