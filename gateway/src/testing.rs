//! A small world round the gateway: the stores in memory, and doubles of the log, the cache and the
//! control plane that stall and fail when told to.

pub(crate) mod best_effort;

use crate::{Access, Gateway, Ports, Probes, Served, Settings, authenticated, router};
use axum::Router;
use best_effort::Breakable;
use quipu_adapters::{
    clock::{Clock, ManualClock},
    embedded::EmbeddedBestEffort,
    memory::{MemoryEventStore, MemoryRollupStore},
    ports::{
        Appended, Body, Cache, ChangeRequest, Committed, ControlError, ControlPlane, EventStore,
        LogError, NamespaceRecord, NamespaceVersion, NewRecord, Producer, StoreError, Topic,
    },
    watermarks::WatermarkBoard,
};
use quipu_core::{
    checkpoint::Checkpoint,
    event::{CounterKey, EventRow, LogPosition, NamespaceId, StoredEvent},
    name::{CounterName, Namespace},
    policy::{Incarnation, NamespaceHistory, PolicyBook},
    slice::Slicing,
    time::Micros,
    watermark::Watermarks,
    window::Window,
};
use quipu_schemas::{
    event::{self, CheckedEvent},
    namespace::{Author, NamespaceDocument},
    signal::{self, CheckedSignal},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::{oneshot, watch};

/// 2026-01-31T12:00:00Z.
pub(crate) const START: Micros = Micros::new(1_769_860_800_000_000);
pub(crate) const NS: &str = "flights";

pub(crate) type TestGateway = Gateway<World, MemoryEventStore, MemoryRollupStore, World, World>;

pub(crate) type TestServed = Served<World, MemoryEventStore, MemoryRollupStore, World, World>;

/// The gateway's surroundings. Clones are one world.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) clock: Clock,
    pub(crate) hands: ManualClock,
    pub(crate) board: WatermarkBoard,
    pub(crate) policies: Arc<watch::Sender<Arc<PolicyBook>>>,
    pub(crate) events: MemoryEventStore,
    pub(crate) rollups: MemoryRollupStore,
    pub(crate) best_effort: Arc<EmbeddedBestEffort>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    appended: Vec<(Topic, NewRecord)>,
    stall: Duration,
    down: bool,
    held: Option<oneshot::Receiver<()>>,
    has_stores: bool,
    cached: BTreeMap<CounterKey, Checkpoint>,
    documents: BTreeMap<String, NamespaceDocument>,
}

impl World {
    /// A world with one namespace, created an hour before [`START`], whose log is read to the end.
    pub(crate) fn new() -> Self {
        Self::named(NS)
    }

    /// The same, with a namespace of another name.
    pub(crate) fn named(name: &str) -> Self {
        let (clock, hands) = Clock::manual(START);
        let board = WatermarkBoard::new(Watermarks::new([(0, START)]));
        let document = NamespaceDocument::with_defaults(name);
        let created = START - Duration::from_hours(1);
        let life = Incarnation::new(NamespaceId(1), created, document.limits());
        let history = NamespaceHistory::new("quipu-events", document.rollup_settings(), life);
        let book = PolicyBook::new([(Namespace::new(name).unwrap(), history)], Micros::MAX);
        let policies = Arc::new(watch::Sender::new(Arc::new(book)));
        let state = State {
            documents: BTreeMap::from([(name.to_owned(), document)]),
            ..State::default()
        };
        Self {
            best_effort: Arc::new(EmbeddedBestEffort::new(1 << 20, clock.clone())),
            clock,
            hands,
            board,
            policies,
            events: MemoryEventStore::new(slicing()),
            rollups: MemoryRollupStore::default(),
            state: Arc::new(Mutex::new(state)),
        }
    }

