//! Cassandra, as an operator sees it.

use scylla::{
    client::{session::Session, session_builder::SessionBuilder},
    errors::NewSessionError,
};
use std::{panic::resume_unwind, thread, time::Duration};

/// Runs work on a connection and a runtime of its own.
fn connected<T: Send>(
    node: &str,
    work: impl AsyncFnOnce(Result<Session, NewSessionError>) -> T + Send,
) -> T {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let session = SessionBuilder::new().known_node(node).build().await;
            work(session).await
        })
    };
    thread::scope(|scope| {
        scope
            .spawn(run)
            .join()
            .unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Drops a keyspace; what is left behind disturbs nobody.
pub(super) fn drop_keyspace(node: &str, keyspace: &str) {
    connected(node, async |session| {
        if let Ok(session) = session {
            let drop = format!("DROP KEYSPACE IF EXISTS {keyspace}");
            session.query_unpaged(drop, ()).await.ok();
        }
    });
}

/// How many events of a namespace are stored, over all slices.
pub(super) fn stored_events(node: &str, keyspace: &str, namespace: &str) -> i64 {
    connected(node, async |session| {
        let session = session.expect("Cassandra answers");
        let ids = format!(
            "SELECT namespace_id FROM {keyspace}.policies WHERE book = 0 AND namespace = ?"
        );
        let ids = session.query_unpaged(ids, (namespace,)).await;
        let ids = ids.expect("a read").into_rows_result().expect("rows");
        let (id,) = ids.first_row::<(i32,)>().expect("the namespace is there");
        let tables = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?";
        let tables = session.query_unpaged(tables, (keyspace,)).await;
        let tables = tables.expect("a read").into_rows_result().expect("rows");
        let mut stored = 0;
        for table in tables.rows::<(String,)>().expect("names") {
            let (table,) = table.expect("a name");
            if table.starts_with("events_") {
                stored += count(&session, &format!("{keyspace}.{table}"), id).await;
            }
        }
        stored
    })
}

async fn count(session: &Session, table: &str, namespace_id: i32) -> i64 {
    let rows = format!("SELECT COUNT(*) FROM {table} WHERE namespace_id = ? ALLOW FILTERING");
    let mut rows = scylla::statement::Statement::new(rows);
    rows.set_request_timeout(Some(Duration::from_mins(1)));
    let rows = session.query_unpaged(rows, (namespace_id,)).await;
    let rows = rows.expect("a read").into_rows_result().expect("rows");
    rows.single_row::<(i64,)>().expect("a number").0
}
