//! What a process sees of the world: the production ports over the simulated parts.

use super::{
    bug::Bug,
    world::{Sim, World, event_store::EventStoreState},
};
use quipu_adapters::{
    listing::Listing,
    ports::{
        Cache, CounterPage, Durability, EventStore, Extent, ListPosition, Lookup, Parked,
        RollupRow, RollupStore, SliceInfo, SliceState, StoreError,
    },
};
use quipu_core::{
    checkpoint::Checkpoint,
    event::{CounterKey, EventKey, EventRow, NamespaceId, StoredEvent},
    slice::SliceId,
    time::Micros,
    window::Window,
};
use std::{
    ops::ControlFlow,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// One process's connections. Clones share what the process knows of the stores' generations.
#[derive(Clone, Debug)]
pub(super) struct Port {
    /// The world.
    pub sim: Sim,
    /// All events of the counter that was scanned last, as they were at that moment.
    pub seen: Arc<Mutex<Vec<StoredEvent>>>,
    events_generation: Arc<AtomicU64>,
    rollups_generation: Arc<AtomicU64>,
}

/// What becomes of a call.
pub(super) enum Fate {
    Works,
    Fails,
    FailsApplied,
}

impl Fate {
    /// The fate of the next call.
    pub(super) fn draw(world: &mut World) -> Self {
        if world.strikes(|faults| faults.fail) {
            Self::Fails
        } else if world.strikes(|faults| faults.fail_applied) {
            Self::FailsApplied
        } else {
            Self::Works
        }
    }
}

fn away() -> StoreError {
    StoreError::Unavailable("simulated".to_owned())
}

impl Port {
    /// Connects a process that starts now.
    pub(super) fn connect(sim: &Sim) -> Self {
        let world = sim.lock();
        let (events, rollups) = (world.events.generation, world.rollups.generation);
        drop(world);
        Self {
            sim: sim.clone(),
            seen: Arc::default(),
            events_generation: Arc::new(events.into()),
            rollups_generation: Arc::new(rollups.into()),
        }
    }

    async fn write<T>(
        &self,
        effect: impl FnOnce(&mut World) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.sim.pause().await;
        let result = {
            let mut world = self.sim.lock();
            match Fate::draw(&mut world) {
                Fate::Fails => Err(away()),
                Fate::FailsApplied => effect(&mut world).and(Err(away())),
                Fate::Works => effect(&mut world),
            }
        };
        self.sim.pause().await;
        result
    }

    async fn read<T>(&self, look: impl FnOnce(&mut World) -> T) -> Result<T, StoreError> {
        self.write(|world| Ok(look(world))).await
    }

    async fn sync(
        &self,
        known: &AtomicU64,
        flush: impl FnOnce(&mut World),
        generation: impl Fn(&World) -> u64,
    ) -> Result<Durability, StoreError> {
        self.sim.pause().await;
        {
            let mut world = self.sim.lock();
            if matches!(Fate::draw(&mut world), Fate::Fails | Fate::FailsApplied) {
                return Err(away());
            }
            flush(&mut world);
        }
        self.sim.pause().await;
        let mut world = self.sim.lock();
        let now = generation(&world);
        let unchanged = known.swap(now, Ordering::SeqCst) == now;
        let durable = unchanged || world.bug == Some(Bug::NoGenerationCheck);
        world.note(&format!("sync durable={durable}"));
        Ok(if durable {
            Durability::Durable
        } else {
            Durability::Lost
        })
    }
}

impl EventStore for Port {
    async fn write(&self, rows: &[EventRow]) -> Result<(), StoreError> {
        self.write(|world| {
            let states = || rows.iter().map(|row| world.events.slice(&row.event.key));
            if let Some((id, _)) = states().find(|(_, state)| state.is_none()) {
                return Err(StoreError::SliceNotReady(id));
            }
            for row in rows {
                if world.events.slice(&row.event.key).1 == Some(SliceState::Dropped) {
                    continue;
                }
                world.check_write(row);
                world.events.write(world.bug, &row.counter, &row.event);
            }
            world.note(&format!("stored {} rows", rows.len()));
            Ok(())
        })
        .await
    }

    async fn sync(&self) -> Result<Durability, StoreError> {
        if self.sim.lock().bug == Some(Bug::NoDurableWait) {
            return Ok(Durability::Durable);
        }
        let flush = |world: &mut World| world.events.flush(world.events.sequence);
        self.sync(&self.events_generation, flush, |world| {
            world.events.generation
        })
        .await
    }

    async fn scan(
        &self,
        counter: &CounterKey,
        mut window: Window,
        sink: &mut (dyn FnMut(StoredEvent) -> ControlFlow<()> + Send),
    ) -> Result<(), StoreError> {
        let found = self
            .read(|world| {
                if world.bug == Some(Bug::InclusiveWindowStart) {
                    window.after = window.after.pred();
                }
                let bug = world.bug;
                let rows = world.events.rows.get(counter).into_iter().flatten();
                let winners =
                    rows.filter_map(|(_, copies)| EventStoreState::winner(bug, copies).cloned());
                let all: Vec<_> = winners.collect();
                let mut inside = all.clone();
                if bug == Some(Bug::NoDeduplication) {
                    inside = world.events.copies(counter);
                }
                inside.retain(|event| window.contains(event.key.event_time));
                *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = all;
                inside
            })
            .await?;
        // Whether it breaks is all the same: what was found is found.
        let _ = found.into_iter().try_for_each(sink);
        Ok(())
    }

    async fn extent(&self, window: Window) -> Result<Extent, StoreError> {
        self.read(|world| {
            let found = world.events.extent(window);
            Extent {
                has_dropped: found.has_dropped && world.bug != Some(Bug::ReadOverlooksDrops),
                ..found
            }
        })
        .await
    }

    async fn lookup(&self, counter: &CounterKey, key: &EventKey) -> Result<Lookup, StoreError> {
        self.read(|world| {
            if world.events.slice(key).1 == Some(SliceState::Dropped) {
                return Lookup::Dropped;
            }
            let copies = world
                .events
                .rows
                .get(counter)
                .and_then(|rows| rows.get(key));
            let winner = copies.and_then(|copies| EventStoreState::winner(world.bug, copies));
            winner.map_or(Lookup::Absent, |event| Lookup::Stored(event.clone()))
        })
        .await
    }

    async fn slices(&self) -> Result<Vec<SliceInfo>, StoreError> {
        self.read(|world| world.events.slices()).await
    }

    async fn prepare(&self, window: Window) -> Result<(), StoreError> {
        self.write(|world| {
            world.events.prepare(window);
            Ok(())
        })
        .await
    }

    async fn drop_slice(&self, slice: SliceId) -> Result<(), StoreError> {
        self.write(|world| {
            world.note(&format!("drop {slice:?}"));
            world.events.drop_slice(slice);
            Ok(())
        })
        .await
    }

    async fn counters(
        &self,
        slice: SliceId,
        after: Option<&CounterKey>,
        limit: usize,
    ) -> Result<Vec<CounterKey>, StoreError> {
        let all = self.read(|world| world.events.counters(slice)).await?;
        Ok(all
            .into_iter()
            .filter(|counter| after.is_none_or(|after| counter > after))
            .take(limit)
            .collect())
    }
}

impl RollupStore for Port {
    async fn load(&self, counters: &[CounterKey]) -> Result<Vec<RollupRow>, StoreError> {
        self.read(|world| {
            counters
                .iter()
                .map(|counter| world.rollups.row(counter))
                .collect()
        })
        .await
    }

    async fn counters(
        &self,
        namespace: NamespaceId,
        from: ListPosition,
        limit: usize,
    ) -> Result<CounterPage, StoreError> {
        self.read(|world| {
            // Counters lie at their number.
            let mut listing = Listing::new(namespace, from, limit);
            for (at, (counter, is_rolled_up)) in (0..).zip(world.rollups.counters()) {
                if at < from.at {
                    continue;
                }
                if listing.is_full() {
                    return listing.and_more();
                }
                listing.examine(at, counter.clone(), is_rolled_up);
            }
            listing.last()
        })
        .await
    }

    async fn put(&self, checkpoints: Vec<(CounterKey, Checkpoint)>) -> Result<(), StoreError> {
        self.write(|world| {
            for (counter, checkpoint) in &checkpoints {
                let stored = world.rollups.row(counter).checkpoint;
                if world.rollups.put(world.bug, counter, *checkpoint) {
                    world.check_not_older("store", counter, stored, *checkpoint);
                    world.check_checkpoint("store", counter, *checkpoint);
                }
            }
            Ok(())
        })
        .await
    }

    async fn note_writes(&self, writes: Vec<(CounterKey, Micros)>) -> Result<(), StoreError> {
        self.write(|world| {
            for (counter, at) in &writes {
                world.rollups.note_write(counter, *at);
            }
            Ok(())
        })
        .await
    }

    async fn park(&self, partition: u32, signals: Vec<Parked>) -> Result<(), StoreError> {
        self.write(|world| {
            world.note(&format!("park {} of {partition}", signals.len()));
            for row in &signals {
                world.rollups.park(partition, row);
            }
            Ok(())
        })
        .await
    }

    async fn parked(
        &self,
        partition: u32,
        after: Option<&CounterKey>,
        limit: usize,
    ) -> Result<Vec<Parked>, StoreError> {
        self.read(|world| {
            let rows = world.rollups.parked(partition);
            rows.filter(|row| after.is_none_or(|after| row.counter > *after))
                .take(limit)
                .collect()
        })
        .await
    }

    async fn unpark(&self, partition: u32, finished: Vec<Parked>) -> Result<(), StoreError> {
        self.write(|world| {
            world.note(&format!("unpark {} of {partition}", finished.len()));
            for row in &finished {
                world.rollups.unpark(partition, row);
            }
            Ok(())
        })
        .await
    }

    async fn sync(&self) -> Result<Durability, StoreError> {
        let flush = |world: &mut World| world.rollups.flush();
        self.sync(&self.rollups_generation, flush, |world| {
            world.rollups.generation
        })
        .await
    }
}

impl Cache for Port {
    async fn get(&self, counter: &CounterKey) -> Result<Option<Checkpoint>, StoreError> {
        self.read(|world| world.rollups.cache.get(counter).copied())
            .await
    }

    async fn set_if_newer(
        &self,
        checkpoints: Vec<(CounterKey, Checkpoint)>,
    ) -> Result<(), StoreError> {
        self.write(|world| {
            for (counter, checkpoint) in &checkpoints {
                let cached = world.rollups.cache.get(counter).copied();
                if world.rollups.cache(world.bug, counter, *checkpoint) {
                    world.check_not_older("cache", counter, cached, *checkpoint);
                    world.check_checkpoint("cache", counter, *checkpoint);
                }
            }
            Ok(())
        })
        .await
    }
}
