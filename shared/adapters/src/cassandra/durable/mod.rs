//! When an acknowledged write is durable (R11): at once where every node syncs its commit log
//! before it answers; on one node that syncs periodically, once a later write was acknowledged by
//! the same start of the node.

mod commit_log;
mod ledger;
mod probe;

pub(super) use commit_log::{CommitLog, DurableWhen, judge};

use super::{
    connection::Cassandra,
    error::{CassandraError, Failure, unreadable},
};
use crate::ports::{Durability, StoreError};
use commit_log::parse_duration;
use ledger::{Ledger, NodeGeneration};
use probe::Probe;
use scylla::{
    cluster::Node,
    policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy},
    statement::Statement,
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// How this cluster makes writes durable. Cheap to clone.
#[derive(Clone)]
pub(super) enum Durable {
    /// When they are acknowledged.
    Acknowledged,
    /// When a probe says so.
    Probed(Arc<Probe>),
}

/// Finds out how the cluster makes writes durable, and starts the probes if it needs them.
pub(super) async fn detect(cassandra: &Cassandra) -> Result<Durable, CassandraError> {
    let state = cassandra.session().get_cluster_state();
    let nodes = state.get_nodes_info();
    let mut asked = Vec::with_capacity(nodes.len());
    for node in nodes {
        match commit_log(cassandra, node).await {
            Ok(log) => asked.push(log),
            Err(Failure::Damaged(problem)) => return Err(StoreError::Damaged(problem).into()),
            Err(Failure::NoTable(problem) | Failure::Unavailable(problem)) => {
                let node = node.address.to_string();
                tracing::warn!(
                    node,
                    problem,
                    "could not ask a node for its commit log settings"
                );
            }
        }
    }
    let wrong = cassandra.check_keyspace().await?;
    if let Some(finding) = wrong
        .into_iter()
        .find(|finding| finding.severity.is_refused())
    {
        return Err(CassandraError::Refused(finding.to_string()));
    }
    match judge(&asked, nodes.len())
        .map_err(|finding| CassandraError::Refused(finding.to_string()))?
    {
        DurableWhen::Acknowledged => Ok(Durable::Acknowledged),
        DurableWhen::FollowedAfter(wait) => {
            Ok(Durable::Probed(Probe::start(cassandra, wait).await?))
        }
    }
}

/// The commit log's settings of one node.
pub(super) async fn commit_log(
    cassandra: &Cassandra,
    node: &Arc<Node>,
) -> Result<CommitLog, Failure> {
    let mut statement = Statement::new("SELECT name, value FROM system_views.settings");
    let target = NodeIdentifier::Node(Arc::clone(node));
    let only = SingleTargetLoadBalancingPolicy::new(target, None);
    statement.set_load_balancing_policy(Some(only));
    // A few hundred rows, of the node itself.
    let answer = cassandra.session().query_unpaged(statement, ()).await?;
    let what = "the settings of a node";
    let rows = answer
        .into_rows_result()
        .map_err(|error| unreadable(what, &error))?;
    let settings: HashMap<String, String> = rows
        .rows::<(String, Option<String>)>()
        .map_err(|error| unreadable(what, &error))?
        .filter_map(|row| match row {
            Ok((name, value)) => value.map(|value| Ok((name, value))),
            Err(error) => Some(Err(unreadable(what, &error))),
        })
        .collect::<Result<_, _>>()?;
    let duration = |name| settings.get(name).and_then(|text| parse_duration(text));
    let is = |name, values: &[&str]| {
        settings
            .get(name)
            .is_some_and(|value| values.contains(&value.as_str()))
    };
    let buffered = if settings.contains_key("commitlog_compression.class_name") {
        Some("commitlog_compression")
    } else if is("transparent_data_encryption_options.enabled", &["true"]) {
        Some("transparent_data_encryption_options")
    } else if is("commitlog_disk_access_mode", &["direct"]) {
        Some("commitlog_disk_access_mode")
    } else {
        None
    };
    Ok(CommitLog {
        node: node.address.to_string(),
        sync: settings.get("commitlog_sync").cloned().unwrap_or_default(),
        period: duration("commitlog_sync_period"),
        lag_block: duration("periodic_commitlog_sync_lag_block"),
        buffered,
    })
}

/// The writes of one user of the store, who is told if any are lost. Clones are one user.
#[derive(Clone)]
pub(super) struct Writes {
    durable: Durable,
    ledger: Arc<Mutex<Ledger>>,
}

/// A write that has begun.
#[must_use = "a write that is not acknowledged is not covered by a sync"]
pub(super) struct Begun(Option<NodeGeneration>);

impl Writes {
    /// A user who has written nothing yet.
    pub(super) fn new(durable: &Durable) -> Self {
        Self {
            durable: durable.clone(),
            ledger: Arc::default(),
        }
    }

    /// How long a sync takes at least.
    pub(super) fn wait(&self) -> Duration {
        match &self.durable {
            Durable::Acknowledged => Duration::ZERO,
            Durable::Probed(probe) => probe.wait(),
        }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Call before the first statement of a write is sent.
    pub(super) fn begin(&self) -> Begun {
        Begun(match &self.durable {
            Durable::Acknowledged => None,
            Durable::Probed(probe) => Some(probe.known()),
        })
    }

    /// Call once all statements of a write are acknowledged. A read of what may not be durable yet
    /// counts as a write at the moment of the read (R17).
    pub(super) fn acknowledged(&self, write: &Begun) {
        if let Some(known) = write.0 {
            self.ledger().acknowledged(known);
        }
    }

    /// Resolves once it is known whether every write acknowledged before is durable.
    pub(super) async fn sync(&self) -> Result<Durability, StoreError> {
        let Durable::Probed(probe) = &self.durable else {
            return Ok(Durability::Durable);
        };
        let Some(covered) = self.ledger().cover() else {
            return Ok(Durability::Durable);
        };
        let found = probe.after_wait().await?;
        Ok(if self.ledger().settle(covered, found) {
            Durability::Durable
        } else {
            Durability::Lost
        })
    }
}
