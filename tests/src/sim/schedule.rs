//! The one loop: picks who runs next, lets time pass, and strikes with faults.

use super::{
    client,
    consumer::Group,
    faults::LogKind,
    growth, ingest,
    plan::Plan,
    reads, worker,
    world::{MEMBERS, Sim, World, log::Notice},
};
use futures::{FutureExt, future::LocalBoxFuture, task::noop_waker_ref};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    task::Context,
    time::Duration,
};

/// What a run showed.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The first broken invariant, if any.
    pub violation: Option<String>,
    /// A hash of everything that happened.
    pub digest: u64,
    /// How many things happened.
    pub lines: u64,
    /// The last things that happened.
    pub tail: Vec<String>,
}

const QUIET_STEPS: u64 = 15_000;
const CALLS: usize = 6;

type Process = LocalBoxFuture<'static, ()>;

struct Schedule {
    sim: Sim,
    ingests: Vec<Process>,
    workers: Vec<Process>,
    calls: Vec<Process>,
}

/// Runs a schedule.
pub fn run(plan: &Plan) -> Outcome {
    let sim = Sim::new(plan);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without IO");
    let work = Schedule::new(sim.clone()).run(plan.busy_steps);
    let ended = catch_unwind(AssertUnwindSafe(|| runtime.block_on(work)));
    let mut world = sim.lock();
    if let Err(panic) = ended {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        world.violate(format!("a panic: {}", text.unwrap_or_default()));
    }
    Outcome {
        violation: world.oracle.violation.clone(),
        digest: world.trace.digest(),
        lines: world.trace.lines(),
        tail: world.trace.tail(),
    }
}

fn start(group: Group, sim: &Sim, member: usize) -> Process {
    match group {
        Group::Ingest => ingest::run(sim.clone(), member).boxed_local(),
        Group::Rollup => worker::run(sim.clone(), member).boxed_local(),
    }
}

impl Schedule {
    fn new(sim: Sim) -> Self {
        let processes = |group| {
            (0..MEMBERS)
                .map(|member| start(group, &sim, member))
                .collect()
        };
        let (ingests, workers) = (processes(Group::Ingest), processes(Group::Rollup));
        {
            let mut guard = sim.lock();
            let world = &mut *guard;
            for topic in [&mut world.events_topic, &mut world.signals_topic] {
                for partition in 0..topic.partitions.len() {
                    let owner = world.rng.index(MEMBERS);
                    topic.assign(u32::try_from(partition).expect("few partitions"), owner);
                }
            }
        }
        Self {
            sim,
            ingests,
            workers,
            calls: Vec::new(),
        }
    }

    async fn run(mut self, busy_steps: u64) {
        for _ in 0..busy_steps {
            if self.is_broken() {
                return;
            }
            self.traffic();
            self.strike();
            self.step().await;
        }
        self.calm();
        self.settle().await;
        if !self.is_broken() {
            self.shake();
        }
        self.settle().await;
    }

    /// Goes on without faults until all is quiet, and checks that all is as it ought to be.
    async fn settle(&mut self) {
        let mut is_read = false;
        for step in 0..QUIET_STEPS {
            if self.is_broken() {
                return;
            }
            self.step().await;
            if step % 50 != 0 || !self.is_quiet() {
                continue;
            }
            if is_read {
                self.sim.lock().check_quiet();
                return;
            }
            is_read = true;
            let reads = reads::read_all(&self.sim);
            self.calls.extend(reads.map(FutureExt::boxed_local));
        }
        let mut world = self.sim.lock();
        let what = world
            .unconverged()
            .unwrap_or_else(|| "something is left over".to_owned());
        let parked = world.rollups.parked_rows();
        world.violate(format!("not quiet in time, {parked} parked: {what}"));
    }

    fn is_broken(&self) -> bool {
        self.sim.lock().oracle.violation.is_some()
    }

    fn is_quiet(&self) -> bool {
        let world = self.sim.lock();
        self.calls.is_empty() && world.unconverged().is_none() && world.is_drained()
    }

    fn calm(&mut self) {
        let mut world = self.sim.lock();
        world.faults = world.faults.quiet();
        world.note("quiet");
        for partition in &mut world.events_topic.partitions {
            partition.clock_skew = 0;
        }
        for _ in 0..world.events_topic.partitions.len() {
            world.end_a_transaction();
        }
    }

    /// Both stores restart in the quiet, and then every counter is written once more.
    fn shake(&self) {
        let mut guard = self.sim.lock();
        let world = &mut *guard;
        world.note("shake");
        world.events.restart(&mut world.rng);
        world.rollups.restart(&mut world.rng, world.bug);
        client::write_every_counter(world);
    }

