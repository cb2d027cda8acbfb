//! The role against stores that fail, and clocks that do what clocks do.

mod budget;
mod failing;
mod handover;
mod sweep;

use quipu_core::{
    event::NamespaceId,
    name::Namespace,
    policy::{Cardinality, Incarnation, Limits, NamespaceHistory, PolicyBook, RollupSettings},
    time::Micros,
};
use std::time::Duration;

/// One namespace, as old as time.
fn policy() -> PolicyBook {
    let limits = Limits {
        accept_limit: Duration::from_secs(5),
        max_future: Duration::from_secs(5),
    };
    let rollup = RollupSettings {
        coalesce: Duration::from_secs(1),
        cardinality: Cardinality::Low,
    };
    let life = Incarnation::new(NamespaceId(1), Micros::new(0), limits);
    let name = Namespace::new("ns").expect("a valid name");
    let history = NamespaceHistory::new("quipu-events", rollup, life);
    PolicyBook::new([(name, history)], Micros::MAX)
}
