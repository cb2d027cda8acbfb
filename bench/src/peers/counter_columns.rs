//! Cassandra's own counters: neither idempotent nor tied to what was counted.

use crate::http::Failure;
use scylla::{
    client::{session::Session, session_builder::SessionBuilder},
    statement::prepared::PreparedStatement,
};
use std::{
    cell::RefCell,
    time::{Duration, Instant},
};

/// Updates under way at once.
const AT_ONCE: usize = 256;

/// Connects to a node.
pub(crate) async fn connect(address: &str) -> Result<Session, Failure> {
    Ok(SessionBuilder::new().known_node(address).build().await?)
}

/// A table of counter columns, in a keyspace of its own.
pub(crate) struct CounterColumns<'a> {
    session: &'a Session,
    keyspace: &'a str,
    update: PreparedStatement,
}

impl<'a> CounterColumns<'a> {
    /// Makes them.
    pub(crate) async fn create(session: &'a Session, keyspace: &'a str) -> Result<Self, Failure> {
        let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
        let schema = [
            format!("CREATE KEYSPACE {keyspace} WITH replication = {replication}"),
            format!("CREATE TABLE {keyspace}.counts (name text PRIMARY KEY, count counter)"),
        ];
        for statement in schema {
            session.query_unpaged(statement, ()).await?;
        }
        let update = format!("UPDATE {keyspace}.counts SET count = count + 1 WHERE name = ?");
        Ok(Self {
            session,
            keyspace,
            update: session.prepare(update).await?,
        })
    }

    /// Adds one to a column.
    pub(crate) async fn increment(&self, name: String) -> Result<(), Failure> {
        self.session.execute_unpaged(&self.update, (name,)).await?;
        Ok(())
    }

    /// Drops them with their keyspace.
    pub(crate) async fn remove(self) -> Result<(), Failure> {
        let drop = format!("DROP KEYSPACE {}", self.keyspace);
        self.session.query_unpaged(drop, ()).await?;
        Ok(())
    }
}

/// Adds one to the counter columns that `draw` names for a time. Returns how many adds were
/// acknowledged, and how long that took.
pub(crate) async fn add(
    session: &Session,
    keyspace: &str,
    lasts: Duration,
    draw: impl FnMut() -> String,
) -> Result<(u64, Duration), Failure> {
    let columns = CounterColumns::create(session, keyspace).await?;
    let draw = RefCell::new(draw);
    let began = Instant::now();
    let client = || async {
        let mut added = 0;
        while began.elapsed() < lasts {
            let name = draw.borrow_mut()();
            columns.increment(name).await?;
            added += 1;
        }
        Ok::<u64, Failure>(added)
    };
    let added = futures::future::try_join_all((0..AT_ONCE).map(|_| client())).await?;
    let took = began.elapsed();
    columns.remove().await?;
    Ok((added.iter().sum(), took))
}
