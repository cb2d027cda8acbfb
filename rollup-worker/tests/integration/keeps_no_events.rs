//! A namespace of `BEST_EFFORT` is closed like any other, although it never has anything to roll up.
//! Two things rely on it: no slice is kept for its sake, and no signal waits for it.

use crate::fixtures::{
    ACCEPT_LIMIT, DAY, NAMESPACE, SECOND, counter, history, prepared, settings, signal,
};
use quipu_adapters::{
    clock::Clock,
    memory::{MemoryLog, MemoryRollupStore},
    watermarks::WatermarkBoard,
};
use quipu_core::{
    name::Namespace,
    policy::{Incarnation, Limits, Mode, PolicyBook},
    time::Micros,
    watermark::Watermarks,
    window::Window,
};
use quipu_rollup_worker::{
    machine::{Machine, Rolled, closed_times},
    pending::SignalAt,
    sweep::Sweep,
};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::sync::watch;

const NOON: Micros = Micros::new(20_000 * 86_400_000_000 + 43_200_000_000);

/// The only namespace there is keeps no events.
fn book() -> PolicyBook {
    let limits = Limits {
        accept_limit: ACCEPT_LIMIT,
        max_future: ACCEPT_LIMIT,
    };
    let life = Incarnation::new(NAMESPACE, Micros::new(0), limits).with_mode(Mode::BestEffort);
    let name = Namespace::new("views").expect("a valid name");
    PolicyBook::new([(name, history(life, SECOND))], Micros::MAX)
}

#[tokio::test]
async fn a_namespace_that_keeps_no_events_keeps_no_slice_from_its_end() {
    let (clock, _) = Clock::manual(NOON);
    let (_policy, policies) = watch::channel(Arc::new(book()));
    let mut settings = settings().sweep;
    settings.retention = 7 * DAY;
    let window = Window {
        after: NOON - 9 * DAY,
        through: NOON,
    };
    let mut sweep = Sweep {
        log: MemoryLog::new(clock.clone(), 1),
        events: prepared(window).await,
        rollups: MemoryRollupStore::default(),
        watermarks: WatermarkBoard::new(Watermarks::new([(0, NOON)])),
        policies,
        clock,
        clean: BTreeSet::new(),
        settings,
    };
    assert_eq!(sweep.walk().await.expect("walked").dropped, 2);
}

#[test]
fn a_signal_of_a_namespace_that_keeps_no_events_holds_nothing_back() {
    let (mut machine, book) = (Machine::new(settings().limits), book());
    machine.assign(0, 0);
    // Nobody in Quipu sends one, but anybody can write to the topic.
    let at = SignalAt {
        partition: 0,
        offset: 0,
    };
    machine.on_signal(NOON, at, signal(counter("hits"), NOON), &book);
    let closed = closed_times(&book, NOON + ACCEPT_LIMIT + SECOND);
    assert_eq!(machine.next_batch(&closed), [counter("hits")]);
    let rolled = Rolled {
        through: closed[&NAMESPACE],
        noted: None,
    };
    let results = vec![(counter("hits"), Some(rolled))];
    machine.on_batch(results, Duration::ZERO, &book);
    let finished = machine.begin_sync().expect("it finished the signal");
    assert_eq!(machine.on_durable(finished).commits[&0], 1);
}
