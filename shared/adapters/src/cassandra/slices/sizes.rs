//! What slices take on disk, as their nodes say.

use super::super::error::{Failure, unreadable};
use super::Catalogue;
use crate::ports::{SliceState, StoreError};
use quipu_core::slice::SliceId;
use scylla::{
    cluster::Node,
    policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy},
    statement::Statement,
};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

impl Catalogue {
    /// The bytes of each slice that is ready, on all nodes together, in whole mebibytes.
    pub(in crate::cassandra) async fn sizes(&self) -> Result<BTreeMap<SliceId, u64>, StoreError> {
        let snapshot = self.usable().await?;
        let ready = |id: &SliceId| snapshot.state(*id) == Some(SliceState::Ready);
        let slices = snapshot.slices.keys().copied().filter(ready);
        let tables: HashMap<String, SliceId> = slices.map(|id| (self.table(id), id)).collect();
        let mut sizes: BTreeMap<SliceId, u64> = tables.values().map(|id| (*id, 0)).collect();
        let state = self.cassandra.session().get_cluster_state();
        for node in state.get_nodes_info() {
            for (table, mebibytes) in self.disk_usage(node).await? {
                if let Some(size) = tables.get(&table).and_then(|id| sizes.get_mut(id)) {
                    *size += mebibytes << 20;
                }
            }
        }
        Ok(sizes)
    }

    /// The tables of the keyspace on one node.
    async fn disk_usage(&self, node: &Arc<Node>) -> Result<Vec<(String, u64)>, Failure> {
        let cql = "SELECT keyspace_name, table_name, mebibytes FROM system_views.disk_usage";
        let mut statement = Statement::new(cql);
        let target = NodeIdentifier::Node(Arc::clone(node));
        let only = SingleTargetLoadBalancingPolicy::new(target, None);
        statement.set_load_balancing_policy(Some(only));
        // One row for each table of the cluster, of the node itself.
        let answer = self.cassandra.session().query_unpaged(statement, ());
        let what = "the sizes of tables";
        let rows = answer.await?.into_rows_result();
        let rows = rows.map_err(|error| unreadable(what, &error))?;
        let keyspace = &self.cassandra.settings().keyspace;
        let mut tables = Vec::new();
        let rows = rows.rows::<(String, String, Option<i64>)>();
        for row in rows.map_err(|error| unreadable(what, &error))? {
            let (owner, table, mebibytes) = row.map_err(|error| unreadable(what, &error))?;
            if owner == *keyspace {
                let mebibytes = mebibytes.and_then(|size| u64::try_from(size).ok());
                tables.push((table, mebibytes.unwrap_or_default()));
            }
        }
        Ok(tables)
    }
}
