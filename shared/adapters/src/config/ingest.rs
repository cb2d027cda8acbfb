//! The section `[ingest]`.

use super::{
    ConfigError, duration,
    error::{show_duration, within},
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// `quipu ingest`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IngestSection {
    /// The address for health and metrics; port 0 picks a free one.
    pub http: String,
    /// The consumer group.
    pub group: String,
    /// Rows and dead letters of a batch.
    pub batch_rows: usize,
    /// How long a batch waits for more.
    #[serde(with = "duration")]
    pub linger: Duration,
    /// Batches under way at once: each waits until it is durable (R11).
    pub in_flight: usize,
    /// How often a partition at its end gets a tick (R13).
    #[serde(with = "duration")]
    pub tick_active: Duration,
    /// The same, when nothing was written for a while.
    #[serde(with = "duration")]
    pub tick_idle: Duration,
    /// How long that while is.
    #[serde(with = "duration")]
    pub idle_after: Duration,
    /// More refused of a hundred recent records of a partition stop the process; 100 for never.
    pub most_refused_percent: u32,
    /// A partition that makes no progress for this long makes the process unhealthy.
    #[serde(with = "duration")]
    pub stuck_after: Duration,
}

impl Default for IngestSection {
    fn default() -> Self {
        Self {
            http: "127.0.0.1:7072".to_owned(),
            group: "quipu-ingest".to_owned(),
            batch_rows: 16_384,
            linger: Duration::from_millis(50),
            in_flight: 18,
            tick_active: Duration::from_millis(500),
            tick_idle: Duration::from_secs(1),
            idle_after: Duration::from_secs(30),
            most_refused_percent: 90,
            stuck_after: Duration::from_mins(5),
        }
    }
}

impl IngestSection {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        for (key, value, limits) in [
            ("ingest.batch_rows", self.batch_rows, (1, 65_536)),
            ("ingest.in_flight", self.in_flight, (1, 1_024)),
        ] {
            within(key, value, limits, |n| n.to_string())?;
        }
        let key = "ingest.most_refused_percent";
        within(key, self.most_refused_percent, (1, 100), |n| n.to_string())?;
        let tick = (Duration::from_millis(50), Duration::from_secs(10));
        let moment = Duration::from_millis(1);
        for (key, value, limits) in [
            (
                "ingest.linger",
                self.linger,
                (moment, Duration::from_secs(1)),
            ),
            ("ingest.tick_active", self.tick_active, tick),
            ("ingest.tick_idle", self.tick_idle, tick),
            (
                "ingest.idle_after",
                self.idle_after,
                (moment, Duration::from_hours(1)),
            ),
            (
                "ingest.stuck_after",
                self.stuck_after,
                (Duration::from_secs(10), Duration::from_hours(24)),
            ),
        ] {
            within(key, value, limits, show_duration)?;
        }
        Ok(())
    }
}