    pub(crate) fn gateway(&self) -> Arc<TestGateway> {
        let (log, cache, control) = (self.clone(), self.clone(), self.clone());
        let (events, rollups) = (self.events.clone(), self.rollups.clone());
        let best_effort = Arc::new(Breakable(self.clone()));
        let ports = Ports {
            log,
            events,
            rollups,
            cache,
            best_effort,
            control,
        };
        let settings = Settings::default();
        let (gateway, publish) =
            Gateway::new(ports, self.board.clone(), self.clock.clone(), settings);
        tokio::spawn(publish);
        Arc::new(gateway)
    }

    pub(crate) fn served(&self) -> Arc<TestServed> {
        Arc::new(Served::alone(self.gateway()))
    }

    pub(crate) fn router(&self) -> Router {
        self.router_for(Access::Anyone)
    }

    pub(crate) fn router_for(&self, access: Access) -> Router {
        let probes = Probes {
            ready: Arc::new(|| Ok(())),
            metrics: Arc::new(|| "quipu_up 1\n".to_owned()),
        };
        authenticated(router(self.served(), probes), access)
    }

    /// Lets time pass on the clock, and the watermark follow it.
    pub(crate) fn pass(&self, by: Duration) {
        self.hands.advance(by);
        let frontier = Committed {
            next_offset: 0,
            effective_time: self.clock.now(),
        };
        self.board.publish(0, frontier);
    }

    /// Makes the log take this long to stamp.
    pub(crate) fn stall(&self, by: Duration) {
        self.state.lock().unwrap().stall = by;
    }

    /// Makes the next append of events wait until what is returned is dropped.
    pub(crate) fn hold_next_append(&self) -> oneshot::Sender<()> {
        let (release, held) = oneshot::channel();
        self.state.lock().unwrap().held = Some(held);
        release
    }

    /// Waits until an append waits.
    pub(crate) async fn append_is_held(&self) {
        while self.state.lock().unwrap().held.is_some() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Lets documents say where data lies.
    pub(crate) fn allow_persistence(&self) {
        self.state.lock().unwrap().has_stores = true;
    }

    /// Makes the log and the cache unavailable.
    pub(crate) fn go_down(&self) {
        self.state.lock().unwrap().down = true;
    }

    /// Drops the slice that begins at [`START`].
    pub(crate) async fn drop_slice(&self) {
        self.events
            .drop_slice(slicing().slice_of(START))
            .await
            .unwrap();
    }

    pub(crate) fn cached(&self, name: &str) -> Option<Checkpoint> {
        self.state
            .lock()
            .unwrap()
            .cached
            .get(&counter(name))
            .copied()
    }

    /// Stores every appended event, as ingest would.
    pub(crate) async fn ingest(&self) {
        let row = |(offset, event): (u64, CheckedEvent)| EventRow {
            counter: counter(event.counter.as_str()),
            event: StoredEvent {
                key: event.key,
                mutation: event.mutation,
                source: LogPosition {
                    effective_time: START,
                    partition: 0,
                    offset,
                },
            },
        };
        let rows: Vec<_> = (0..).zip(self.appended_events()).map(row).collect();
        let hour = Window {
            after: START.pred(),
            through: START + Duration::from_mins(30),
        };
        self.events.prepare(hour).await.unwrap();
        self.events.write(&rows).await.unwrap();
    }

    /// Every event that was appended.
    pub(crate) fn appended_events(&self) -> Vec<CheckedEvent> {
        self.values(Topic::Events)
            .iter()
            .map(|value| event::decode(value).unwrap())
            .collect()
    }

    /// Every signal that was appended, once the background had its turn.
    pub(crate) async fn signals(&self) -> Vec<CheckedSignal> {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        self.values(Topic::Signals)
            .iter()
            .map(|value| signal::decode(value).unwrap())
            .collect()
    }

    fn values(&self, wanted: Topic) -> Vec<bytes::Bytes> {
        let state = self.state.lock().unwrap();
        let of_topic = state.appended.iter().filter(|(topic, _)| *topic == wanted);
        of_topic
            .map(|(_, record)| match &record.body {
                Body::Data { value, .. } => value.clone(),
                Body::Tick => unreachable!("the gateway appends no ticks"),
            })
            .collect()
    }

    fn up(&self) -> Result<(), StoreError> {
        if self.state.lock().unwrap().down {
            Err(StoreError::Unavailable("the test took it down".to_owned()))
        } else {
            Ok(())
        }
    }
}

fn slicing() -> Slicing {
    Slicing::new(Duration::from_hours(1)).unwrap()
}

pub(crate) fn counter(name: &str) -> CounterKey {
    let name = CounterName::new(name).unwrap();
    CounterKey {
        namespace: NamespaceId(1),
        name,
    }
}

impl Producer for World {
    fn partitions(&self, _: Topic) -> u32 {
        4
    }

