//! What the topic of events does on its own: transactions end, partitions are added.
//!
//! Fault model. A partition is registered from a moment that nobody was granted yet, and made when
//! that has come (R12). A transaction ends either way, after any time.

use super::{
    bug::Bug,
    world::{MEMBERS, Sim, World, log::TransactionEnd},
};

const MOST_PARTITIONS: usize = 5;

impl World {
    /// Ends the open transaction of a partition, if it has one.
    pub(super) fn end_a_transaction(&mut self) {
        let open = |state: &super::world::log::Partition| !state.transaction.is_empty();
        let Some(index) = self.events_topic.partitions.iter().position(open) else {
            return;
        };
        let end = if self.rng.chance(2) {
            TransactionEnd::Commit
        } else {
            TransactionEnd::Abort
        };
        let partition = u32::try_from(index).expect("few partitions");
        let gone = self.events_topic.partitions[index].end_transaction(end);
        self.note(&format!("a transaction of {partition} ends: {end:?}"));
        for offset in gone {
            self.forget_append(partition, offset);
        }
    }
}

/// Registers a partition, or makes one that was registered.
pub(super) fn add_partitions(sim: &Sim) {
    let mut guard = sim.lock();
    let world = &mut *guard;
    let known = world.events_topic.partitions.len();
    let id = u32::try_from(known).expect("few partitions");
    let adds = world.strikes(|faults| faults.partition_added);
    match world.control.coming {
        Some(from) if world.now < from => {}
        Some(from) => {
            world.control.coming = None;
            let owner = world.rng.index(MEMBERS);
            world.note(&format!("partition {id} is made"));
            world.events_topic.add(from, owner);
            sim.board.register([(id, from)]);
        }
        None if known < MOST_PARTITIONS && adds => {
            let from = world.control.next_change();
            world.note(&format!("partition {id} is registered from {from}"));
            if world.bug == Some(Bug::PartitionNotRegistered) {
                let owner = world.rng.index(MEMBERS);
                world.events_topic.add(world.now, owner);
                return;
            }
            world.control.coming = Some(from);
            sim.board.register([(id, from)]);
        }
        None => {}
    }
}
