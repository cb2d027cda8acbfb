//! Accurate reads, beside everything else (R14, R19).
//!
//! Fault model. A read is as slow as any call, works on a cached checkpoint of any age, and may
//! fail; slices are dropped meanwhile, and the store restarts.

use super::{
    bug::Bug,
    client::{COUNTERS, moment, pick, rest},
    faults::LogKind,
    port::Port,
    world::Sim,
};
use quipu_adapters::ports::{Cache, RollupStore, StoreError};
use quipu_core::{
    checkpoint::Checkpoint,
    event::{CounterKey, StoredEvent},
    name::CounterName,
    time::Micros,
};
use quipu_gateway::{
    ScanBounds,
    accurate::{LiveRead, live, newest_stored},
    machine,
};
use std::{slice, sync::PoisonError};

const NAMESPACES: [&str; 2] = ["low", "high"];

/// What a read gave, and what it should be held against.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// The counter.
    pub counter: CounterKey,
    /// The count.
    pub count: i128,
    /// Everything up to here is in it, because a checkpoint says so.
    pub based_on: Micros,
    /// Everything up to here is in it, as the caller is told.
    pub complete_through: Micros,
    /// What was stored at the moment of the scan.
    pub seen: Vec<StoredEvent>,
    /// What was stored after this, after the call began, is not asked for.
    pub newest: Micros,
}

/// Reads some counter.
pub(super) async fn read_any(sim: Sim) {
    let (namespace, counter) = {
        let mut world = sim.lock();
        (pick(&mut world, &NAMESPACES), pick(&mut world, &COUNTERS))
    };
    read(sim, namespace, counter).await;
}

/// Reads every counter.
pub(super) fn read_all(sim: &Sim) -> impl Iterator<Item = impl Future<Output = ()> + use<>> {
    let of = |namespace| COUNTERS.iter().map(move |counter| (namespace, *counter));
    let all = NAMESPACES.into_iter().flat_map(of);
    let sim = sim.clone();
    all.map(move |(namespace, counter)| read(sim.clone(), namespace, counter))
}

async fn read(sim: Sim, namespace: &'static str, name: &'static str) {
    let port = Port::connect(&sim);
    let policy = {
        let mut world = sim.lock();
        let now = world.now;
        world.control.lease(now)
    };
    let now = moment(&sim);
    let Ok(life) = machine::find(&policy, namespace, now) else {
        return;
    };
    let counter = CounterKey {
        namespace: life.id(),
        name: CounterName::new(name).expect("a valid name"),
    };
    let closed = machine::closed(&life, now);
    let Ok(base) = base(&port, &counter).await else {
        return;
    };
    let newest = newest_stored(&life, now);
    let bug = {
        let mut world = sim.lock();
        // The clock of an embedded log steps further here than clocks may be apart.
        if world.faults.log == LogKind::Broker {
            world.check_newest(&counter, newest);
        }
        world.bug
    };
    // What was cached when the call began may be old when it goes on.
    rest(&sim, 1_200).await;
    let read = LiveRead {
        counter: &counter,
        base: base.unwrap_or_else(|| Checkpoint::origin(life.origin())),
        newest: if bug == Some(Bug::ReadStopsAtTheClock) {
            now.effective
        } else {
            newest
        },
        bounds: ScanBounds {
            partitions: u64::MAX,
            events: u64::MAX,
        },
    };
    let Ok(found) = live(&port, &port, read).await else {
        return;
    };
    let seen = port.seen.lock().unwrap_or_else(PoisonError::into_inner);
    let answer = Answer {
        count: found.count.get(),
        based_on: found.based_on,
        complete_through: closed.max(found.based_on),
        seen: seen.clone(),
        newest,
        counter,
    };
    sim.lock().check_read(&answer);
}

/// The checkpoint to read on from, which may be an old one.
async fn base(port: &Port, counter: &CounterKey) -> Result<Option<Checkpoint>, StoreError> {
    if let Ok(Some(cached)) = Cache::get(port, counter).await {
        return Ok(Some(cached));
    }
    let rows = RollupStore::load(port, slice::from_ref(counter)).await?;
    Ok(rows.first().and_then(|row| row.checkpoint))
}
