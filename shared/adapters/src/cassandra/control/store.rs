//! The book as it is stored: read as a whole, and changed by compare-and-set in its one partition.

use super::{
    caps::{self, Caps},
    registry::{Heading, Registry, Version},
    topics::Topics,
};
use crate::{
    cassandra::{
        connection::Cassandra,
        error::{Failure, unreadable},
    },
    ports::NamespaceVersion,
};
use quipu_core::{name::Namespace, time::Micros};
use quipu_schemas::namespace::Author;
use scylla::{
    DeserializeRow, response::PagingState, serialize::row::SerializeRow,
    statement::prepared::PreparedStatement,
};

const HISTORY: &str = "the history of namespaces";

pub(super) struct Book {
    cassandra: Cassandra,
    heading: PreparedStatement,
    versions: PreparedStatement,
    begin: PreparedStatement,
    grant: PreparedStatement,
    versions_of: PreparedStatement,
    change: PreparedStatement,
    change_topics: PreparedStatement,
    change_caps: PreparedStatement,
}

#[derive(DeserializeRow)]
struct HeadingRow {
    granted: Option<i64>,
    changes: Option<i64>,
    next_id: Option<i32>,
    topics: Option<String>,
    caps: Option<String>,
    store_millis: i64,
}

#[derive(DeserializeRow)]
struct VersionRow {
    namespace: Option<String>,
    version: Option<i64>,
    namespace_id: Option<i32>,
    topic: Option<String>,
    effective_from: Option<i64>,
    document: Option<String>,
    deleted: Option<bool>,
    changed_at: Option<i64>,
    author: Option<String>,
}

/// A heading with the store's own time at the read.
pub(super) struct Read {
    pub(super) heading: Heading,
    pub(super) store_now: Micros,
}

impl Book {
    pub(super) async fn prepare(cassandra: &Cassandra) -> Result<Self, Failure> {
        let heading = "SELECT granted, changes, next_id, topics, caps, \
                       toUnixTimestamp(now()) AS store_millis \
                       FROM {ks}.policies WHERE book = 0 LIMIT 1";
        let versions = "SELECT namespace, version, namespace_id, topic, effective_from, document, \
                        deleted, changed_at, author FROM {ks}.policies WHERE book = 0";
        let versions_of = format!("{versions} AND namespace = ?");
        let begin = "INSERT INTO {ks}.policies (book, granted, changes, next_id, topics) \
                     VALUES (0, ?, 0, 1, ?) IF NOT EXISTS";
        let grant = "UPDATE {ks}.policies SET granted = ? WHERE book = 0 \
                     IF granted = ? AND changes = ?";
        let change = "BEGIN BATCH \
                      UPDATE {ks}.policies SET changes = ?, next_id = ? WHERE book = 0 \
                      IF granted = ? AND changes = ?; \
                      INSERT INTO {ks}.policies (book, namespace, version, namespace_id, topic, \
                      effective_from, document, deleted, changed_at, author) \
                      VALUES (0, ?, ?, ?, ?, ?, ?, ?, ?, ?); \
                      APPLY BATCH";
        let change_topics = "UPDATE {ks}.policies SET changes = ?, topics = ? WHERE book = 0 \
                             IF granted = ? AND changes = ?";
        let change_caps = "UPDATE {ks}.policies SET changes = ?, caps = ? WHERE book = 0 \
                           IF granted = ? AND changes = ?";
        Ok(Self {
            heading: cassandra.prepare_serial(heading).await?,
            versions: cassandra.prepare_serial(versions).await?,
            versions_of: cassandra.prepare_serial(&versions_of).await?,
            begin: cassandra.prepare_serial(begin).await?,
            grant: cassandra.prepare_serial(grant).await?,
            change: cassandra.prepare_serial(change).await?,
            change_topics: cassandra.prepare_serial(change_topics).await?,
            change_caps: cassandra.prepare_serial(change_caps).await?,
            cassandra: cassandra.clone(),
        })
    }

    /// Begins the book, unless it was begun.
    pub(super) async fn begin(&self, granted: Micros, topics: &Topics) -> Result<bool, Failure> {
        let values = (granted.get(), topics.to_json());
        self.cassandra.compare_and_set(&self.begin, values).await
    }

