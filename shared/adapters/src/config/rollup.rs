//! The section `[rollup]`.

use super::{
    ConfigError, duration,
    error::{show_duration, within},
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// `quipu rollup-worker`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RollupSection {
    /// The address for health and metrics; port 0 picks a free one.
    pub http: String,
    /// The consumer group.
    pub group: String,
    /// Counters kept in memory; signals of more are parked.
    pub pending: usize,
    /// Counters that stay in circulation although they have converged.
    pub circulating: usize,
    /// Signals that are not finished after this long are parked (R17).
    #[serde(with = "duration")]
    pub park_after: Duration,
    /// A batch that takes longer shows that the stores are loaded.
    #[serde(with = "duration")]
    pub batch_target: Duration,
    /// The smallest batch of counters.
    pub batch_least: usize,
    /// The largest batch of counters.
    pub batch_most: usize,
    /// How often finished work is made durable and committed.
    #[serde(with = "duration")]
    pub sync_every: Duration,
    /// How often the sweep walks all slices (R18).
    #[serde(with = "duration")]
    pub sweep_every: Duration,
    /// How long the sweep rests between pages.
    #[serde(with = "duration")]
    pub sweep_page_pause: Duration,
    /// A process that makes no progress for this long is unhealthy.
    #[serde(with = "duration")]
    pub stuck_after: Duration,
}

impl Default for RollupSection {
    fn default() -> Self {
        Self {
            http: "127.0.0.1:7073".to_owned(),
            group: "quipu-rollup".to_owned(),
            pending: 200_000,
            circulating: 10_000,
            park_after: Duration::from_secs(30),
            batch_target: Duration::from_millis(250),
            batch_least: 64,
            batch_most: 4_096,
            sync_every: Duration::from_millis(250),
            sweep_every: Duration::from_mins(5),
            sweep_page_pause: Duration::from_millis(100),
            stuck_after: Duration::from_mins(5),
        }
    }
}

impl RollupSection {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        for (key, value, limits) in [
            ("rollup.pending", self.pending, (1_000, 10_000_000)),
            ("rollup.circulating", self.circulating, (0, 10_000_000)),
            ("rollup.batch_least", self.batch_least, (1, self.batch_most)),
            ("rollup.batch_most", self.batch_most, (1, 65_536)),
        ] {
            within(key, value, limits, |n| n.to_string())?;
        }
        let moment = Duration::from_millis(10);
        let day = Duration::from_hours(24);
        for (key, value, limits) in [
            (
                "rollup.park_after",
                self.park_after,
                (Duration::from_secs(1), day),
            ),
            (
                "rollup.batch_target",
                self.batch_target,
                (moment, Duration::from_mins(1)),
            ),
            (
                "rollup.sync_every",
                self.sync_every,
                (moment, Duration::from_mins(1)),
            ),
            (
                "rollup.sweep_every",
                self.sweep_every,
                (Duration::from_secs(1), day),
            ),
            (
                "rollup.sweep_page_pause",
                self.sweep_page_pause,
                (Duration::ZERO, Duration::from_mins(1)),
            ),
            (
                "rollup.stuck_after",
                self.stuck_after,
                (Duration::from_secs(10), day),
            ),
        ] {
            within(key, value, limits, show_duration)?;
        }
        Ok(())
    }
}
