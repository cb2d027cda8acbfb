//! What a sweep may drop.

use quipu_adapters::{
    clock::Clock,
    memory::{MemoryEventStore, MemoryLog, MemoryRollupStore},
    ports::{EventStore, SliceState},
    watermarks::WatermarkBoard,
};
use quipu_core::{
    slice::{SliceId, Slicing},
    time::Micros,
    watermark::Watermarks,
    window::Window,
};
use quipu_rollup_worker::sweep::{Sweep, SweepSettings};
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;

const DAY: Duration = Duration::from_hours(24);
const RETENTION: Duration = Duration::from_hours(7 * 24);
const NOON: Micros = Micros::new(20_000 * 86_400_000_000 + 43_200_000_000);

/// Walks a store of the slices of ten days while all is decided up to noon and the machine's
/// clock shows something else. Returns the slices that were dropped.
async fn dropped_at(wall: Micros) -> Vec<SliceId> {
    let (clock, _) = Clock::manual(wall);
    let slicing = Slicing::new(DAY).expect("a valid length");
    let events = MemoryEventStore::new(slicing);
    let (after, through) = (NOON - 9 * DAY, NOON);
    events
        .prepare(Window { after, through })
        .await
        .expect("prepared");
    let sweep = Sweep {
        log: MemoryLog::new(clock.clone(), 1),
        events: events.clone(),
        rollups: MemoryRollupStore::default(),
        watermarks: WatermarkBoard::new(Watermarks::new([(0, NOON)])),
        policies: watch::channel(Arc::new(crate::policy())).1,
        clock,
        settings: SweepSettings {
            every: DAY,
            page_pause: Duration::ZERO,
            grace: Duration::ZERO,
            retention: RETENTION,
        },
    };
    sweep.walk().await.expect("walked");
    let slices = events.slices().await.expect("slices").into_iter();
    slices
        .filter(|slice| slice.state == SliceState::Dropped)
        .map(|slice| slice.id)
        .collect()
}

#[tokio::test]
async fn a_clock_that_jumped_ahead_drops_no_slice_that_new_namespaces_may_still_write_to() {
    let expired = [SliceId(19_991), SliceId(19_992)];
    assert_eq!(dropped_at(NOON).await, expired);
    // A namespace created now accepts events of yesterday, whatever the machine's clock shows: a
    // row of a dropped slice would be skipped although it was acknowledged.
    assert_eq!(dropped_at(NOON + 30 * DAY).await, expired);
}
