//! Makes the keyspace, the tables and the first history. Idempotent: what is there stays.

use super::{
    connection::Cassandra,
    error::{CassandraError, Failure, unreadable},
    schema,
    slices::CassandraDataset,
};
use crate::ports::StoreError;
use quipu_core::slice::SliceId;
use scylla::response::PagingState;
use serde::{Deserialize, Serialize};

/// Who makes the keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyspaceSetup {
    /// Setup does, with the replication of the settings, if it is not there.
    Create,
    /// The operator has.
    Expect,
}

/// Whether setup makes the namespace `default`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstNamespace {
    /// It does, in the default cluster.
    Make,
    /// It does not, in any other.
    Leave,
}

/// What setup makes.
#[derive(Clone, Debug)]
pub struct SetupPlan {
    /// Who makes the keyspace.
    pub keyspace: KeyspaceSetup,
    /// The events topic.
    pub events_topic: String,
    /// Partitions of the events topic, registered from now on (R12).
    pub event_partitions: u32,
    /// Partitions of the signals topic: fixed for ever (R17).
    pub signal_partitions: u32,
    /// The dataset that events are kept in.
    pub dataset: CassandraDataset,
    /// Whether it makes the namespace `default`.
    pub first_namespace: FirstNamespace,
}

/// Facts that setup fixed for ever.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settled {
    /// Partitions of the signals topic (R17).
    pub signal_partitions: u32,
    /// The events topic.
    pub events_topic: String,
    /// The dataset's name.
    pub dataset: String,
    /// The length of its slices, in microseconds.
    pub slice_micros: i64,
}

impl SetupPlan {
    /// The facts that setup fixes.
    pub fn settled(&self) -> Settled {
        Settled {
            signal_partitions: self.signal_partitions,
            events_topic: self.events_topic.clone(),
            dataset: self.dataset.name.clone(),
            slice_micros: self.dataset.shape.slicing.start(SliceId(1)).get(),
        }
    }
}

impl Settled {
    /// Compares what a role is configured with to what was fixed.
    ///
    /// # Errors
    /// With a text that says what differs.
    pub fn check(&self, configured: &Self) -> Result<(), CassandraError> {
        if self == configured {
            return Ok(());
        }
        Err(CassandraError::Refused(format!(
            "setup fixed {self:?}, and {configured:?} is configured; configure what was fixed, or \
             use another keyspace"
        )))
    }
}

/// The one row of facts.
const FACTS: &str = "setup";

impl Cassandra {
    /// Makes what is missing: keyspace, tables, the facts that are fixed, the registered partitions
    /// and, where it is asked for, the namespace `default`.
    ///
    /// # Errors
    /// When what is there contradicts the plan (the text says what), or when the store fails.
    pub async fn setup(&self, plan: &SetupPlan) -> Result<(), CassandraError> {
        plan.dataset.check().map_err(CassandraError::Refused)?;
        self.setup_tables(plan.keyspace).await?;
        let asked = plan.settled();
        let insert = "INSERT INTO {ks}.settled (name, value) VALUES (?, ?) IF NOT EXISTS";
        let insert = self.prepare_serial(insert).await?;
        let json = serde_json::to_string(&asked).expect("facts are JSON");
        self.compare_and_set(&insert, (FACTS, json)).await?;
        let settled = self.settled().await?;
        let settled = settled.ok_or_else(|| {
            let keyspace = &self.settings().keyspace;
            let problem = format!("what setup fixed in keyspace {keyspace} was deleted meanwhile");
            CassandraError::from(StoreError::Unavailable(problem))
        })?;
        settled.check(&asked)?;
        self.begin_control(plan).await
    }

    /// The facts that setup fixed; none where it was not run, or not to its end.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn settled(&self) -> Result<Option<Settled>, CassandraError> {
        Ok(self.facts().await?)
    }

    pub(super) async fn facts(&self) -> Result<Option<Settled>, Failure> {
        let select = "SELECT value FROM {ks}.settled WHERE name = ?";
        let select = match self.prepare_serial(select).await {
            Err(Failure::NoTable(_)) => return Ok(None),
            other => other?,
        };
        let (rows, _) = self.page(&select, (FACTS,), PagingState::start()).await?;
        let what = "the facts that setup fixed";
        let row = rows
            .maybe_first_row::<(String,)>()
            .map_err(|error| unreadable(what, &error))?;
        let settled = row.map(|(json,)| serde_json::from_str(&json));
        settled
            .transpose()
            .map_err(|error| unreadable(what, &error))
    }

    /// Makes what is missing of the keyspace and its tables, and waits until all nodes agree.
    ///
    /// # Errors
    /// When the keyspace is expected and missing, or when the store fails.
    pub async fn setup_tables(&self, keyspace: KeyspaceSetup) -> Result<(), CassandraError> {
        let settings = self.settings();
        let name = &settings.keyspace;
        if keyspace == KeyspaceSetup::Create {
            let replication = settings.replication.to_cql();
            let cql = format!(
                "CREATE KEYSPACE IF NOT EXISTS {{ks}} WITH replication = {replication} \
                 AND durable_writes = true"
            );
            self.change_schema(&cql).await?;
        }
        for table in schema::tables() {
            match self.change_schema(&table.create(name)).await {
                Err(Failure::NoTable(problem)) => {
                    return Err(CassandraError::Refused(format!(
                        "there is no keyspace {name} ({problem}); make it, or let setup make it"
                    )));
                }
                other => other?,
            }
        }
        self.add_columns().await?;
        let agreed = self.session().await_schema_agreement().await;
        agreed.map_err(|error| StoreError::Unavailable(error.to_string()))?;
        Ok(())
    }
}
