//! Configuration: plain data from flags, the environment, one TOML file and defaults, in this
//! order. Whatever is made of it is made elsewhere.

mod auth;
mod cassandra;
mod cluster;
mod duration;
mod error;
mod gateway;
mod ingest;
mod kafka;
mod keys;
mod load;
mod redis;
mod rollup;
mod secret;
mod telemetry;

#[cfg(test)]
mod tests;

pub use auth::{AuthSection, TlsSection};
pub use cassandra::{CassandraSection, Consistency};
pub use error::ConfigError;
pub use gateway::GatewaySection;
pub use ingest::IngestSection;
pub use kafka::{KafkaSection, Topics};
pub use keys::{Key, keys, variable};
pub use load::Sources;
pub use redis::RedisSection;
pub use rollup::RollupSection;
pub use telemetry::{LogFormat, TelemetrySection};

use serde::{Deserialize, Serialize};

/// Everything that can be set, for every role; each reads what concerns it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The log.
    pub kafka: KafkaSection,
    /// The stores and the control plane.
    pub cassandra: CassandraSection,
    /// The cache.
    pub redis: RedisSection,
    /// `quipu gateway`.
    pub gateway: GatewaySection,
    /// `quipu ingest`.
    pub ingest: IngestSection,
    /// `quipu rollup-worker`.
    pub rollup: RollupSection,
    /// Who may call a gateway.
    pub auth: AuthSection,
    /// How a gateway encrypts.
    pub tls: TlsSection,
    /// Logs.
    pub telemetry: TelemetrySection,
}

impl Config {
    /// Checks what no type can, and that the files which it names can be read.
    ///
    /// # Errors
    /// Names the key, and what it may be.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.check_servers()?;
        self.gateway.check()?;
        self.auth.check()?;
        self.tls.check()?;
        self.ingest.check()?;
        self.rollup.check()
    }

    /// The same, of what a cluster is made of.
    fn check_servers(&self) -> Result<(), ConfigError> {
        self.kafka.check()?;
        self.cassandra.check()?;
        self.redis.check()
    }

    /// The whole configuration as a TOML file, without secrets.
    ///
    /// # Panics
    /// Never: all of it is text, numbers and tables.
    pub fn to_toml(&self) -> String {
        let mut shown = self.clone();
        shown.kafka.redact();
        toml::to_string(&shown).expect("a configuration is TOML")
    }
}
