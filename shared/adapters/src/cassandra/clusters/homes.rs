//! Which cluster each namespace lives in. A name is claimed before its first life is made, by
//! compare-and-set in the default cluster's keyspace, and stays claimed for all its lives (R6). So no
//! two clusters ever have namespaces of one name, whoever makes them and whenever that is cut short.

use super::away;
use crate::{
    cassandra::{
        connection::Cassandra,
        durable::Writes,
        error::{Failure, unreadable},
    },
    ports::{ControlError, Durability, StoreError},
};
use quipu_core::name::Namespace;
use quipu_schemas::cluster::DEFAULT_CLUSTER;
use scylla::{response::PagingState, statement::prepared::PreparedStatement};
use std::{fmt, sync::Arc};

const WHAT: &str = "the cluster of a namespace";

/// Where each namespace lives. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Homes(Arc<Table>);

struct Table {
    cassandra: Cassandra,
    claim: PreparedStatement,
    home: PreparedStatement,
    /// Names of the default cluster that are older than claims.
    lived: PreparedStatement,
}

impl fmt::Debug for Homes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Homes").finish_non_exhaustive()
    }
}

impl Cassandra {
    pub(in crate::cassandra) async fn homes(&self) -> Result<Homes, Failure> {
        let claim = "INSERT INTO {ks}.homes (namespace, cluster) VALUES (?, ?) IF NOT EXISTS";
        let home = "SELECT cluster FROM {ks}.homes WHERE namespace = ?";
        let lived = "SELECT namespace FROM {ks}.policies WHERE book = 0 AND namespace = ? LIMIT 1";
        Ok(Homes(Arc::new(Table {
            claim: self.prepare_serial(claim).await?,
            home: self.prepare_serial(home).await?,
            lived: self.prepare_serial(lived).await?,
            cassandra: self.clone(),
        })))
    }
}

impl Homes {
    /// The cluster that a name is claimed for.
    pub(in crate::cassandra) async fn of(
        &self,
        name: &Namespace,
    ) -> Result<Option<String>, Failure> {
        self.0.text(&self.0.home, name).await
    }

    /// Claims a name for a cluster, durably. It may be called again.
    pub(in crate::cassandra) async fn claim(
        &self,
        name: &Namespace,
        cluster: &str,
    ) -> Result<(), ControlError> {
        let writes = Writes::new(self.0.cassandra.durable().await.map_err(away)?);
        let begun = writes.begin();
        let home = self
            .0
            .settle(name, cluster)
            .await
            .map_err(StoreError::from)?;
        writes.acknowledged(&begun);
        // In the default cluster the first version follows the claim into the same node's log: where
        // the claim was lost, so was the version, and a version alone is a claim to `settle`.
        let is_elsewhere = home == cluster && cluster != DEFAULT_CLUSTER;
        if is_elsewhere && writes.sync().await? == Durability::Lost {
            let problem = format!(
                "the storage node restarted and may have lost to which cluster {name} belongs; try \
                 again"
            );
            return Err(StoreError::Unavailable(problem).into());
        }
        if home == cluster {
            return Ok(());
        }
        Err(ControlError::Refused(format!(
            "persistence: namespace {name} belongs to the cluster {home}, and a name stays in its \
             cluster for all its lives, also when it is deleted; name {home}, or make a namespace \
             of another name in {cluster}"
        )))
    }
}

impl Table {
    async fn text(
        &self,
        statement: &PreparedStatement,
        name: &Namespace,
    ) -> Result<Option<String>, Failure> {
        let page = self
            .cassandra
            .page(statement, (name.as_str(),), PagingState::start());
        let (rows, _) = page.await?;
        let row = rows
            .maybe_first_row::<(String,)>()
            .map_err(|error| unreadable(WHAT, &error))?;
        Ok(row.map(|(text,)| text))
    }

    /// The cluster that has a name, which is the one that asks if nobody had it.
    async fn settle(&self, name: &Namespace, cluster: &str) -> Result<String, Failure> {
        if let Some(home) = self.text(&self.home, name).await? {
            return Ok(home);
        }
        // Whoever makes one there now has to claim it first, so none is added after this.
        let is_older = cluster != DEFAULT_CLUSTER && self.text(&self.lived, name).await?.is_some();
        if is_older {
            return Ok(DEFAULT_CLUSTER.to_owned());
        }
        let values = (name.as_str(), cluster);
        if self.cassandra.compare_and_set(&self.claim, values).await? {
            return Ok(cluster.to_owned());
        }
        let home = self.text(&self.home, name).await?;
        home.ok_or_else(|| Failure::Unavailable(format!("the claim of {name} is gone; try again")))
    }
}
