//! The names of this role's metrics.

/// Accepted events that were stored.
pub const ACCEPTED: &str = "quipu_ingest_events_accepted_total";
/// Refused records, by `reason`.
pub const DEAD_LETTERED: &str = "quipu_ingest_events_dead_lettered_total";
/// Refused events that a gateway had to acknowledge (R7): an alert. The log's clock went back by
/// more than `gateway.append_guard`.
pub const ACKNOWLEDGED_AND_REFUSED: &str = "quipu_ingest_events_acknowledged_and_refused_total";
/// Counters signalled after a durable batch.
pub const SIGNALS: &str = "quipu_ingest_signals_published_total";
/// Rows of a batch.
pub const BATCH_ROWS: &str = "quipu_ingest_batch_rows";
/// From the start of a batch's write until it was durable and signalled.
pub const BATCH_SECONDS: &str = "quipu_ingest_batch_seconds";
/// How far a partition's watermark is behind this machine's clock, by `partition`.
pub const WATERMARK_AGE: &str = "quipu_ingest_watermark_age_seconds";
/// Times that a partition stopped before a record that it must not decide yet.
pub const STALLS: &str = "quipu_ingest_stalls_total";
/// Times that the store lost acknowledged writes, and they were written again.
pub const REWINDS: &str = "quipu_ingest_rewinds_total";