    /// Reads the heading.
    pub(super) async fn heading(&self) -> Result<Read, Failure> {
        let what = "the control plane's heading";
        let page = self.cassandra.page(&self.heading, (), PagingState::start());
        let (rows, _) = page.await?;
        let row = rows
            .maybe_first_row::<HeadingRow>()
            .map_err(|error| unreadable(what, &error))?;
        let missing = || {
            Failure::Damaged("the control plane was not set up; run `quipu admin setup`".to_owned())
        };
        let row = row.ok_or_else(missing)?;
        let topics = row.topics.ok_or_else(missing)?;
        let topics = Topics::from_json(&topics).map_err(|error| unreadable(what, &error))?;
        // Where nobody ever capped anything there is nothing.
        let caps = row.caps.as_deref().map_or(Ok(Caps::new()), caps::from_json);
        let caps = caps.map_err(|error| unreadable(what, &error))?;
        let heading = Heading {
            granted: Micros::new(row.granted.ok_or_else(missing)?),
            changes: row.changes.ok_or_else(missing)?,
            next_id: row.next_id.ok_or_else(missing)?,
            topics,
            caps,
        };
        let store_now = Micros::new(row.store_millis.saturating_mul(1_000));
        Ok(Read { heading, store_now })
    }

    /// Reads every version. What was in the book before the heading was read is all there; a change
    /// since then may be, and takes effect after what the heading says was granted.
    pub(super) async fn registry(&self, heading: Heading) -> Result<Registry, Failure> {
        let versions = self.all(&self.versions, ()).await?;
        Registry::fold(heading, versions).map_err(|error| unreadable(HISTORY, &error))
    }

    /// Reads every version of one name, in their order.
    pub(super) async fn history(&self, name: &Namespace) -> Result<Vec<NamespaceVersion>, Failure> {
        let versions = self.all(&self.versions_of, (name.as_str(),)).await?;
        let told = versions.into_iter().map(Version::told);
        let told = told.collect::<Result<_, _>>();
        told.map_err(|error| unreadable(HISTORY, &error))
    }

    async fn all(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<Vec<Version>, Failure> {
        let mut versions = Vec::new();
        let mut from = Some(PagingState::start());
        while let Some(paging) = from {
            let (rows, next) = self.cassandra.page(statement, &values, paging).await?;
            let rows = rows
                .rows::<VersionRow>()
                .map_err(|error| unreadable(HISTORY, &error))?;
            for row in rows {
                let row = row.map_err(|error| unreadable(HISTORY, &error))?;
                versions.extend(version(row)?);
            }
            from = next;
        }
        Ok(versions)
    }

    /// Grants everybody who knows the history of this heading to rely on it through a time.
    pub(super) async fn grant(&self, heading: &Heading, through: Micros) -> Result<bool, Failure> {
        let values = (through.get(), heading.granted.get(), heading.changes);
        self.cassandra.compare_and_set(&self.grant, values).await
    }

    /// Adds a version to the history of this heading.
    pub(super) async fn add(&self, heading: &Heading, version: &Version) -> Result<bool, Failure> {
        let values = (
            heading.changes + 1,
            heading.next_id.max(version.id + 1),
            heading.granted.get(),
            heading.changes,
            version.namespace.as_str(),
            version.number,
            version.id,
            version.topic.as_str(),
            version.effective_from.get(),
            version.document.as_str(),
            version.deleted,
            version.changed_at.map(Micros::get),
            version.author.as_str(),
        );
        self.cassandra.compare_and_set(&self.change, values).await
    }

    /// Replaces the registered partitions in the history of this heading.
    pub(super) async fn set_topics(
        &self,
        heading: &Heading,
        topics: &Topics,
    ) -> Result<bool, Failure> {
        let values = (
            heading.changes + 1,
            topics.to_json(),
            heading.granted.get(),
            heading.changes,
        );
        self.cassandra
            .compare_and_set(&self.change_topics, values)
            .await
    }

    /// Replaces the capped append times in the history of this heading.
    pub(super) async fn set_caps(&self, heading: &Heading, caps: &Caps) -> Result<bool, Failure> {
        let values = (
            heading.changes + 1,
            caps::to_json(caps),
            heading.granted.get(),
            heading.changes,
        );
        self.cassandra
            .compare_and_set(&self.change_caps, values)
            .await
    }
}

/// A row; none where the partition holds its heading alone.
fn version(row: VersionRow) -> Result<Option<Version>, Failure> {
    let author = row.author.map_or(Ok(Author::default()), Author::stored);
    let author = author.map_err(|error| unreadable(HISTORY, &error))?;
    let version = || {
        Some(Version {
            namespace: row.namespace?,
            number: row.version?,
            id: row.namespace_id?,
            topic: row.topic?,
            effective_from: Micros::new(row.effective_from?),
            document: row.document?,
            deleted: row.deleted?,
            changed_at: row.changed_at.map(Micros::new),
            author,
        })
    };
    Ok(version())
}
