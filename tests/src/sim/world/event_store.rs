//! The simulated event store.
//!
//! Fault model. A write is acknowledged before it is durable. A restart loses any part of what
//! was not synced, and makes a new generation; a client whose sync crosses a restart is told that
//! writes may be lost. A write may fail with or without effect. Rows of a dropped slice are
//! skipped, and a scan reads a window without them.

use super::super::{bug::Bug, rng::Rng};
use quipu_adapters::ports::{Extent, SliceInfo, SliceState};
use quipu_core::{
    event::{CounterKey, EventKey, StoredEvent},
    name::ItemKey,
    slice::{SliceId, Slicing},
    window::Window,
};
use std::{collections::BTreeMap, time::Duration};

/// One copy of an event.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    /// The event.
    pub event: StoredEvent,
    /// When it was written, in the store's count of writes.
    pub sequence: u64,
    /// Whether it survives a restart.
    pub durable: bool,
}

/// All events, by counter and identity.
#[derive(Debug)]
pub(crate) struct EventStoreState {
    /// The copies of each identity.
    pub rows: BTreeMap<CounterKey, BTreeMap<EventKey, Vec<Copy>>>,
    /// How often it restarted.
    pub generation: u64,
    /// How many writes it took.
    pub sequence: u64,
    slicing: Slicing,
    slices: BTreeMap<SliceId, SliceState>,
}

impl EventStoreState {
    /// An empty store.
    pub(crate) fn new() -> Self {
        Self {
            rows: BTreeMap::new(),
            generation: 0,
            sequence: 0,
            slicing: Slicing::new(Duration::from_secs(5)).expect("a valid length"),
            slices: BTreeMap::new(),
        }
    }

    /// The slice of an event, if it can be written or read.
    pub(crate) fn slice(&self, key: &EventKey) -> (SliceId, Option<SliceState>) {
        let id = self.slicing.slice_of(key.event_time);
        (id, self.slices.get(&id).copied())
    }

    /// Makes slices ready, but never a dropped one.
    pub(crate) fn prepare(&mut self, window: Window) {
        for id in self.slicing.touched(window) {
            self.slices.entry(id).or_insert(SliceState::Ready);
        }
    }

    /// Drops a slice.
    pub(crate) fn drop_slice(&mut self, id: SliceId) {
        self.slices.insert(id, SliceState::Dropped);
        let slicing = self.slicing;
        for rows in self.rows.values_mut() {
            rows.retain(|key, _| slicing.slice_of(key.event_time) != id);
        }
    }

    /// The catalogue.
    pub(crate) fn slices(&self) -> Vec<SliceInfo> {
        let info = |(id, state): (&SliceId, &SliceState)| SliceInfo {
            id: *id,
            state: *state,
            last: self.slicing.last(*id),
        };
        self.slices.iter().map(info).collect()
    }

    /// How much a scan of a window reads: a partition a slice.
    pub(crate) fn extent(&self, window: Window) -> Extent {
        let touches = |id: &SliceId| !self.slicing.clip(window, *id).is_empty();
        let mut extent = Extent::default();
        for (_, state) in self.slices.iter().filter(|(id, _)| touches(id)) {
            match state {
                SliceState::Ready => extent.partitions += 1,
                SliceState::Creating => {}
                SliceState::Dropping | SliceState::Dropped => extent.has_dropped = true,
            }
        }
        extent
    }

    /// The distinct counters of a slice.
    pub(crate) fn counters(&self, slice: SliceId) -> Vec<CounterKey> {
        let lies_here = |key: &EventKey| self.slicing.slice_of(key.event_time) == slice;
        let found = self
            .rows
            .iter()
            .filter(|(_, rows)| rows.keys().any(lies_here));
        found.map(|(counter, _)| counter.clone()).collect()
    }

    /// Writes one row, whose slice is ready.
    pub(crate) fn write(&mut self, bug: Option<Bug>, counter: &CounterKey, event: &StoredEvent) {
        self.sequence += 1;
        let mut event = event.clone();
        if bug == Some(Bug::RandomEventBucket) && self.sequence.is_multiple_of(7) {
            event.key.item_key = ItemKey::new("elsewhere").expect("a short key");
        }
        let copies = self
            .rows
            .entry(counter.clone())
            .or_default()
            .entry(event.key.clone())
            .or_default();
        if copies
            .iter()
            .any(|copy| copy.durable && copy.event == event)
        {
            return;
        }
        copies.retain(|copy| copy.event != event);
        copies.push(Copy {
            event,
            sequence: self.sequence,
            durable: false,
        });
    }

    /// Every copy of every event of a counter.
    pub(crate) fn copies(&self, counter: &CounterKey) -> Vec<StoredEvent> {
        let rows = self.rows.get(counter).into_iter().flatten();
        rows.flat_map(|(_, copies)| copies.iter().map(|copy| copy.event.clone()))
            .collect()
    }

    /// The copy that is read.
    pub(crate) fn winner(bug: Option<Bug>, copies: &[Copy]) -> Option<&StoredEvent> {
        let winner = if bug == Some(Bug::LastCopyWins) {
            copies.iter().max_by_key(|copy| copy.sequence)
        } else {
            copies.iter().min_by_key(|copy| copy.event.source)
        };
        winner.map(|copy| &copy.event)
    }

    /// Everything written up to a count is durable.
    pub(crate) fn flush(&mut self, through: u64) {
        let copies = self
            .rows
            .values_mut()
            .flat_map(BTreeMap::values_mut)
            .flatten();
        for copy in copies.filter(|copy| copy.sequence <= through) {
            copy.durable = true;
        }
    }

    /// Restarts. Returns how many copies were lost.
    pub(crate) fn restart(&mut self, rng: &mut Rng) -> usize {
        self.generation += 1;
        let keep_one_in = rng.below(4);
        let mut lost = 0;
        for rows in self.rows.values_mut() {
            rows.retain(|_, copies| {
                copies.retain_mut(|copy| {
                    copy.durable |= rng.chance(keep_one_in);
                    lost += usize::from(!copy.durable);
                    copy.durable
                });
                !copies.is_empty()
            });
        }
        lost
    }
}

impl Default for EventStoreState {
    fn default() -> Self {
        Self::new()
    }
}
