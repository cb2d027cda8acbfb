//! An event store in memory.
//!
//! Fault model: a crash ([`MemoryEventStore::crash`]) loses every write since the last sync, and
//! the next sync says so (R11). It never loses a part of them, never reorders, never fails a call,
//! and a write is seen by reads at once.

use super::lock;
use crate::ports::{Durability, EventStore, Extent, Lookup, SliceInfo, SliceState, StoreError};
use quipu_core::{
    event::{CounterKey, EventKey, EventRow, StoredEvent},
    slice::{SliceId, Slicing},
    window::Window,
};
use std::{
    collections::BTreeMap,
    mem,
    ops::{Bound, ControlFlow},
    sync::{Arc, Mutex},
};

/// An event store for tests. Clones are one store.
#[derive(Clone, Debug)]
pub struct MemoryEventStore {
    slicing: Slicing,
    state: Arc<Mutex<State>>,
}

type Rows = BTreeMap<CounterKey, BTreeMap<EventKey, StoredEvent>>;

#[derive(Debug, Default)]
struct State {
    /// Slices that exist with their rows; `None` once dropped.
    slices: BTreeMap<SliceId, Option<Rows>>,
    /// What each write since the last sync replaced, to take it back.
    unsynced: Vec<(EventRow, Option<StoredEvent>)>,
    lost: bool,
}

impl MemoryEventStore {
    /// An empty store without slices.
    pub fn new(slicing: Slicing) -> Self {
        Self {
            slicing,
            state: Arc::default(),
        }
    }

    /// Loses every write since the last sync.
    pub fn crash(&self) {
        let mut state = lock(&self.state);
        for (row, before) in mem::take(&mut state.unsynced).into_iter().rev() {
            let id = self.slicing.slice_of(row.event.key.event_time);
            let Some(Some(rows)) = state.slices.get_mut(&id) else {
                continue;
            };
            let events = rows.entry(row.counter.clone()).or_default();
            match before {
                Some(event) => events.insert(row.event.key, event),
                None => events.remove(&row.event.key),
            };
            if events.is_empty() {
                rows.remove(&row.counter);
            }
        }
        state.lost = true;
    }
}

impl EventStore for MemoryEventStore {
    async fn write(&self, rows: &[EventRow]) -> Result<(), StoreError> {
        let mut state = lock(&self.state);
        let State {
            slices, unsynced, ..
        } = &mut *state;
        let slice_of = |row: &EventRow| self.slicing.slice_of(row.event.key.event_time);
        if let Some(id) = rows
            .iter()
            .map(slice_of)
            .find(|id| !slices.contains_key(id))
        {
            return Err(StoreError::SliceNotReady(id));
        }
        for row in rows {
            let Some(Some(stored)) = slices.get_mut(&slice_of(row)) else {
                continue;
            };
            let events = stored.entry(row.counter.clone()).or_default();
            let before = events.get(&row.event.key).cloned();
            if before
                .as_ref()
                .is_none_or(|before| row.event.source < before.source)
            {
                events.insert(row.event.key.clone(), row.event.clone());
                unsynced.push((row.clone(), before));
            }
        }
        Ok(())
    }

    async fn sync(&self) -> Result<Durability, StoreError> {
        let mut state = lock(&self.state);
        state.unsynced.clear();
        let lost = mem::take(&mut state.lost);
        Ok(if lost {
            Durability::Lost
        } else {
            Durability::Durable
        })
    }

    async fn scan(
        &self,
        counter: &CounterKey,
        window: Window,
        sink: &mut (dyn FnMut(StoredEvent) -> ControlFlow<()> + Send),
    ) -> Result<(), StoreError> {
        let state = lock(&self.state);
        let events = state
            .slices
            .values()
            .flatten()
            .filter_map(|rows| rows.get(counter));
        for event in events.flat_map(BTreeMap::values) {
            if window.contains(event.key.event_time) && sink(event.clone()).is_break() {
                break;
            }
        }
        Ok(())
    }

