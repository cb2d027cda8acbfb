//! What a sweep may drop.

use crate::fixtures::{self, DAY, SECOND, history, prepared};
use quipu_adapters::{
    clock::Clock,
    memory::{MemoryEventStore, MemoryLog, MemoryRollupStore},
    ports::{EventStore, SliceState},
    watermarks::WatermarkBoard,
};
use quipu_core::{
    name::Namespace,
    policy::{Incarnation, Limits, PolicyBook},
    slice::SliceId,
    time::Micros,
    watermark::Watermarks,
    window::Window,
};
use quipu_rollup_worker::sweep::{Sweep, SweepSettings};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::sync::watch;

const RETENTION: Duration = Duration::from_hours(7 * 24);
const NOON: Micros = Micros::new(20_000 * 86_400_000_000 + 43_200_000_000);

type MemorySweep = Sweep<MemoryLog, MemoryEventStore, MemoryRollupStore>;

/// A sweep over the slices of ten days, while all is decided up to noon and the machine's clock
/// shows something else; and what changes its policy.
async fn sweep_at(wall: Micros) -> (MemorySweep, watch::Sender<Arc<PolicyBook>>) {
    let (clock, _) = Clock::manual(wall);
    let (after, through) = (NOON - 9 * DAY, NOON);
    let events = prepared(Window { after, through }).await;
    let (policy, policies) = watch::channel(Arc::new(fixtures::policy()));
    let sweep = Sweep {
        log: MemoryLog::new(clock.clone(), 1),
        events,
        rollups: MemoryRollupStore::default(),
        watermarks: WatermarkBoard::new(Watermarks::new([(0, NOON)])),
        policies,
        clock,
        clean: BTreeSet::new(),
        settings: SweepSettings {
            every: DAY,
            page_pause: Duration::ZERO,
            grace: Duration::ZERO,
            retention: RETENTION,
        },
    };
    (sweep, policy)
}

/// The slices that one walk drops.
async fn dropped_at(wall: Micros) -> Vec<SliceId> {
    let (mut sweep, _policy) = sweep_at(wall).await;
    sweep.walk().await.expect("walked");
    let slices = sweep.events.slices().await.expect("slices").into_iter();
    slices
        .filter(|slice| slice.state == SliceState::Dropped)
        .map(|slice| slice.id)
        .collect()
}

#[tokio::test]
async fn a_clean_slice_is_walked_again_once_a_new_namespace_may_write_to_it() {
    let (mut sweep, policy) = sweep_at(NOON).await;
    sweep.walk().await.expect("walked");
    let yesterday = SliceId(19_999);
    assert!(sweep.clean.contains(&yesterday));
    let mut book = fixtures::policy();
    let limits = Limits {
        accept_limit: DAY,
        max_future: Duration::ZERO,
    };
    let life = Incarnation::new(book.next_id(), NOON, limits);
    let name = Namespace::new("late").expect("a valid name");
    book.insert(name, history(life, SECOND));
    policy.send_replace(Arc::new(book));
    sweep.walk().await.expect("walked");
    assert!(!sweep.clean.contains(&yesterday));
    assert!(sweep.clean.contains(&SliceId(19_998)));
}

#[tokio::test]
async fn a_clock_that_jumped_ahead_drops_no_slice_that_new_namespaces_may_still_write_to() {
    let expired = [SliceId(19_991), SliceId(19_992)];
    assert_eq!(dropped_at(NOON).await, expired);
    // A namespace created now accepts events of yesterday, whatever the machine's clock shows: a
    // row of a dropped slice would be skipped although it was acknowledged.
    assert_eq!(dropped_at(NOON + 30 * DAY).await, expired);
}
