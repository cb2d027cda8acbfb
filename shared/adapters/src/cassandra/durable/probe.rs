//! The probes of one node: a small write about every tenth of a second while somebody waits for
//! one, and after it the node's generation. All who wait share them.

use super::ledger::NodeGeneration;
use crate::{
    cassandra::{
        connection::{Cassandra, WeakCassandra},
        error::{CassandraError, Failure, unreadable},
    },
    ports::StoreError,
};
use scylla::{response::PagingState, statement::prepared::PreparedStatement};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior},
};

const EVERY: Duration = Duration::from_millis(100);
/// How often the generation is read while nobody waits, in turns of [`EVERY`]: a restart that is
/// known before the next write costs nobody a second writing.
const IDLE_TURNS: u32 = 10;
/// How long a call waits for a node that does not answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// The newest probe that was acknowledged.
#[derive(Clone, Debug)]
struct Probed {
    /// When its write began.
    begun: Instant,
    /// What was read after it.
    generation: NodeGeneration,
    /// Why a later one failed.
    problem: Option<String>,
}

/// What probes found, and who waits for the next.
pub(in crate::cassandra) struct Probe {
    wait: Duration,
    newest: watch::Sender<Probed>,
    waiting: AtomicUsize,
}

struct Statements {
    write: PreparedStatement,
    generation: PreparedStatement,
}

impl Probe {
    /// Starts the probes. They end with the connection.
    pub(super) async fn start(
        cassandra: &Cassandra,
        wait: Duration,
    ) -> Result<Arc<Self>, CassandraError> {
        let write = "UPDATE {ks}.sync_probes SET at = ? WHERE id = 0";
        let read = "SELECT gossip_generation FROM system.local";
        let statements = Statements {
            write: cassandra.prepare(write).await?,
            generation: cassandra.prepare(read).await?,
        };
        let begun = Instant::now();
        let generation = generation(cassandra, &statements).await?;
        let first = Probed {
            begun,
            generation,
            problem: None,
        };
        let probe = Arc::new(Self {
            wait,
            newest: watch::Sender::new(first),
            waiting: AtomicUsize::new(0),
        });
        tokio::spawn(run(cassandra.downgrade(), Arc::clone(&probe), statements));
        Ok(probe)
    }

    /// How long after a write a probe must begin.
    pub(super) fn wait(&self) -> Duration {
        self.wait
    }

    /// The generation that the newest answer told. The node may have restarted since.
    pub(super) fn known(&self) -> NodeGeneration {
        self.newest.borrow().generation
    }

    /// The generation after a write that began long enough after this call was acknowledged.
    pub(super) async fn after_wait(&self) -> Result<NodeGeneration, StoreError> {
        let due = Instant::now() + self.wait;
        let _waiting = Waiting::on(&self.waiting);
        let mut newest = self.newest.subscribe();
        let late_enough = newest.wait_for(|probed| probed.begun >= due && probed.problem.is_none());
        match tokio::time::timeout_at(due + PATIENCE, late_enough).await {
            Ok(Ok(probed)) => Ok(probed.generation),
            Ok(Err(_)) => Err(StoreError::Unavailable(
                "the connection is closed".to_owned(),
            )),
            Err(_) => {
                let problem = self.newest.borrow().problem.clone();
                Err(StoreError::Unavailable(problem.unwrap_or_else(|| {
                    format!("the node acknowledged no write for {PATIENCE:?}")
                })))
            }
        }
    }
}

/// Somebody who waits for a probe.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn on(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn run(cassandra: WeakCassandra, probe: Arc<Probe>, statements: Statements) {
    let mut turns = tokio::time::interval(EVERY);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut idle = 0;
    loop {
        turns.tick().await;
        let Some(cassandra) = cassandra.upgrade() else {
            return;
        };
        let is_awaited = probe.waiting.load(Ordering::Relaxed) > 0;
        idle = if is_awaited { 0 } else { idle + 1 };
        let begun = Instant::now();
        let found = if is_awaited {
            probe_once(&cassandra, &statements)
                .await
                .map(|found| (begun, found))
        } else if idle % IDLE_TURNS == 0 {
            // No write, so nobody may take it for a probe.
            let last = probe.newest.borrow().begun;
            generation(&cassandra, &statements)
                .await
                .map(|found| (last, found))
        } else {
            continue;
        };
        probe.newest.send_modify(|newest| match found {
            Ok((begun, generation)) => {
                *newest = Probed {
                    begun,
                    generation,
                    problem: None,
                }
            }
            Err(failure) => newest.problem = Some(StoreError::from(failure).to_string()),
        });
    }
}

async fn probe_once(
    cassandra: &Cassandra,
    statements: &Statements,
) -> Result<NodeGeneration, Failure> {
    let nodes = cassandra
        .session()
        .get_cluster_state()
        .get_nodes_info()
        .len();
    if nodes > 1 {
        return Err(Failure::Unavailable(format!(
            "the cluster has {nodes} nodes now, and commitlog_sync is periodic, which loses \
             acknowledged writes there; set commitlog_sync: batch or group in cassandra.yaml of \
             every node, then restart this role"
        )));
    }
    let now = cassandra.clock().now().get();
    cassandra.write(&statements.write, (now,)).await?;
    generation(cassandra, statements).await
}

async fn generation(
    cassandra: &Cassandra,
    statements: &Statements,
) -> Result<NodeGeneration, Failure> {
    let page = cassandra.page(&statements.generation, (), PagingState::start());
    let (rows, _) = page.await?;
    let what = "the generation of a node";
    let (generation,) = rows
        .single_row::<(i32,)>()
        .map_err(|error| unreadable(what, &error))?;
    Ok(NodeGeneration(generation.into()))
}
