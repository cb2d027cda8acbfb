//! The stores on a real Cassandra. A test has a keyspace for itself or with others that run at the
//! same time, each with a dataset or counters of its own, and the last one drops it.

use crate::fixtures::{SLICE, checkpoint, counter, everything, row, scan, window};
use quipu_adapters::{
    cassandra::{
        Cassandra, CassandraDataset, CassandraEventStore, CassandraRollupStore, CassandraSettings,
        KeyspaceSetup,
    },
    clock::Clock,
    embedded::Dataset,
    ports::{EventStore, RollupStore, StoreError},
};
use quipu_core::slice::{SliceId, SliceLayout, Slicing};
use scylla::client::session_builder::SessionBuilder;
use std::{
    ops::ControlFlow,
    panic::resume_unwind,
    process,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

/// Where the tests find Cassandra.
fn address() -> String {
    std::env::var("QUIPU_TEST_CASSANDRA").unwrap_or_else(|_| "127.0.0.1:19042".to_owned())
}

fn number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A keyspace that is dropped with its last user.
#[derive(Debug)]
pub(crate) struct Keyspace {
    name: String,
}

fn settings(keyspace: &str) -> CassandraSettings {
    CassandraSettings {
        contact_points: vec![address()],
        keyspace: keyspace.to_owned(),
        request_timeout: Duration::from_secs(5),
        catalogue_ttl: Duration::from_millis(500),
        ..CassandraSettings::default()
    }
}

/// Connections belong to a runtime, and each test has its own.
fn on_a_runtime_of_its_own<T: Send>(work: impl Future<Output = T> + Send) -> T {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(work)
    };
    thread::scope(|scope| {
        scope
            .spawn(run)
            .join()
            .unwrap_or_else(|panic| resume_unwind(panic))
    })
}

impl Keyspace {
    /// The keyspace that tests share while any of them runs.
    fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Keyspace>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(keyspace) = shared.upgrade() {
            return keyspace;
        }
        let keyspace = Arc::new(Self::make());
        *shared = Arc::downgrade(&keyspace);
        keyspace
    }

    /// A keyspace for one test alone.
    pub(crate) fn make() -> Self {
        let name = format!("quipu_test_{}_{}", process::id(), number());
        let settings = settings(&name);
        on_a_runtime_of_its_own(async move {
            let connected = Cassandra::connect(settings, Clock::system()).await;
            let cassandra = connected.unwrap_or_else(|error| {
                panic!("{error}: start the stack: scripts/stack up");
            });
            cassandra
                .setup_tables(KeyspaceSetup::Create)
                .await
                .expect("the tables are made");
        });
        Self { name }
    }

    /// Runs a statement as an operator would, with the keyspace in the place of `{ks}`.
    pub(crate) async fn run(&self, cql: &str) {
        let session = SessionBuilder::new().known_node(address()).build().await;
        let cql = cql.replace("{ks}", &self.name);
        let ran = session
            .expect("it answered before")
            .query_unpaged(cql, ())
            .await;
        ran.expect("the statement is valid");
    }

    pub(crate) async fn connect(&self) -> Cassandra {
        Cassandra::connect(settings(&self.name), Clock::system())
            .await
            .expect("it answered before")
    }
}

impl Drop for Keyspace {
    fn drop(&mut self) {
        let drop = format!("DROP KEYSPACE IF EXISTS {}", self.name);
        on_a_runtime_of_its_own(async {
            let session = SessionBuilder::new().known_node(address()).build().await;
            let dropped = match &session {
                Ok(session) => session.query_unpaged(drop, ()).await.map(|_| ()),
                Err(error) => return eprintln!("could not drop a keyspace: {error}"),
            };
            if let Err(error) = dropped {
                eprintln!("could not drop a keyspace: {error}");
            }
        });
    }
}