    async fn extent(&self, window: Window) -> Result<Extent, StoreError> {
        let state = lock(&self.state);
        let mut extent = Extent::default();
        let touches = |id: &SliceId| !self.slicing.clip(window, *id).is_empty();
        for (_, rows) in state.slices.iter().filter(|(id, _)| touches(id)) {
            match rows {
                Some(_) => extent.partitions += 1,
                None => extent.has_dropped = true,
            }
        }
        Ok(extent)
    }

    async fn lookup(&self, counter: &CounterKey, key: &EventKey) -> Result<Lookup, StoreError> {
        let state = lock(&self.state);
        let Some(slice) = state.slices.get(&self.slicing.slice_of(key.event_time)) else {
            return Ok(Lookup::Absent);
        };
        let Some(rows) = slice else {
            return Ok(Lookup::Dropped);
        };
        let event = rows
            .get(counter)
            .and_then(|events| events.get(key))
            .cloned();
        Ok(event.map_or(Lookup::Absent, Lookup::Stored))
    }

    async fn slices(&self) -> Result<Vec<SliceInfo>, StoreError> {
        let info = |(id, rows): (&SliceId, &Option<Rows>)| SliceInfo {
            id: *id,
            state: if rows.is_some() {
                SliceState::Ready
            } else {
                SliceState::Dropped
            },
            last: self.slicing.last(*id),
        };
        Ok(lock(&self.state).slices.iter().map(info).collect())
    }

    async fn prepare(&self, window: Window) -> Result<(), StoreError> {
        let mut state = lock(&self.state);
        for id in self.slicing.touched(window) {
            state.slices.entry(id).or_insert_with(|| Some(Rows::new()));
        }
        Ok(())
    }

    async fn drop_slice(&self, slice: SliceId) -> Result<(), StoreError> {
        lock(&self.state).slices.insert(slice, None);
        Ok(())
    }

    async fn counters(
        &self,
        slice: SliceId,
        after: Option<&CounterKey>,
        limit: usize,
    ) -> Result<Vec<CounterKey>, StoreError> {
        let state = lock(&self.state);
        let Some(Some(rows)) = state.slices.get(&slice) else {
            return Ok(Vec::new());
        };
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let counters = rows
            .range((from, Bound::Unbounded))
            .map(|(counter, _)| counter.clone());
        Ok(counters.take(limit).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_core::{
        event::{LogPosition, Mutation, NamespaceId},
        name::{CounterName, ItemKey, Token},
        time::Micros,
    };
    use std::time::Duration;

    fn copy(offset: u64) -> EventRow {
        let event_time = Micros::new(1);
        let name = CounterName::new("a").expect("valid");
        let event_id = Token::new("t").expect("valid");
        let item_key = ItemKey::new("").expect("valid");
        EventRow {
            counter: CounterKey {
                namespace: NamespaceId(1),
                name,
            },
            event: StoredEvent {
                key: EventKey {
                    event_time,
                    event_id,
                    item_key,
                },
                mutation: Mutation::Add(1),
                source: LogPosition {
                    effective_time: event_time,
                    partition: 0,
                    offset,
                },
            },
        }
    }

    #[tokio::test]
    async fn a_crash_takes_back_what_was_not_synced_and_the_next_sync_says_so() {
        let slicing = Slicing::new(Duration::from_secs(1)).expect("valid");
        let store = MemoryEventStore::new(slicing);
        let window = Window {
            after: Micros::new(-1),
            through: Micros::new(9),
        };
        store.prepare(window).await.expect("prepared");
        let [late, early] = [copy(7), copy(3)];
        store
            .write(std::slice::from_ref(&late))
            .await
            .expect("written");
        assert_eq!(store.sync().await.expect("synced"), Durability::Durable);
        store
            .write(std::slice::from_ref(&early))
            .await
            .expect("written");
        let found = || store.lookup(&late.counter, &late.event.key);
        assert_eq!(found().await.expect("found"), Lookup::Stored(early.event));
        store.crash();
        assert_eq!(
            found().await.expect("found"),
            Lookup::Stored(late.event.clone())
        );
        assert_eq!(store.sync().await.expect("synced"), Durability::Lost);
        assert_eq!(store.sync().await.expect("synced"), Durability::Durable);
    }
}
