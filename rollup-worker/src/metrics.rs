//! The names of this role's metrics.

/// Signals read.
pub const SIGNALS: &str = "quipu_rollup_signals_total";
/// Signals that joined a counter that was waiting already.
pub const COALESCED: &str = "quipu_rollup_signals_coalesced_total";
/// Counters aggregated.
pub const AGGREGATED: &str = "quipu_rollup_counters_aggregated_total";
/// Events that were folded into checkpoints.
pub const EVENTS: &str = "quipu_rollup_events_folded_total";
/// Counters whose aggregation failed and is tried again.
pub const FAILED: &str = "quipu_rollup_counters_failed_total";
/// Counters in a batch.
pub const BATCH_SIZE: &str = "quipu_rollup_batch_counters";
/// How long a batch took.
pub const BATCH_SECONDS: &str = "quipu_rollup_batch_seconds";
/// Batches a second that back-pressure allows.
pub const PRESSURE: &str = "quipu_rollup_batches_per_second_allowed";
/// Counters that wait to be rolled up, or circulate.
pub const PENDING: &str = "quipu_rollup_counters_pending";
/// Signals stored because they could not finish in time.
pub const PARKED: &str = "quipu_rollup_signals_parked_total";
/// Counters that a sweep found behind and signalled.
pub const SWEPT: &str = "quipu_rollup_counters_swept_total";
/// Slices dropped by retention.
pub const SLICES_DROPPED: &str = "quipu_rollup_slices_dropped_total";
/// Times that the store lost acknowledged writes, and signals were read again.
pub const REWINDS: &str = "quipu_rollup_rewinds_total";
