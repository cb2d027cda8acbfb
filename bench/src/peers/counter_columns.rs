//! Cassandra's own counters: neither idempotent nor tied to what was counted.

use crate::http::Failure;
use scylla::client::{session::Session, session_builder::SessionBuilder};
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

/// Adds one to the counter columns that `draw` names for a time. Returns how many adds were
/// acknowledged, and how long that took.
pub(crate) async fn add(
    session: &Session,
    keyspace: &str,
    lasts: Duration,
    draw: impl FnMut() -> String,
) -> Result<(u64, Duration), Failure> {
    let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
    let schema = [
        format!("CREATE KEYSPACE {keyspace} WITH replication = {replication}"),
        format!("CREATE TABLE {keyspace}.counts (name text PRIMARY KEY, count counter)"),
    ];
    for statement in schema {
        session.query_unpaged(statement, ()).await?;
    }
    let update = format!("UPDATE {keyspace}.counts SET count = count + 1 WHERE name = ?");
    let update = session.prepare(update).await?;
    let draw = RefCell::new(draw);
    let began = Instant::now();
    let client = || async {
        let mut added = 0;
        while began.elapsed() < lasts {
            let name = draw.borrow_mut()();
            session.execute_unpaged(&update, (name,)).await?;
            added += 1;
        }
        Ok::<u64, Failure>(added)
    };
    let added = futures::future::try_join_all((0..AT_ONCE).map(|_| client())).await?;
    let took = began.elapsed();
    let drop = format!("DROP KEYSPACE {keyspace}");
    session.query_unpaged(drop, ()).await?;
    Ok((added.iter().sum(), took))
}
