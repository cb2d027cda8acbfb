//! What the tests of this role have in common: namespaces, counters, signals, and how it is set.

use quipu_adapters::{memory::MemoryEventStore, ports::EventStore};
use quipu_core::{
    event::{CounterKey, NamespaceId},
    name::{CounterName, Namespace},
    policy::{
        Cardinality, Incarnation, Limits as AcceptLimits, NamespaceHistory, PolicyBook,
        RollupSettings,
    },
    slice::Slicing,
    time::Micros,
    window::Window,
};
use quipu_rollup_worker::{Settings, machine::Limits, sweep::SweepSettings};
use quipu_schemas::signal::CheckedSignal;
use std::time::Duration;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const DAY: Duration = Duration::from_hours(24);

/// The only namespace.
pub(crate) const NAMESPACE: NamespaceId = NamespaceId(1);

pub(crate) const ACCEPT_LIMIT: Duration = Duration::from_secs(5);

pub(crate) fn policy() -> PolicyBook {
    coalescing(SECOND)
}

/// One namespace, as old as time, whose writes within `window` are one aggregation.
pub(crate) fn coalescing(window: Duration) -> PolicyBook {
    let limits = AcceptLimits {
        accept_limit: ACCEPT_LIMIT,
        max_future: ACCEPT_LIMIT,
    };
    let life = Incarnation::new(NAMESPACE, Micros::new(0), limits);
    let name = Namespace::new("ns").expect("a valid name");
    PolicyBook::new([(name, history(life, window))], Micros::MAX)
}

pub(crate) fn history(life: Incarnation, coalesce: Duration) -> NamespaceHistory {
    let rollup = RollupSettings {
        coalesce,
        cardinality: Cardinality::Low,
    };
    NamespaceHistory::new("quipu-events", rollup, life)
}

pub(crate) fn counter(name: &str) -> CounterKey {
    CounterKey {
        namespace: NAMESPACE,
        name: CounterName::new(name).expect("a valid name"),
    }
}

pub(crate) fn signal(counter: CounterKey, last_write: Micros) -> CheckedSignal {
    CheckedSignal {
        counter,
        last_write: Some(last_write),
    }
}

/// An event store with slices of a day for all that touches a window.
pub(crate) async fn prepared(window: Window) -> MemoryEventStore {
    let events = MemoryEventStore::new(Slicing::new(DAY).expect("a valid length"));
    events.prepare(window).await.expect("prepared");
    events
}

/// A role that parks nothing and sweeps once.
pub(crate) fn settings() -> Settings {
    Settings {
        limits: Limits {
            pending: 100,
            circulating: 10,
            park_after: Duration::from_hours(1),
            batch_target: SECOND,
            batch_sizes: (1, 10),
        },
        sync_every: Duration::from_millis(300),
        sweep: SweepSettings {
            every: Duration::from_hours(1),
            page_pause: Duration::ZERO,
            grace: SECOND,
            retention: DAY,
        },
    }
}
