//! The declared clusters, in the default cluster's keyspace. All of them are one partition, and
//! every change is compared and set against how many there were: so what no two clusters may share
//! is checked against every other one.

mod homes;

pub use homes::Homes;

use super::{
    connection::Cassandra,
    durable::Writes,
    error::{CassandraError, Failure, unreadable},
};
use crate::{
    config::Config,
    ports::{ChangeRequest, ClusterError, ClusterRecord, Clusters, Durability, StoreError},
};
use futures::future::BoxFuture;
use quipu_core::{name::Namespace, time::Micros};
use quipu_schemas::{cluster::ClusterDocument, namespace::Author};
use scylla::{DeserializeRow, response::PagingState, statement::prepared::PreparedStatement};
use std::fmt;

/// A change may meet this many others in a row.
const ATTEMPTS: u32 = 20;
const WHAT: &str = "the declared clusters";

/// Keeps the declarations. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct CassandraClusters {
    cassandra: Cassandra,
    /// What declarations are laid over, and must not share anything with.
    own: Config,
    homes: Homes,
    list: PreparedStatement,
    change: PreparedStatement,
}

impl fmt::Debug for CassandraClusters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CassandraClusters").finish_non_exhaustive()
    }
}

#[derive(DeserializeRow)]
struct ClusterRow {
    changes: Option<i64>,
    cluster: Option<String>,
    version: Option<i64>,
    document: Option<String>,
    changed_at: Option<i64>,
    author: Option<String>,
}

/// All declarations, and how many changes made them; none, before the first.
struct Declared {
    changes: Option<i64>,
    records: Vec<ClusterRecord>,
}

impl Cassandra {
    /// Opens the declarations. This must be the keyspace of the default cluster, whose configuration
    /// is `own`.
    ///
    /// # Errors
    /// When the store fails, or setup did not make the tables.
    pub async fn clusters(&self, own: Config) -> Result<CassandraClusters, CassandraError> {
        let list = "SELECT changes, cluster, version, document, changed_at, author \
                    FROM {ks}.clusters WHERE book = 0";
        let change = "BEGIN BATCH \
                      UPDATE {ks}.clusters SET changes = ? WHERE book = 0 IF changes = ?; \
                      INSERT INTO {ks}.clusters (book, cluster, version, document, changed_at, author) \
                      VALUES (0, ?, ?, ?, ?, ?); \
                      APPLY BATCH";
        Ok(CassandraClusters {
            list: self.prepare_serial(list).await?,
            change: self.prepare_serial(change).await?,
            homes: self.homes().await?,
            cassandra: self.clone(),
            own,
        })
    }
}

impl CassandraClusters {
    /// Where each namespace lives.
    pub fn homes(&self) -> &Homes {
        &self.homes
    }

    async fn declared(&self) -> Result<Declared, Failure> {
        let (mut changes, mut records) = (None, Vec::new());
        let mut from = Some(PagingState::start());
        while let Some(paging) = from {
            let (rows, next) = self.cassandra.page(&self.list, (), paging).await?;
            let rows = rows
                .rows::<ClusterRow>()
                .map_err(|error| unreadable(WHAT, &error))?;
            for row in rows {
                let row = row.map_err(|error| unreadable(WHAT, &error))?;
                changes = row.changes;
                records.extend(record(row)?);
            }
            from = next;
        }
        Ok(Declared { changes, records })
    }

    async fn try_declare(
        &self,
        document: &ClusterDocument,
        request: &ChangeRequest,
    ) -> Result<Option<ClusterRecord>, ClusterError> {
        let declared = self.declared().await.map_err(StoreError::from)?;
        let name = &document.cluster;
        let is_it = |record: &&ClusterRecord| record.document.cluster == *name;
        let known = declared.records.iter().find(is_it);
        if let Some(known) = known.filter(|known| known.document == *document) {
            return Ok(Some(known.clone()));
        }
        let in_force = known.map_or(0, |known| known.version);
        if let Some(expected) = request.if_version.filter(|version| *version != in_force) {
            return Err(ClusterError::VersionMoved {
                name: name.clone(),
                expected,
                in_force,
            });
        }
        let others = declared.records.iter().filter(|record| !is_it(record));
        let others = others.map(|record| &record.document);
        let before = known.map(|known| &known.document);
        self.own
            .check_declaration(others, before, document)
            .map_err(ClusterError::Refused)?;
        let made = ClusterRecord {
            document: document.clone(),
            version: in_force + 1,
            changed_at: self.cassandra.clock().now(),
            author: request.author.clone(),
        };
        let json = serde_json::to_string(document).expect("a document is JSON");
        let values = (
            declared.changes.unwrap_or(0) + 1,
            declared.changes,
            name.as_str(),
            i64::try_from(made.version).unwrap_or(i64::MAX),
            json,
            made.changed_at.get(),
            made.author.as_str(),
        );
        let set = self.cassandra.compare_and_set(&self.change, values).await;
        Ok(set.map_err(StoreError::from)?.then_some(made))
    }
}

impl Clusters for CassandraClusters {
    fn declare(
        &self,
        document: ClusterDocument,
        request: ChangeRequest,
    ) -> BoxFuture<'_, Result<ClusterRecord, ClusterError>> {
        Box::pin(async move {
            let writes = Writes::new(self.cassandra.durable().await.map_err(away)?);
            for _ in 0..ATTEMPTS {
                let begun = writes.begin();
                let Some(record) = self.try_declare(&document, &request).await? else {
                    continue;
                };
                writes.acknowledged(&begun);
                if writes.sync().await? == Durability::Lost {
                    let problem = "the storage node restarted and may have lost the declaration; \
                                   try again";
                    return Err(StoreError::Unavailable(problem.to_owned()).into());
                }
                return Ok(record);
            }
            let problem = format!("others declared clusters {ATTEMPTS} times meanwhile; try again");
            Err(StoreError::Unavailable(problem).into())
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<ClusterRecord>, StoreError>> {
        Box::pin(async move { Ok(self.declared().await?.records) })
    }

    fn home<'a>(
        &'a self,
        name: &'a Namespace,
    ) -> BoxFuture<'a, Result<Option<String>, StoreError>> {
        Box::pin(async move { Ok(self.homes.of(name).await?) })
    }
}

/// A row; none where nothing is declared yet.
fn record(row: ClusterRow) -> Result<Option<ClusterRecord>, Failure> {
    let Some(name) = row.cluster else {
        return Ok(None);
    };
    let damage = |problem: &dyn fmt::Display| unreadable(WHAT, &format!("{name}: {problem}"));
    let missing = || damage(&"a column is missing");
    let document = row.document.ok_or_else(missing)?;
    let document = serde_json::from_str(&document).map_err(|error| damage(&error))?;
    let author = row.author.map_or(Ok(Author::default()), Author::stored);
    Ok(Some(ClusterRecord {
        document,
        version: row.version.ok_or_else(missing)?.unsigned_abs(),
        changed_at: Micros::new(row.changed_at.ok_or_else(missing)?),
        author: author.map_err(|error| damage(&error))?,
    }))
}

/// What durability means here could not be asked.
fn away(error: CassandraError) -> StoreError {
    match error {
        CassandraError::Store(error) => error,
        other => StoreError::Unavailable(other.to_string()),
    }
}
