//! The simulated control plane: the one true policy, and the leases under which roles rely on
//! their copies of it (R5).
//!
//! Fault model. A role's copy may be as old as its lease. Roles renew at any moment, or not for a
//! long time. A change takes effect after the largest time ever granted.

use super::super::{bug::Bug, rng::Rng};
use quipu_core::{
    event::NamespaceId,
    name::Namespace,
    policy::{Cardinality, Incarnation, Limits, NamespaceHistory, PolicyBook, RollupSettings},
    time::Micros,
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// The events topic of the simulation.
pub(crate) const TOPIC: &str = "quipu-events";

/// The true history of every namespace.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    histories: BTreeMap<Namespace, NamespaceHistory>,
    granted: Micros,
    truth: Arc<PolicyBook>,
    /// From when on a partition is registered that is yet to be made.
    pub coming: Option<Micros>,
}

const LEASE: Duration = Duration::from_secs(5);

impl Control {
    /// Two namespaces of ours, and one whose events lie in another topic.
    pub(crate) fn new(rng: &mut Rng, now: Micros) -> Self {
        let mut histories = BTreeMap::new();
        let names = [
            ("low", TOPIC, Cardinality::Low),
            ("high", TOPIC, Cardinality::High),
            ("other", "elsewhere", Cardinality::High),
        ];
        for (number, (name, topic, cardinality)) in (1..).zip(names) {
            let first = Incarnation::new(NamespaceId(number), now, limits(rng));
            let coalesce = rng.millis_below(1_500);
            let rollup = RollupSettings {
                coalesce,
                cardinality,
            };
            let name = Namespace::new(name).expect("a valid name");
            histories.insert(name, NamespaceHistory::new(topic, rollup, first));
        }
        let mut control = Self {
            histories,
            granted: now,
            truth: Arc::default(),
            coming: None,
        };
        control.truth = Arc::new(control.book(Micros::MAX));
        control
    }

    fn book(&self, valid_through: Micros) -> PolicyBook {
        let histories = self
            .histories
            .iter()
            .map(|(name, history)| (name.clone(), history.clone()));
        PolicyBook::new(histories, valid_through)
    }

    /// The truth, for the oracle alone.
    pub(crate) fn truth(&self) -> &Arc<PolicyBook> {
        &self.truth
    }

    /// Grants a lease of the policy as it is.
    pub(crate) fn lease(&mut self, now: Micros) -> Arc<PolicyBook> {
        self.granted = self.granted.max(now + LEASE);
        Arc::new(self.book(self.granted))
    }

    /// The first moment that nobody was granted yet.
    pub(crate) fn next_change(&self) -> Micros {
        self.granted.succ()
    }

    /// Changes a namespace: its limits, or its end, or its next life. Returns what was done.
    pub(crate) fn change(&mut self, rng: &mut Rng, bug: Option<Bug>, now: Micros) -> String {
        let at = match bug {
            Some(Bug::PolicyChangeAtOnce) => now,
            _ => self.next_change(),
        };
        let next_id = self.truth.next_id();
        let index = rng.index(2);
        let (name, history) = self
            .histories
            .iter_mut()
            .filter(|(name, _)| name.as_str() != "other")
            .nth(index)
            .expect("two names");
        let done = if history.current().is_none() {
            let life = Incarnation::new(next_id, at, limits(rng));
            history.recreate(life).map(|()| "recreate")
        } else if rng.chance(4) {
            history.newest_mut().delete(at).map(|()| "delete")
        } else {
            history
                .newest_mut()
                .change(at, limits(rng))
                .map(|()| "limits")
        };
        let line = format!("policy {name} {done:?} from {at}");
        self.truth = Arc::new(self.book(Micros::MAX));
        line
    }
}

fn limits(rng: &mut Rng) -> Limits {
    Limits {
        accept_limit: Duration::from_millis(1_200 + 100 * rng.below(40)),
        max_future: Duration::from_millis(500 + 100 * rng.below(40)),
    }
}
