//! A load at a pace: written down first, then sent, whether earlier attempts are settled or not.

use crate::{
    failure::Failure,
    plan::{Generator, Planned},
    send::Sender,
};
use quipu_adapters::clock::Clock;
use std::{sync::Arc, time::Duration};
use tokio::{sync::Semaphore, task::JoinSet, time::MissedTickBehavior};

/// Attempts are made in groups, this far apart.
const PACE: Duration = Duration::from_millis(20);
/// Groups under way. When so many are, the pace waits for the oldest to be settled.
const UNDER_WAY: usize = 256;

/// How much to attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Attempts in a second.
    pub rate: u32,
    /// At least so many in all.
    pub events: u64,
}

/// Attempts until there were enough and `goes_on` says no; returns once all are settled or given
/// up.
pub(crate) async fn run(
    mut generator: Generator,
    sender: Sender,
    volume: Volume,
    goes_on: impl Fn() -> bool,
) -> Result<(), Failure> {
    let clock = Clock::system();
    let slots = Arc::new(Semaphore::new(UNDER_WAY));
    let mut pace = tokio::time::interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut under_way, mut attempted) = (JoinSet::new(), 0);
    let group = (volume.rate / 50).max(1);
    while attempted < volume.events || goes_on() {
        pace.tick().await;
        let slot = Arc::clone(&slots).acquire_owned().await;
        let slot = slot.map_err(|_| Failure::new("the load was closed"))?;
        let now = clock.now();
        let planned = (0..group).map(|_| {
            let planned = generator.next(now);
            let id = attempted;
            if matches!(planned, Planned::Event(..)) {
                attempted += 1;
            }
            (id, planned)
        });
        let planned: Vec<_> = planned.collect();
        let entries = planned.iter().filter_map(|(id, planned)| match planned {
            Planned::Event(entry, _) => Some((*id, entry)),
            Planned::Poison(..) => None,
        });
        let entries: Vec<_> = entries.collect();
        sender.pen.attempts(&entries).await?;
        sender.timeline.note(|second| second.attempted += group);
        let sending = sender.clone().settle(planned);
        under_way.spawn(async move {
            let settled = sending.await;
            drop(slot);
            settled
        });
        while let Some(settled) = under_way.try_join_next() {
            settled??;
        }
    }
    while let Some(settled) = under_way.join_next().await {
        settled??;
    }
    Ok(())
}
