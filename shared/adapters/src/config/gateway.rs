//! The section `[gateway]`.

use super::{
    ConfigError, duration,
    error::{show_duration, within},
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// `quipu gateway`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GatewaySection {
    /// The address for HTTP/JSON; port 0 picks a free one.
    pub http: String,
    /// The address for gRPC; port 0 picks a free one.
    pub grpc: String,
    /// How far the time that decides may be after the one that Kafka gives, at most (R7).
    #[serde(with = "duration")]
    pub append_guard: Duration,
    /// Partitions of the event store that one accurate read may scan.
    pub max_scan_partitions: u64,
    /// Events that one accurate read may scan.
    pub max_scan_events: u64,
    /// Connections to each address.
    pub max_connections: usize,
    /// Requests in flight at each address.
    pub max_requests: usize,
    /// How long a request may take.
    #[serde(with = "duration")]
    pub request_timeout: Duration,
    /// How long requests in flight may take to end after the process was asked to stop.
    #[serde(with = "duration")]
    pub drain: Duration,
}

impl Default for GatewaySection {
    fn default() -> Self {
        Self {
            http: "127.0.0.1:7070".to_owned(),
            grpc: "127.0.0.1:7071".to_owned(),
            append_guard: Duration::from_secs(1),
            max_scan_partitions: 256,
            max_scan_events: 100_000,
            max_connections: 1_024,
            max_requests: 4_096,
            request_timeout: Duration::from_secs(30),
            drain: Duration::from_secs(4),
        }
    }
}

impl GatewaySection {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let moment = Duration::from_millis(100);
        for (key, value, limits) in [
            (
                "gateway.append_guard",
                self.append_guard,
                (moment, Duration::from_hours(1)),
            ),
            (
                "gateway.request_timeout",
                self.request_timeout,
                (moment, Duration::from_mins(10)),
            ),
            (
                "gateway.drain",
                self.drain,
                (Duration::ZERO, Duration::from_mins(10)),
            ),
        ] {
            within(key, value, limits, show_duration)?;
        }
        for (key, value) in [
            ("gateway.max_connections", self.max_connections),
            ("gateway.max_requests", self.max_requests),
        ] {
            within(key, value, (1, 1_000_000), |n| n.to_string())?;
        }
        for (key, value, most) in [
            (
                "gateway.max_scan_partitions",
                self.max_scan_partitions,
                100_000,
            ),
            ("gateway.max_scan_events", self.max_scan_events, 100_000_000),
        ] {
            within(key, value, (1, most), |n| n.to_string())?;
        }
        Ok(())
    }
}
