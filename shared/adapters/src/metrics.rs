//! The names of all metrics, in one place: what each counts, and which labels it has. Every label
//! takes few values, all of them known beforehand: never the name of a counter or a namespace.

use metrics::{describe_counter, describe_gauge, describe_histogram};

/// A metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// Its name in the exposition, which ends in its unit.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it says, for people.
    pub help: &'static str,
}

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// It only rises, from zero at the start of the process.
    Counter,
    /// What is true now.
    Gauge,
    /// How often values up to each of these bounds came.
    Histogram(&'static [f64]),
}

/// Seconds, from 100 µs to 10 s: fine where calls are, coarse where trouble is.
const CALLS: Kind = Kind::Histogram(&[
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0,
]);
/// Seconds, from what is usual to an hour of downtime.
const LAGS: Kind = Kind::Histogram(&[
    0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3_600.0,
]);
/// Numbers of things that are handled together.
const SIZES: Kind = Kind::Histogram(&[
    1.0, 4.0, 16.0, 64.0, 256.0, 1_024.0, 4_096.0, 16_384.0, 65_536.0,
]);
const COUNTER: Kind = Kind::Counter;
const GAUGE: Kind = Kind::Gauge;

/// Declares names as constants, and all of them as `ALL`. Their documentation is their help text.
macro_rules! declare {
    ($($(#[doc = $help:literal])+ $kind:ident $id:ident = $name:literal [$($label:literal)*];)+) => {
        $($(#[doc = $help])+ pub const $id: &str = $name;)+
        pub(super) const ALL: &[super::Metric] = &[$(super::Metric {
            name: $name,
            kind: super::$kind,
            labels: &[$($label),*],
            help: concat!($($help),+),
        }),+];
    };
}

/// What gateways say.
pub mod gateway {
    declare! {
        /// Calls that were answered. `CANCELLED`: the client went away, or the request timed out.
        COUNTER REQUESTS = "quipu_gateway_requests_total" ["method" "code"];
        /// From the moment that a call was understood until its answer was ready.
        CALLS REQUEST_SECONDS = "quipu_gateway_request_seconds" ["method"];
        /// Mutations that were answered `ACCEPTED`.
        COUNTER ACCEPTED = "quipu_gateway_mutations_accepted_total" [];
        /// Mutations that were answered `ALREADY_APPLIED`: duplicates that came late.
        COUNTER ALREADY_APPLIED = "quipu_gateway_mutations_already_applied_total" [];
        /// Mutations that were answered with an error, items of batches included.
        COUNTER REFUSED = "quipu_gateway_mutations_refused_total" ["reason"];
        /// Reads that the cache answered, did not have, or failed at.
        COUNTER CACHE_READS = "quipu_gateway_cache_reads_total" ["result"];
        /// Reads whose checkpoint was stale, wherever it came from.
        COUNTER STALE_READS = "quipu_gateway_stale_reads_total" [];
        /// Failed calls of the cache, writes included; the rollup store answers instead.
        COUNTER CACHE_ERRORS = "quipu_gateway_cache_errors_total" [];
        /// Signals that were appended.
        COUNTER SIGNALS = "quipu_gateway_signals_published_total" [];
        /// Signals that were dropped because the queue was full or the log unavailable. Others heal them.
        COUNTER SIGNALS_DROPPED = "quipu_gateway_signals_dropped_total" [];
        /// Connections that are open.
        GAUGE CONNECTIONS = "quipu_gateway_connections" [];
        /// Requests that were turned away because too many were in flight.
        COUNTER OVERLOADED = "quipu_gateway_requests_overloaded_total" [];
        /// Declared clusters that are joined, or away.
        GAUGE CLUSTERS = "quipu_gateway_clusters" ["state"];
        /// Requests that were refused because of their API key, or for want of one.
        COUNTER DENIED = "quipu_gateway_requests_denied_total" ["reason"];
        /// Mutations that were refused because a quota of their namespace was used up.
        COUNTER QUOTA_REFUSED = "quipu_gateway_quota_refused_total" ["quota"];
        /// TLS handshakes that failed, or took too long.
        COUNTER HANDSHAKES_FAILED = "quipu_gateway_tls_handshakes_failed_total" [];
    }
}

/// What ingests say.
pub mod ingest {
    declare! {
        /// Accepted events that were stored, copies of one event included.
        COUNTER ACCEPTED = "quipu_ingest_events_accepted_total" [];
        /// Accepted copies of an event that was in the same batch already.
        COUNTER DUPLICATES = "quipu_ingest_events_duplicate_total" [];
        /// Records that were refused, and are in the dead-letter topic.
        COUNTER DEAD_LETTERED = "quipu_ingest_events_dead_lettered_total" ["reason"];
        /// Refused events that a gateway had to acknowledge: must stay zero.
        COUNTER ACKNOWLEDGED_AND_REFUSED = "quipu_ingest_events_acknowledged_and_refused_total" [];
        /// Counters signalled after a durable batch.
        COUNTER SIGNALS = "quipu_ingest_signals_published_total" [];
        /// Rows of a batch.
        SIZES BATCH_ROWS = "quipu_ingest_batch_rows" [];
        /// From the start of a batch's write until it was durable and signalled.
        CALLS BATCH_SECONDS = "quipu_ingest_batch_seconds" [];
        /// Offsets of an events partition from what is finished to its end.
        GAUGE LAG_RECORDS = "quipu_ingest_lag_records" ["partition"];
        /// How long ago what is finished of an events partition was appended.
        GAUGE LAG_SECONDS = "quipu_ingest_lag_seconds" ["partition"];
        /// How far the watermark that was published for a partition is behind this machine's clock.
        GAUGE WATERMARK_AGE = "quipu_ingest_watermark_age_seconds" ["partition"];
        /// Times that a partition stopped before a record that must not be decided yet.
        COUNTER STALLS = "quipu_ingest_stalls_total" [];
        /// Times that the store lost acknowledged writes, and they were written again.
        COUNTER REWINDS = "quipu_ingest_rewinds_total" [];
    }
}

/// What rollup workers say.
pub mod rollup {
    declare! {
        /// Signals read.
        COUNTER SIGNALS = "quipu_rollup_signals_total" [];
        /// Signals that joined a counter that was waiting already.
        COUNTER COALESCED = "quipu_rollup_signals_coalesced_total" [];
        /// Signals of a partition from what is finished to its end.
        GAUGE LAG_RECORDS = "quipu_rollup_lag_signals" ["partition"];
        /// Counters aggregated.
        COUNTER AGGREGATED = "quipu_rollup_counters_aggregated_total" [];
        /// Events that were folded into checkpoints.
        COUNTER EVENTS = "quipu_rollup_events_folded_total" [];
        /// Counters whose aggregation failed and is tried again.
        COUNTER FAILED = "quipu_rollup_counters_failed_total" [];
        /// For how long the oldest event folded of a counter had been closed, in the log's time.
        LAGS LAG_SECONDS = "quipu_rollup_lag_seconds" [];
        /// For how long the counter that waits longest could have been rolled up, in the log's time.
        GAUGE OLDEST_PENDING = "quipu_rollup_oldest_pending_seconds" [];
        /// How far the low watermark, as this process knows it, is behind its clock.
        GAUGE LOW_WATERMARK_AGE = "quipu_rollup_low_watermark_age_seconds" [];
        /// Counters in a batch.
        SIZES BATCH_SIZE = "quipu_rollup_batch_counters" [];
        /// How long a batch took.
        CALLS BATCH_SECONDS = "quipu_rollup_batch_seconds" [];
        /// Batches a second that back-pressure allows.
        GAUGE PRESSURE = "quipu_rollup_batches_per_second_allowed" [];
        /// Counters that wait to be rolled up, or circulate.
        GAUGE PENDING = "quipu_rollup_counters_pending" [];
        /// Signals stored because they could not finish in time.
        COUNTER PARKED = "quipu_rollup_signals_parked_total" [];
        /// Counters that a sweep found behind and signalled.
        COUNTER SWEPT = "quipu_rollup_counters_swept_total" [];
        /// Time slices dropped by retention.
        COUNTER SLICES_DROPPED = "quipu_rollup_slices_dropped_total" [];
        /// Times that the store lost acknowledged writes, and signals were read again.
        COUNTER REWINDS = "quipu_rollup_rewinds_total" [];
    }
}

/// What the stores and the log say, in whichever role uses them.
pub mod stores {
    declare! {
        /// How long calls of the event store took, by what they did and whether it succeeded.
        CALLS EVENT_STORE_SECONDS = "quipu_event_store_seconds" ["operation" "outcome"];
        /// How long calls of the rollup store took, by what they did and whether it succeeded.
        CALLS ROLLUP_STORE_SECONDS = "quipu_rollup_store_seconds" ["operation" "outcome"];
        /// How long calls of the cache took, by what they did and whether it succeeded.
        CALLS CACHE_SECONDS = "quipu_cache_seconds" ["operation" "outcome"];
        /// How long calls of best-effort counters took, by what they did and whether it succeeded.
        CALLS BEST_EFFORT_SECONDS = "quipu_best_effort_seconds" ["operation" "outcome"];
        /// What a time slice takes on disk, by how many slices lie between it and the current one.
        GAUGE SLICE_BYTES = "quipu_event_store_slice_bytes" ["age"];
        /// Rows that were skipped because their slice is dropped.
        COUNTER DROPPED_ROWS = "quipu_event_store_rows_of_dropped_slices_total" [];
        /// Offsets that were committed but are no longer, or not yet, in their partition.
        COUNTER OUT_OF_RANGE = "quipu_kafka_offsets_out_of_range_total" ["topic"];
        /// Clients of Kafka that lost their cluster for good, and were replaced.
        COUNTER CLIENTS_LOST = "quipu_kafka_clients_lost_total" ["client"];
        /// Partitions that Kafka has but nobody registered: they are not read, and nothing closes.
        GAUGE UNREGISTERED = "quipu_kafka_partitions_unregistered" ["topic"];
    }
}

/// Every metric of every role.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    [gateway::ALL, ingest::ALL, rollup::ALL, stores::ALL]
        .into_iter()
        .flatten()
}

/// Gives the recorder that is installed the help texts.
pub fn describe() {
    for metric in all() {
        let help = metric.help.trim_start().replace('`', "");
        match metric.kind {
            Kind::Counter => describe_counter!(metric.name, help),
            Kind::Gauge => describe_gauge!(metric.name, help),
            Kind::Histogram(_) => describe_histogram!(metric.name, help),
        }
    }
}