    fn traffic(&mut self) {
        let call = {
            let mut world = self.sim.lock();
            if world.rng.chance(12) {
                client::produce(&mut world);
            }
            world.rng.chance(25)
        };
        if !call || self.calls.len() == CALLS {
            return;
        }
        let reads = self.sim.lock().rng.chance(4);
        let call = if reads {
            reads::read_any(self.sim.clone()).boxed_local()
        } else {
            client::call(self.sim.clone()).boxed_local()
        };
        self.calls.push(call);
    }

    async fn step(&mut self) {
        growth::add_partitions(&self.sim);
        let mut passed = Duration::ZERO;
        let process = {
            let mut world = self.sim.lock();
            world.step += 1;
            if !world.rng.chance(3) {
                passed = world.rng.millis_below(60);
            }
            let now = world.now + passed;
            world.now = now;
            world.rng.index(2 * MEMBERS + self.calls.len())
        };
        tokio::time::advance(passed).await;
        let mut context = Context::from_waker(noop_waker_ref());
        if process < MEMBERS {
            let _: std::task::Poll<()> = self.ingests[process].poll_unpin(&mut context);
        } else if process < 2 * MEMBERS {
            let _: std::task::Poll<()> = self.workers[process - MEMBERS].poll_unpin(&mut context);
        } else {
            let index = process - 2 * MEMBERS;
            if self.calls[index].poll_unpin(&mut context).is_ready() {
                drop(self.calls.swap_remove(index));
            }
        }
    }

    fn strike(&mut self) {
        if self.sim.lock().strikes(|faults| faults.crash) {
            self.crash();
        }
        let mut guard = self.sim.lock();
        let world = &mut *guard;
        if world.strikes(|faults| faults.event_store_restart) {
            let lost = world.events.restart(&mut world.rng);
            world.note(&format!("the event store restarts, {lost} rows are lost"));
        }
        if world.strikes(|faults| faults.rollup_store_restart) {
            world.rollups.restart(&mut world.rng, world.bug);
            world.note("the rollup store restarts");
        }
        if world.strikes(|faults| faults.cache_loss) {
            world.rollups.cache.clear();
            world.note("the cache is lost");
        }
        if world.strikes(|faults| faults.clock_step) {
            step_clock(world);
        }
        if world.strikes(|faults| faults.policy_change) {
            let (bug, now) = (world.bug, world.now);
            let line = world.control.change(&mut world.rng, bug, now);
            world.note(&line);
        }
        if world.strikes(|faults| faults.rebalance) {
            rebalance(world);
        }
        if world.rng.chance(20) {
            world.end_a_transaction();
        }
    }

    fn crash(&mut self) {
        let (group, member) = {
            let mut world = self.sim.lock();
            let group = if world.rng.chance(2) {
                Group::Ingest
            } else {
                Group::Rollup
            };
            let (member, heir) = (world.rng.index(MEMBERS), world.rng.index(MEMBERS));
            world.note(&format!("{group:?} {member} crashes, {heir} inherits"));
            group.topic(&mut world).leave(member, heir);
            (group, member)
        };
        let process = start(group, &self.sim, member);
        match group {
            Group::Ingest => self.ingests[member] = process,
            Group::Rollup => self.workers[member] = process,
        }
    }
}

fn step_clock(world: &mut World) {
    let partition = world.rng.index(world.events_topic.partitions.len());
    let bound = world.faults.step_micros;
    let mut skew = world.rng.around(bound);
    if world.faults.log == LogKind::Embedded && !world.rng.chance(4) {
        skew /= 6;
    }
    world.note(&format!("the clock of {partition} is off by {skew}"));
    world.events_topic.partitions[partition].clock_skew = skew;
}

fn rebalance(world: &mut World) {
    let group = if world.rng.chance(2) {
        Group::Ingest
    } else {
        Group::Rollup
    };
    let leaves_a_zombie = world.rng.chance(2);
    let chance = world.rng.next_u64();
    let topic = group.topic(world);
    let partition = usize::try_from(chance % topic.partitions.len() as u64).expect("small");
    let id = u32::try_from(partition).expect("few partitions");
    let Some(owner) = topic.owners[partition] else {
        return;
    };
    if topic.moving.contains(&id) {
        return;
    }
    let next = (owner + 1) % MEMBERS;
    if leaves_a_zombie {
        topic.inbox[owner].push_back(Notice::Revoke(id, None));
        topic.assign(id, next);
    } else {
        topic.moving.insert(id);
        topic.inbox[owner].push_back(Notice::Revoke(id, Some(next)));
    }
    world.note(&format!(
        "{group:?} {id} goes from {owner} to {next}, zombie {leaves_a_zombie}"
    ));
}