    async fn append(
        &self,
        topic: Topic,
        records: Vec<NewRecord>,
    ) -> Result<Vec<Appended>, LogError> {
        self.up()
            .map_err(|error| LogError::Unavailable(error.to_string()))?;
        let held = match topic {
            Topic::Events => self.state.lock().unwrap().held.take(),
            _ => None,
        };
        if let Some(held) = held {
            drop(held.await);
        }
        let mut state = self.state.lock().unwrap();
        let append_time = self.clock.now() + state.stall;
        let mut appended = Vec::new();
        for record in records {
            let (partition, offset) = (record.partition, state.appended.len() as u64);
            appended.push(Appended {
                partition,
                offset,
                append_time,
            });
            state.appended.push((topic, record));
        }
        Ok(appended)
    }
}

impl Cache for World {
    async fn get(&self, counter: &CounterKey) -> Result<Option<Checkpoint>, StoreError> {
        self.up()?;
        Ok(self.state.lock().unwrap().cached.get(counter).copied())
    }

    async fn set_if_newer(
        &self,
        checkpoints: Vec<(CounterKey, Checkpoint)>,
    ) -> Result<(), StoreError> {
        self.up()?;
        self.state.lock().unwrap().cached.extend(checkpoints);
        Ok(())
    }
}

impl ControlPlane for World {
    fn policies(&self) -> watch::Receiver<Arc<PolicyBook>> {
        self.policies.subscribe()
    }

    async fn apply(
        &self,
        document: NamespaceDocument,
        _: ChangeRequest,
    ) -> Result<NamespaceRecord, ControlError> {
        let has_stores = self.state.lock().unwrap().has_stores;
        if !document.persistence.is_empty() && !has_stores {
            return Err(ControlError::Refused(
                "this server has one store".to_owned(),
            ));
        }
        let name = document.namespace.clone();
        self.state
            .lock()
            .unwrap()
            .documents
            .insert(name, document.clone());
        Ok(NamespaceRecord {
            document,
            version: 1,
            effective_from: self.clock.now(),
        })
    }

    async fn delete(&self, name: &Namespace, _: ChangeRequest) -> Result<(), ControlError> {
        let removed = self.state.lock().unwrap().documents.remove(name.as_str());
        removed
            .map(drop)
            .ok_or_else(|| ControlError::NotFound(name.clone()))
    }

    async fn show(&self, name: &Namespace) -> Result<NamespaceRecord, ControlError> {
        let document = self
            .state
            .lock()
            .unwrap()
            .documents
            .get(name.as_str())
            .cloned();
        let document = document.ok_or_else(|| ControlError::NotFound(name.clone()))?;
        Ok(NamespaceRecord {
            document,
            version: 1,
            effective_from: START,
        })
    }

    async fn history(
        &self,
        name: &Namespace,
        _: Option<u64>,
    ) -> Result<Vec<NamespaceVersion>, ControlError> {
        let record = self.show(name).await?;
        Ok(vec![NamespaceVersion {
            version: record.version,
            id: NamespaceId(1),
            effective_from: record.effective_from,
            changed_at: None,
            author: Author::default(),
            document: record.document,
            deleted: false,
        }])
    }

    async fn list(&self) -> Result<Vec<NamespaceRecord>, ControlError> {
        let documents = self.state.lock().unwrap().documents.clone();
        let record = |document| NamespaceRecord {
            document,
            version: 1,
            effective_from: START,
        };
        Ok(documents.into_values().map(record).collect())
    }
}
