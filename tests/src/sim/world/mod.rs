//! The simulated world: everything outside the processes. Each part states its fault model.

pub(super) mod control;
pub(super) mod event_store;
pub(super) mod log;
pub(super) mod rollup_store;

use super::{bug::Bug, faults::Faults, oracle::Oracle, plan::Plan, rng::Rng, trace::Trace};
use control::Control;
use event_store::EventStoreState;
use log::TopicState;
use quipu_adapters::watermarks::WatermarkBoard;
use quipu_core::{time::Micros, watermark::Watermarks};
use rollup_store::RollupState;
use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

/// Members of each consumer group.
pub(super) const MEMBERS: usize = 2;
/// When the simulation begins: 2026-01-01T00:00:00Z.
pub(super) const START: Micros = Micros::new(1_767_225_600_000_000);

/// The whole state.
#[derive(Debug)]
pub(super) struct World {
    /// The one source of chance.
    pub rng: Rng,
    /// True time.
    pub now: Micros,
    /// Steps taken.
    pub step: u64,
    /// How hostile it is now.
    pub faults: Faults,
    /// A planted bug.
    pub bug: Option<Bug>,
    /// The events topic.
    pub events_topic: TopicState,
    /// The signals topic.
    pub signals_topic: TopicState,
    /// The event store.
    pub events: EventStoreState,
    /// The rollup store and the cache.
    pub rollups: RollupState,
    /// The control plane.
    pub control: Control,
    /// What ought to be.
    pub oracle: Oracle,
    /// What happened.
    pub trace: Trace,
}

/// A handle of the world.
#[derive(Clone, Debug)]
pub(super) struct Sim {
    world: Arc<Mutex<World>>,
    /// The published watermarks.
    pub board: WatermarkBoard,
}

impl Sim {
    /// The world of a schedule.
    pub(super) fn new(plan: &Plan) -> Self {
        let mut rng = Rng::new(plan.seed);
        let faults = plan.faults(&mut rng);
        let partitions = 1 + rng.index(3);
        let signal_partitions = 1 + rng.index(2);
        let control = Control::new(&mut rng, START);
        let watermarks = (0..).zip(0..partitions).map(|(id, _)| (id, START));
        let board = WatermarkBoard::new(Watermarks::new(watermarks));
        let world = World {
            rng,
            now: START,
            step: 0,
            faults,
            bug: plan.bug,
            events_topic: TopicState::new(partitions, MEMBERS, START),
            signals_topic: TopicState::new(signal_partitions, MEMBERS, Micros::MIN),
            events: EventStoreState::new(),
            rollups: RollupState::default(),
            control,
            oracle: Oracle::default(),
            trace: Trace::new(),
        };
        Self {
            world: Arc::new(Mutex::new(world)),
            board,
        }
    }

    /// The world, for a moment; never held over an await.
    pub(super) fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets others run before going on.
    pub(super) async fn turn(&self) {
        let step = self.lock().step;
        Turn {
            sim: self,
            after: step,
        }
        .await;
    }

    /// Lets others run, sometimes, and sometimes for long.
    pub(super) async fn pause(&self) {
        let after = {
            let mut world = self.lock();
            let one_in = world.faults.pause;
            if !world.rng.chance(one_in) {
                return;
            }
            let long = world.rng.chance(10);
            world.step
                + if long {
                    world.rng.below(60)
                } else {
                    world.rng.below(6)
                }
        };
        Turn { sim: self, after }.await;
    }

    /// Notes what happened.
    pub(super) fn note(&self, line: impl FnOnce() -> String) {
        self.lock().note(&line());
    }
}

impl World {
    /// Notes what happened.
    pub(super) fn note(&mut self, line: &str) {
        let (step, now) = (self.step, self.now.get() - START.get());
        self.trace.note(&format!("{step} {now} {line}"));
    }

    /// Whether a fault that comes once in so many times comes now.
    pub(super) fn strikes(&mut self, rate: impl Fn(&Faults) -> u64) -> bool {
        let one_in = rate(&self.faults);
        self.rng.chance(one_in)
    }
}

struct Turn<'a> {
    sim: &'a Sim,
    after: u64,
}

impl Future for Turn<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.sim.lock().step > self.after {
            return Poll::Ready(());
        }
        // Processes are polled by the schedule, but a set of futures polls only those awake.
        context.waker().wake_by_ref();
        Poll::Pending
    }
}
