//! A member of a consumer group of the simulated log.

use super::{
    bug::Bug,
    port::Port,
    world::{
        Sim, World,
        log::{Notice, TopicState},
    },
};
use quipu_adapters::ports::{Assignment, Committed, Polled, Stamp};
use std::collections::BTreeMap;

/// Which topic a group reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// Ingests read the events topic.
    Ingest,
    /// Workers read the signals topic.
    Rollup,
}

#[derive(Debug)]
struct Position {
    next: u64,
    paused: bool,
    told_end: bool,
}

/// The consumer of one process.
#[derive(Debug)]
pub(super) struct Consumer {
    port: Port,
    group: Group,
    member: usize,
    positions: BTreeMap<u32, Position>,
    letting_go: Option<(u32, Option<usize>)>,
}

impl Group {
    /// The topic of the group.
    pub(super) fn topic(self, world: &mut World) -> &mut TopicState {
        match self {
            Self::Ingest => &mut world.events_topic,
            Self::Rollup => &mut world.signals_topic,
        }
    }
}

impl Consumer {
    /// A member that owns nothing yet.
    pub(super) fn new(port: &Port, group: Group, member: usize) -> Self {
        Self {
            port: port.clone(),
            group,
            member,
            positions: BTreeMap::new(),
            letting_go: None,
        }
    }

    /// What is to be known next, if anything.
    pub(super) fn poll(&mut self) -> Option<Polled> {
        let sim: Sim = self.port.sim.clone();
        let mut world = sim.lock();
        self.hand_over(&mut world);
        // A member learns late what happened to it; until then it is a zombie.
        let listens = world.faults.rebalance == 0 || world.rng.chance(6);
        if listens && let Some(notice) = self.group.topic(&mut world).inbox[self.member].pop_front()
        {
            return self.heed(&mut world, notice);
        }
        let readable: Vec<u32> = self
            .positions
            .iter()
            .filter(|(_, it)| !it.paused)
            .map(|(id, _)| *id)
            .collect();
        if readable.is_empty() {
            return None;
        }
        let partition = readable[world.rng.index(readable.len())];
        let limit = 1 + world.rng.index(8);
        let position = self.positions.get_mut(&partition).expect("it is readable");
        let reads_uncommitted = world.bug == Some(Bug::ReadsUncommitted);
        let state = self.group.topic(&mut world).partition(partition);
        let through = if reads_uncommitted {
            state.entries.len()
        } else {
            state.stable()
        };
        let records = state.read(position.next, limit, through);
        if let Some(last) = records.last() {
            position.next = last.offset + 1;
            position.told_end = false;
            return Some(Polled::Records { partition, records });
        }
        let first_time = !std::mem::replace(&mut position.told_end, true);
        first_time.then_some(Polled::End { partition })
    }

    fn hand_over(&mut self, world: &mut World) {
        if let Some((partition, Some(next))) = self.letting_go.take() {
            let topic = self.group.topic(world);
            if topic.owners[partition as usize] == Some(self.member) {
                topic.assign(partition, next);
            }
        }
    }

    fn heed(&mut self, world: &mut World, notice: Notice) -> Option<Polled> {
        world.note(&format!(
            "{:?} {} heeds {notice:?}",
            self.group, self.member
        ));
        match notice {
            Notice::Assign(partition) => {
                let bug = world.bug;
                let is_lost =
                    self.group == Group::Ingest && world.strikes(|faults| faults.metadata_lost);
                let state = self.group.topic(world).partition(partition);
                let mut start = if is_lost {
                    state.start_without_metadata(bug)
                } else {
                    state.committed
                };
                let before = state.index(start.next_offset).checked_sub(1);
                if let (Some(Bug::EffectiveTimeLost), Some(before)) = (bug, before)
                    && let Stamp::Log(raw) = state.entries[before].record.stamp
                {
                    start.effective_time = raw;
                }
                let position = Position {
                    next: start.next_offset,
                    paused: false,
                    told_end: false,
                };
                self.positions.insert(partition, position);
                Some(Polled::Assigned(vec![Assignment { partition, start }]))
            }
            Notice::Revoke(partition, next) => {
                self.positions.remove(&partition)?;
                self.letting_go = Some((partition, next));
                Some(Polled::Revoked(vec![partition]))
            }
        }
    }

    /// Commits frontiers. Even a zombie's commit is kept.
    pub(super) async fn commit(&mut self, frontiers: &[(u32, Committed)]) {
        for (partition, frontier) in frontiers {
            self.port.sim.pause().await;
            let mut world = self.port.sim.lock();
            let (group, member) = (self.group, self.member);
            world.note(&format!(
                "{group:?} {member} commits {partition}/{}",
                frontier.next_offset
            ));
            let before = group.topic(&mut world).partition(*partition).committed;
            match group {
                Group::Ingest => world.check_frontier(*partition, *frontier),
                Group::Rollup => {
                    world.check_signal_commit(*partition, before.next_offset, frontier.next_offset);
                }
            }
            group.topic(&mut world).partition(*partition).committed = *frontier;
        }
        self.port.sim.pause().await;
    }

    /// A planted bug: commits without asking whether anything is finished.
    pub(super) fn commit_blindly(&mut self, partition: u32, frontier: Committed) {
        let mut world = self.port.sim.lock();
        let before = self.group.topic(&mut world).partition(partition).committed;
        world.check_signal_commit(partition, before.next_offset, frontier.next_offset);
        self.group.topic(&mut world).partition(partition).committed = frontier;
    }

    /// Reads a partition from an offset on.
    pub(super) fn seek(&mut self, partition: u32, next: u64) {
        if let Some(position) = self.positions.get_mut(&partition) {
            position.next = next;
            position.told_end = false;
        }
    }

    /// Stops or goes on reading a partition.
    pub(super) fn pause(&mut self, partition: u32) {
        if let Some(position) = self.positions.get_mut(&partition) {
            position.paused = true;
        }
    }

    /// Goes on reading a partition.
    pub(super) fn resume(&mut self, partition: u32) {
        if let Some(position) = self.positions.get_mut(&partition) {
            position.paused = false;
        }
    }
}