async fn open_events(
    bucket_seconds: u64,
    event_buckets: u16,
) -> (CassandraEventStore, Arc<Keyspace>) {
    let keyspace = Keyspace::shared();
    let shape = Dataset {
        slicing: Slicing::new(Duration::from_secs(10)).expect("a valid length"),
        layout: SliceLayout::new(Duration::from_secs(bucket_seconds), event_buckets)
            .expect("a valid layout"),
        ..Dataset::default()
    };
    let name = format!("d{}", number());
    let dataset = CassandraDataset { name, shape };
    let store = keyspace.connect().await.events(dataset).await;
    (store.expect("the store opens"), keyspace)
}

/// One partition for each counter of a slice.
pub(crate) async fn events() -> (CassandraEventStore, Arc<Keyspace>) {
    open_events(10, 1).await
}

/// Buckets that do not begin where slices do, and several event buckets in each.
pub(crate) async fn events_in_event_buckets() -> (CassandraEventStore, Arc<Keyspace>) {
    open_events(3, 4).await
}

/// A keyspace of its own, since the tests use the same counters.
pub(crate) async fn rollups() -> (CassandraRollupStore, Arc<Keyspace>) {
    let keyspace = Arc::new(Keyspace::make());
    let store = keyspace.connect().await.rollups().await;
    (store.expect("the store opens"), keyspace)
}

#[tokio::test]
async fn a_scan_over_a_dropped_slice_is_told_when_its_base_is_not_the_newest() {
    let (events, keyspace) = events().await;
    let cassandra = keyspace.connect().await;
    let rollups = cassandra.rollups().await.expect("the store opens");
    events.prepare(everything()).await.expect("prepared");
    let name = format!("dropped{}", number());
    let rows = [row(&name, 5, "t", 1), row(&name, SLICE, "t", 2)];
    events.write(&rows).await.expect("written");
    let newest = checkpoint(0, 1, SLICE - 1);
    let put = rollups.put(vec![(counter(&name), newest)]).await;
    put.expect("rolled up past the slice");
    events.drop_slice(SliceId(0)).await.expect("dropped");
    let stale = events
        .scan(&counter(&name), window(0, SLICE), &mut |_| {
            ControlFlow::Continue(())
        })
        .await;
    assert!(
        matches!(stale, Err(StoreError::Unavailable(_))),
        "{stale:?}"
    );
    let [_, later] = rows.map(|row| row.event);
    assert_eq!(
        scan(&events, &name, window(SLICE - 1, SLICE)).await,
        [later]
    );
    // A counter that had nothing there may start wherever it is.
    let other = format!("other{}", number());
    assert_eq!(scan(&events, &other, window(0, SLICE)).await, []);
}

#[tokio::test]
async fn two_processes_make_the_same_slices_ready() {
    let keyspace = Keyspace::make();
    let open = async || {
        let cassandra = keyspace.connect().await;
        let dataset = CassandraDataset::default();
        cassandra.events(dataset).await.expect("the store opens")
    };
    let (here, there) = (open().await, open().await);
    let until_ready = async |store: &CassandraEventStore| {
        loop {
            match store.prepare(everything()).await {
                Ok(()) => return,
                Err(StoreError::SliceNotReady(_) | StoreError::Unavailable(_)) => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
    };
    tokio::join!(until_ready(&here), until_ready(&there));
    here.write(&[row("a", 1, "t", 1)]).await.expect("written");
    there
        .write(&[row("a", 1, "t", 1), row("a", 2, "t", 1)])
        .await
        .expect("written");
    assert_eq!(scan(&here, "a", everything()).await.len(), 2);
    assert_eq!(
        here.slices().await.expect("listed"),
        there.slices().await.expect("listed")
    );
}

#[tokio::test]
async fn the_sizes_of_slices_are_told_of_those_that_are_ready() {
    let (events, _keyspace) = events().await;
    events.prepare(window(-1, SLICE)).await.expect("prepared");
    events.drop_slice(SliceId(-1)).await.expect("dropped");
    let sizes = events.slice_sizes().await.expect("every node answers");
    let slices: Vec<SliceId> = sizes.into_keys().collect();
    assert_eq!(slices, [SliceId(0), SliceId(1)]);
}
