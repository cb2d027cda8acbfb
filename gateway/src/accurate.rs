//! Accurate reads: the newest checkpoint, and on top of it everything that is stored since, up to
//! the newest time that can have been accepted, clears included. Nothing is written.
//!
//! Every event up to the closed time that was known before anything was read is in the count (R14).
//! Later ones are as far as they were stored when the scan came to them.

use crate::{
    failure::{Failure, RETRY_DELAY, reason},
    gateway::{Gateway, View},
    machine::Moment,
};
use quipu_adapters::ports::{Cache, ControlPlane, EventStore, Producer, RollupStore, StoreError};
use quipu_core::{
    aggregate::{Count, OrderedFold},
    checkpoint::Checkpoint,
    event::{CounterKey, StoredEvent},
    policy::Incarnation,
    time::Micros,
    window::Window,
};
use std::{ops::ControlFlow, slice, time::Duration};
use tonic::Code;

/// How much one accurate read may scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanBounds {
    /// Partitions of the event store: time buckets times event buckets.
    pub partitions: u64,
    /// Events.
    pub events: u64,
}

impl Default for ScanBounds {
    fn default() -> Self {
        Self {
            partitions: 256,
            events: 100_000,
        }
    }
}

/// What is to be read.
#[derive(Clone, Copy, Debug)]
pub struct LiveRead<'a> {
    /// The counter.
    pub counter: &'a CounterKey,
    /// A checkpoint of it, which need not be the newest.
    pub base: Checkpoint,
    /// No event after this can be stored.
    pub newest: Micros,
    /// How much may be scanned.
    pub bounds: ScanBounds,
}

/// What was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    /// The checkpoint's count with everything stored since.
    pub count: Count,
    /// Everything up to here is in it, because the checkpoint says so.
    pub based_on: Micros,
}

/// Why nothing was read.
#[derive(Clone, Debug)]
pub enum NotLive {
    /// The scan would read this many partitions.
    TooManyPartitions(u64),
    /// There are more events than may be read.
    TooManyEvents,
    /// A store failed.
    Store(StoreError),
}

impl From<StoreError> for NotLive {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// How often a read begins again on a newer checkpoint. One that could so often was dropped behind
/// by slices that go faster than it reads.
const BASES: usize = 4;

/// The clocks of processes may differ by twice what each may be off: what one has just accepted is
/// not ahead of what another believes can be.
const CLOCKS_APART: Duration = Duration::from_secs(5);

/// No event after this can be stored yet: what an accurate read reads up to.
pub fn newest_stored(life: &Incarnation, moment: Moment) -> Micros {
    life.newest_accepted(moment.effective + CLOCKS_APART)
}

/// Reads a counter as it is now. A slice that was dropped meanwhile, or since the base was cached,
/// is made up for by a newer checkpoint, which covers it (R19); so is a base that is so old that
/// too much lies after it.
///
/// # Errors
/// When the bounds do not suffice even for the newest checkpoint, or a store failed.
pub async fn live<E: EventStore, R: RollupStore>(
    events: &E,
    rollups: &R,
    mut read: LiveRead<'_>,
) -> Result<Live, NotLive> {
    for _ in 0..BASES {
        let window = Window {
            after: read.base.last_rollup,
            through: read.newest,
        };
        let scanned = scan(events, &read, window).await;
        // Asked after the scan: what was dropped during it is known then.
        if scanned.is_ok() && !events.extent(window).await?.has_dropped {
            return scanned;
        }
        let rows = rollups.load(slice::from_ref(read.counter)).await?;
        let stored = rows.first().and_then(|row| row.checkpoint);
        match stored.filter(|stored| stored.supersedes(&read.base)) {
            Some(newer) => read.base = newer,
            // A counter with events in a dropped slice has a checkpoint past them: this one had none.
            None => return scanned,
        }
    }
    let problem = "time slices were dropped faster than a counter could be read";
    Err(StoreError::Unavailable(problem.to_owned()).into())
}

async fn scan<E: EventStore>(
    events: &E,
    read: &LiveRead<'_>,
    window: Window,
) -> Result<Live, NotLive> {
    let partitions = events.extent(window).await?.partitions;
    if partitions > read.bounds.partitions {
        return Err(NotLive::TooManyPartitions(partitions));
    }
    let mut fold = OrderedFold::from(read.base.count);
    let mut is_too_many = false;
    let mut sink = |event: StoredEvent| {
        if fold.events() == read.bounds.events {
            is_too_many = true;
            return ControlFlow::Break(());
        }
        fold.push(&event.key, event.mutation);
        ControlFlow::Continue(())
    };
    events.scan(read.counter, window, &mut sink).await?;
    if is_too_many {
        return Err(NotLive::TooManyEvents);
    }
    Ok(Live {
        count: fold.count(),
        based_on: read.base.last_rollup,
    })
}

impl<L: Producer, E: EventStore, R: RollupStore, C: Cache, P: ControlPlane> Gateway<L, E, R, C, P> {
    /// The count of a counter as it is now, and the time through which it is complete.
    pub(crate) async fn read_accurately(
        &self,
        view: &View,
        counter: &CounterKey,
        base: Checkpoint,
    ) -> Result<(Count, Micros), Failure> {
        let read = LiveRead {
            counter,
            base,
            newest: newest_stored(&view.life, view.moment),
            bounds: self.settings.scan,
        };
        let too_long = match live(&self.ports.events, &self.ports.rollups, read).await {
            // A checkpoint may be newer than what this process knows to be closed.
            Ok(live) => return Ok((live.count, view.closed().max(live.based_on))),
            Err(NotLive::Store(error)) => return Err(error.into()),
            Err(NotLive::TooManyPartitions(partitions)) => {
                Failure::too_many_partitions(partitions, read.bounds.partitions)
            }
            Err(NotLive::TooManyEvents) => Failure::too_many_events(read.bounds.events),
        };
        let now = self.clock.read().steady;
        self.signals.stale(&view.namespace, counter, now);
        Err(too_long)
    }
}

impl Failure {
    fn scan_limit(found: &str, bound: u64, key: &str) -> Self {
        let flag = key.replace('_', "-");
        let message = format!(
            "since its last rollup the counter has {found}, and one read may scan {bound} \
             (gateway.{key}, of quipu serve --{flag}); a rollup was asked for: try again, or raise \
             the bound"
        );
        let failure = Self::new(Code::ResourceExhausted, reason::SCAN_LIMIT, message);
        Self {
            retry_after: Some(RETRY_DELAY),
            ..failure
        }
    }

    fn too_many_partitions(partitions: u64, bound: u64) -> Self {
        let found = format!("{partitions} partitions of events");
        Self::scan_limit(&found, bound, "max_scan_partitions")
    }

    fn too_many_events(bound: u64) -> Self {
        let found = format!("over {bound} events");
        Self::scan_limit(&found, bound, "max_scan_events")
    }
}
