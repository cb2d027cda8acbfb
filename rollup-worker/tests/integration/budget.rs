//! Counters that wait long, and others that do not.

use crate::fixtures::{NAMESPACE, counter, policy, signal};
use quipu_adapters::{
    memory::MemoryRollupStore,
    ports::{Parked, RollupStore},
};
use quipu_core::{
    event::{CounterKey, NamespaceId},
    time::Micros,
};
use quipu_rollup_worker::{
    machine::{Limits, Machine, Rolled},
    pending::SignalAt,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

const NOW: Micros = Micros::new(1_000_000_000_000);
const SLOW: NamespaceId = NamespaceId(2);
const QUICK: NamespaceId = NAMESPACE;

/// What the worker does every second: park, make room, load.
async fn keep_house(
    machine: &mut Machine,
    rows: &MemoryRollupStore,
    now: Micros,
    closed: &BTreeMap<NamespaceId, Micros>,
) {
    const PAGE: usize = 3;
    let park = async |rows_to_park: BTreeMap<u32, Vec<Parked>>| {
        for (partition, parked) in rows_to_park {
            rows.park(partition, parked).await.expect("parked");
        }
    };
    if let Some(finished) = machine.begin_sync() {
        for (partition, finished) in machine.on_durable(finished).unpark {
            rows.unpark(partition, finished).await.expect("unparked");
        }
    }
    park(machine.overflow()).await;
    machine.on_overflow_parked();
    let overdue = machine.to_park(now);
    park(overdue.clone()).await;
    machine.on_parked(&overdue);
    machine.make_room(closed);
    while let Some((partition, after)) = machine.parked_to_load() {
        let page = rows.parked(partition, after.as_ref(), PAGE).await;
        machine.on_parked_loaded(partition, &page.expect("read"), PAGE);
    }
}

#[tokio::test]
async fn counters_that_close_tomorrow_do_not_keep_those_out_that_close_now() {
    let mut machine = Machine::new(Limits {
        pending: 20,
        circulating: 1,
        park_after: Duration::from_secs(30),
        batch_target: Duration::from_secs(1),
        batch_sizes: (4, 8),
    });
    let rows = MemoryRollupStore::default();
    machine.assign(0, 0);
    machine.assign(1, 0);
    let policy = policy();
    let slow = (0..60).map(|number| CounterKey {
        namespace: SLOW,
        ..counter(&format!("{number}"))
    });
    let quick = (0..5).map(|number| counter(&format!("{number}")));
    for (offset, counter) in (0..).zip(slow.chain(quick)) {
        // Those that close tomorrow are nearly all of a partition that comes first.
        let partition = u32::from(counter.namespace == QUICK || offset % 10 == 0);
        let at = SignalAt { partition, offset };
        machine.on_signal(NOW, at, signal(counter, NOW), &policy);
    }
    let mut taken = Vec::new();
    for second in 0..120 {
        let now = NOW + Duration::from_secs(second);
        // The accept limits are five seconds and a day.
        let closed = BTreeMap::from([
            (QUICK, now - Duration::from_secs(5)),
            (SLOW, now - Duration::from_hours(24)),
        ]);
        keep_house(&mut machine, &rows, now, &closed).await;
        assert!(machine.pending() <= 20 + 3, "{}", machine.pending());
        taken.extend(machine.next_batch(&closed));
    }
    assert_eq!(taken.len(), 5, "{taken:?}");
    assert!(taken.iter().all(|counter| counter.namespace == QUICK));
    // And what made room comes back when its time has come.
    let tomorrow = NOW + Duration::from_hours(24);
    let closed = BTreeMap::from([(SLOW, tomorrow)]);
    let mut closing = BTreeSet::new();
    for _ in 0..40 {
        let batch = machine.next_batch(&closed);
        let rolled = Rolled {
            through: tomorrow,
            noted: None,
        };
        let results = batch.iter().map(|counter| (counter.clone(), Some(rolled)));
        machine.on_batch(results.collect(), Duration::ZERO, &policy);
        closing.extend(batch);
        keep_house(&mut machine, &rows, tomorrow, &closed).await;
    }
    assert_eq!(closing.len(), 60, "{closing:?}");
}
