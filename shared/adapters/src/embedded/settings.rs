//! Settings of the embedded node.

use super::{Dataset, EmbeddedCache};

/// How an embedded node is opened.
#[derive(Clone, Copy, Debug)]
pub struct EmbeddedSettings {
    /// The log's settings.
    pub log: LogSettings,
    /// How events lie in time, and how long they are kept.
    pub dataset: Dataset,
    /// What cached checkpoints may take of the memory, in bytes.
    pub cache_bytes: u64,
}

/// How the log is opened.
#[derive(Clone, Copy, Debug)]
pub struct LogSettings {
    /// Partitions of the events topic. Settled when the directory is created; ignored later.
    pub event_partitions: u32,
    /// Partitions of the signals topic. Settled when the directory is created; ignored later.
    pub signal_partitions: u32,
    /// A segment that holds this many bytes is followed by a new one.
    pub segment_bytes: u64,
    /// Newest records that are kept in memory for consumers, of all partitions together.
    pub tail_bytes: usize,
    /// Requests that wait for the writer, in bytes; who wants to add more waits.
    pub queue_bytes: u32,
    /// The largest record that the log takes, in bytes of value and headers.
    pub max_record_bytes: usize,
}

impl Default for EmbeddedSettings {
    fn default() -> Self {
        Self {
            log: LogSettings::default(),
            dataset: Dataset::default(),
            cache_bytes: EmbeddedCache::DEFAULT_BYTES,
        }
    }
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            event_partitions: 4,
            signal_partitions: 4,
            segment_bytes: 8 << 20,
            tail_bytes: 4 << 20,
            queue_bytes: 8 << 20,
            max_record_bytes: 1 << 20,
        }
    }
}
