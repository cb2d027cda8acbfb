//! The section `[telemetry]`.

use serde::{Deserialize, Serialize};

/// What a role says of itself on standard error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TelemetrySection {
    /// How log lines look.
    pub log_format: LogFormat,
    /// What is logged: a level, or directives such as `info,quipu_ingest=debug`.
    pub log: String,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For machines: an object a line.
    Json,
}

impl Default for TelemetrySection {
    fn default() -> Self {
        Self {
            log_format: LogFormat::default(),
            log: "info".to_owned(),
        }
    }
}
