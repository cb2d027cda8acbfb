//! The plan and its journal against a model of a server: whatever is killed or lost when, every
//! add is stored exactly once.
//!
//! Fault model: requests are applied in part, late, or more than once, also after the importer
//! that sent them was killed; answers get lost; a kill loses any notes that were not yet made
//! durable; any time passes in between. The server accepts an identity while its time is within
//! the accept limit, and refuses as late only what can never be stored any more (R4, R16).

use super::{
    plan::{Note, Plan},
    settle::{Pick, joined, settle},
};
use proptest::prelude::*;
use quipu_client::{Applied, Failure, Said};
use quipu_core::time::Micros;
use std::{collections::BTreeSet, slice, time::Duration};

const ACCEPT_LIMIT: Duration = Duration::from_millis(50);
const CLOSING_LAG: Duration = Duration::from_millis(20);

#[derive(Clone, Debug)]
enum Step {
    /// Take up the next adds and note that they are about to be sent.
    Take { adds: u64 },
    /// A call of some of the adds under way reaches the server, and its answer comes or not.
    Call {
        call: usize,
        reach: usize,
        answered: bool,
    },
    /// A copy of a call that was on the way all the time reaches the server now.
    Stray { call: usize },
    /// Time passes.
    Wait { millis: u64 },
    /// The importer is killed and started again.
    Kill { lost_notes: usize },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1..12u64).prop_map(|adds| Step::Take { adds }),
        6 => (any::<usize>(), any::<usize>(), any::<bool>())
            .prop_map(|(call, reach, answered)| Step::Call { call, reach, answered }),
        1 => any::<usize>().prop_map(|call| Step::Stray { call }),
        2 => (0..120u64).prop_map(|millis| Step::Wait { millis }),
        1 => any::<usize>().prop_map(|lost_notes| Step::Kill { lost_notes }),
    ]
}

#[derive(Debug)]
struct World {
    adds: u64,
    now: Micros,
    stored: BTreeSet<(u64, Micros)>,
    ever_sent: Vec<Vec<Pick>>,
    journal: Vec<Note>,
    durable: usize,
    plan: Plan,
    taken: u64,
    calls: Vec<Vec<Pick>>,
}

impl World {
    fn new(adds: u64) -> Self {
        Self {
            adds,
            now: Micros::new(1_000_000),
            stored: BTreeSet::new(),
            ever_sent: Vec::new(),
            journal: Vec::new(),
            durable: 0,
            plan: Plan::default(),
            taken: 0,
            calls: Vec::new(),
        }
    }

    fn apply(&mut self, pick: &Pick) -> Result<Applied, Failure> {
        let known = self.stored.contains(&(pick.add, pick.time));
        if pick.time > self.now - ACCEPT_LIMIT {
            self.stored.insert((pick.add, pick.time));
            return Ok(if known {
                Applied::AlreadyApplied
            } else {
                Applied::Accepted
            });
        }
        if pick.time > self.now - ACCEPT_LIMIT - CLOSING_LAG {
            return Err(Failure::unsettled("open"));
        }
        if known {
            Ok(Applied::AlreadyApplied)
        } else {
            Err(Failure::Late(Said::default()))
        }
    }

    fn note_durably(&mut self, note: Note) {
        self.journal.push(note);
        self.durable = self.journal.len();
    }

    fn picks(&self, adds: impl IntoIterator<Item = u64>) -> Vec<Pick> {
        let adds = adds.into_iter().filter(|add| !self.plan.is_finished(*add));
        adds.map(|add| Pick {
            place: 0,
            add,
            time: self.plan.attempt(add).unwrap().time,
        })
        .collect()
    }

    fn take(&mut self, adds: u64) {
        let range = self.taken..(self.taken + adds).min(self.adds);
        self.taken = range.end;
        let unsent = self.plan.unsent(range.clone());
        if !unsent.is_empty() {
            let note = self.plan.begin(&unsent, self.now);
            self.note_durably(note);
        }
        let picks = self.picks(range);
        if !picks.is_empty() {
            self.calls.push(picks);
        }
    }

    fn call(&mut self, call: usize, reach: usize, answered: bool) {
        if self.calls.is_empty() {
            return;
        }
        let picks = self.calls.swap_remove(call % self.calls.len());
        self.ever_sent.push(picks.clone());
        let reach = if answered {
            picks.len()
        } else {
            reach % (picks.len() + 1)
        };
        let verdicts: Vec<_> = picks[..reach].iter().map(|pick| self.apply(pick)).collect();
        if !answered {
            self.calls.push(picks);
            return;
        }
        let settled = settle(&mut self.plan, &picks, verdicts);
        assert!(settled.stop.is_none());
        self.journal.extend(settled.notes);
        if !settled.again.is_empty() {
            self.calls.push(settled.again);
        }
        if !settled.late.is_empty() {
            let late = joined(settled.late.iter().map(|pick| pick.add..pick.add + 1));
            let note = self.plan.begin(&late, self.now);
            self.note_durably(note);
            let picks = self.picks(late.into_iter().flatten());
            self.calls.push(picks);
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Take { adds } => self.take(adds),
            Step::Call {
                call,
                reach,
                answered,
            } => self.call(call, reach, answered),
            Step::Stray { call } if !self.ever_sent.is_empty() => {
                let picks = self.ever_sent[call % self.ever_sent.len()].clone();
                for pick in &picks {
                    let _ = self.apply(pick);
                }
            }
            Step::Stray { .. } => {}
            Step::Wait { millis } => self.now = self.now + Duration::from_millis(millis),
            Step::Kill { lost_notes } => {
                let unsure = self.journal.len() - self.durable;
                self.journal
                    .truncate(self.journal.len() - lost_notes % (unsure + 1));
                self.durable = self.journal.len();
                self.plan = Plan::default();
                self.journal
                    .iter()
                    .cloned()
                    .for_each(|note| self.plan.replay(note));
                self.taken = 0;
                self.calls.clear();
            }
        }
    }

    /// Goes on without faults until everything is finished.
    fn finish(&mut self) {
        for _ in 0..1_000 {
            if self.taken == self.adds && self.calls.is_empty() {
                return;
            }
            self.take(7);
            self.call(0, 0, true);
            self.now = self.now + Duration::from_millis(5);
        }
        panic!("the import never ends: {self:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn every_add_is_stored_exactly_once_whatever_is_killed_or_lost_when(
        adds in 1..40u64,
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let mut world = World::new(adds);
        for step in &steps {
            world.step(step);
        }
        world.finish();
        prop_assert_eq!(world.plan.frontier(), adds);
        let stored: Vec<u64> = world.stored.iter().map(|(add, _)| *add).collect();
        prop_assert_eq!(stored, (0..adds).collect::<Vec<_>>());
    }
}

#[test]
fn the_next_attempt_is_later_than_the_one_before_even_when_the_clock_steps_back() {
    let mut plan = Plan::default();
    let times =
        [1_000, 400].map(
            |now| match plan.begin(slice::from_ref(&(0..5)), Micros::new(now)) {
                Note::Send {
                    generation_time,
                    attempt,
                    ..
                } => (attempt, generation_time),
                note => panic!("{note:?}"),
            },
        );
    assert_eq!(times, [(1, 1_000), (2, 1_001)]);
}
