//! The statements of one slice's table.

use super::super::{connection::Cassandra, error::Failure};
use scylla::statement::prepared::PreparedStatement;

/// Prepared once for each slice.
pub(in crate::cassandra) struct Statements {
    pub(super) write: PreparedStatement,
    pub(super) scan: PreparedStatement,
    pub(super) lookup: PreparedStatement,
    pub(super) partitions: PreparedStatement,
    pub(super) partitions_from: PreparedStatement,
}

/// The columns of the partition key.
const PARTITION: &str = "namespace_id, counter_name, time_bucket, event_bucket";

impl Statements {
    pub(super) async fn prepare(cassandra: &Cassandra, table: &str) -> Result<Self, Failure> {
        let one = "namespace_id = ? AND counter_name = ? AND time_bucket = ? AND event_bucket = ?";
        let row = "event_time = ? AND event_id = ? AND event_item_key = ?";
        // An UPDATE leaves no row marker: the payload alone makes the row, in fewer bytes.
        let write = format!(
            "UPDATE {{ks}}.{table} USING TIMESTAMP ? SET payload = ? WHERE {one} AND {row}"
        );
        let scan = format!(
            "SELECT event_time, event_id, event_item_key, payload, WRITETIME(payload) \
             FROM {{ks}}.{table} WHERE {one} AND event_time > ? AND event_time <= ?"
        );
        let lookup = format!(
            "SELECT event_time, event_id, event_item_key, payload, WRITETIME(payload) \
             FROM {{ks}}.{table} WHERE {one} AND {row}"
        );
        let partitions = format!("SELECT DISTINCT {PARTITION} FROM {{ks}}.{table}");
        let partitions_from = format!("{partitions} WHERE token({PARTITION}) >= token(?, ?, ?, ?)");
        Ok(Self {
            write: cassandra.prepare(&write).await?,
            scan: cassandra.prepare(&scan).await?,
            lookup: cassandra.prepare(&lookup).await?,
            partitions: cassandra.prepare(&partitions).await?,
            partitions_from: cassandra.prepare(&partitions_from).await?,
        })
    }
}
