//! Makes the keyspace and the tables. Idempotent: what is there stays.

use super::{
    connection::Cassandra,
    error::{CassandraError, Failure},
    schema,
};
use crate::ports::StoreError;

/// Who makes the keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyspaceSetup {
    /// Setup does, with the replication of the settings, if it is not there.
    Create,
    /// The operator has.
    Expect,
}

impl Cassandra {
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
        let agreed = self.session().await_schema_agreement().await;
        agreed.map_err(|error| StoreError::Unavailable(error.to_string()))?;
        Ok(())
    }
}
