//! Which schedule is run, and how one that breaks an invariant is made smaller.

use super::{bug::Bug, faults::Faults, rng::Rng, schedule::run};
use std::iter;

/// A schedule: what decides everything that happens in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Decides the faults' rates and all chance.
    pub seed: u64,
    /// A planted bug.
    pub bug: Option<Bug>,
    /// Faults that do not strike, by name.
    pub without: Vec<String>,
    /// For so many steps there are calls and faults; then all must become quiet.
    pub busy_steps: u64,
}

impl Plan {
    /// The whole schedule of a seed.
    pub fn new(seed: u64, bug: Option<Bug>) -> Self {
        Self {
            seed,
            bug,
            without: Vec::new(),
            busy_steps: 2_000,
        }
    }

    /// The faults of the schedule.
    pub(super) fn faults(&self, rng: &mut Rng) -> Faults {
        Faults::draw(rng).without(&self.without)
    }

    /// The names of the faults that strike.
    pub fn strikes(&self) -> Vec<&'static str> {
        self.faults(&mut Rng::new(self.seed)).names()
    }

    /// The command that runs it again.
    pub fn replay(&self) -> String {
        let seed = format!("quipu-sim --first-seed {} --seeds 1 --tail 400", self.seed);
        let is_shorter = self.busy_steps != Self::new(self.seed, self.bug).busy_steps;
        let steps = is_shorter.then(|| format!("--busy-steps {}", self.busy_steps));
        let without = self.without.iter();
        let without = without.map(|fault| format!("--without {fault}"));
        let bug = self.bug.map(|bug| {
            let name = clap::ValueEnum::to_possible_value(&bug).expect("every bug has a name");
            format!("--plant {}", name.get_name())
        });
        let parts = iter::once(seed).chain(steps).chain(without).chain(bug);
        parts.collect::<Vec<_>>().join(" ")
    }

    /// A schedule that still breaks an invariant, with fewer faults and fewer steps.
    #[must_use]
    pub fn shrink(&self) -> Self {
        let mut smallest = self.clone();
        let breaks = |plan: &Self| run(plan).violation.is_some();
        for fault in self.strikes() {
            let mut smaller = smallest.clone();
            smaller.without.push(fault.to_owned());
            if breaks(&smaller) {
                smallest = smaller;
            }
        }
        let mut cut = smallest.busy_steps / 2;
        while cut > 0 {
            let mut smaller = smallest.clone();
            smaller.busy_steps -= cut;
            if breaks(&smaller) {
                smallest = smaller;
            }
            cut = (cut / 2).min(smallest.busy_steps);
        }
        smallest
    }
}
