//! The section `[redis]`.

use super::{ConfigError, duration, secret};
use serde::{Deserialize, Serialize};
use std::{path::PathBuf, time::Duration};

/// How Redis is reached, and how long it keeps what it is given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RedisSection {
    /// `host:port`.
    pub address: String,
    /// The number of the database there.
    pub database: u8,
    /// `host:port` of others that may hold copies of best-effort counters.
    pub replicas: Vec<String>,
    /// Who this is, where Redis has users.
    pub username: Option<String>,
    /// A file with the password.
    pub password_file: Option<PathBuf>,
    /// Whether the connection is encrypted.
    pub tls: bool,
    /// The authorities that the server's certificate is checked against, in PEM.
    pub tls_ca_file: Option<PathBuf>,
    /// What every key begins with.
    pub key_prefix: String,
    /// How long a count is kept after it was last set.
    #[serde(with = "duration")]
    pub ttl: Duration,
    /// How long a connection may take to open.
    #[serde(with = "duration")]
    pub connect_timeout: Duration,
    /// How long a read or a set may take.
    #[serde(with = "duration")]
    pub command_timeout: Duration,
    /// How long to wait before another attempt to connect.
    #[serde(with = "duration")]
    pub reconnect_delay: Duration,
    /// Commands that wait to be sent; more are refused at once.
    pub max_queued: usize,
}

impl Default for RedisSection {
    fn default() -> Self {
        Self {
            address: "127.0.0.1:6379".to_owned(),
            database: 0,
            replicas: Vec::new(),
            username: None,
            password_file: None,
            tls: false,
            tls_ca_file: None,
            key_prefix: "quipu".to_owned(),
            ttl: Duration::from_hours(24),
            connect_timeout: Duration::from_secs(2),
            command_timeout: Duration::from_millis(500),
            reconnect_delay: Duration::from_millis(500),
            max_queued: 16_384,
        }
    }
}

impl RedisSection {
    #[cfg(not(feature = "cluster"))]
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        secret::readable("redis.tls_ca_file", self.tls_ca_file.as_deref())?;
        secret::read("redis.password_file", self.password_file.as_deref()).map(drop)
    }

    #[cfg(feature = "cluster")]
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        secret::readable("redis.tls_ca_file", self.tls_ca_file.as_deref())?;
        self.settings().map(drop)
    }

    /// The settings of the cache.
    ///
    /// # Errors
    /// When the file of the password cannot be read, or a setting cannot be.
    #[cfg(feature = "cluster")]
    pub fn settings(&self) -> Result<crate::redis::RedisSettings, ConfigError> {
        let password = secret::read("redis.password_file", self.password_file.as_deref())?;
        let tls = self.tls.then(|| crate::redis::RedisTls {
            ca_file: self.tls_ca_file.clone(),
        });
        let settings = crate::redis::RedisSettings {
            address: self.address.clone(),
            database: self.database,
            replicas: self.replicas.clone(),
            username: self.username.clone(),
            password,
            tls,
            key_prefix: self.key_prefix.clone(),
            ttl: self.ttl,
            connect_timeout: self.connect_timeout,
            command_timeout: self.command_timeout,
            reconnect_delay: self.reconnect_delay,
            max_queued: self.max_queued,
        };
        let refused = settings.check();
        refused
            .map_err(|error| ConfigError::value(&format!("redis.{}", error.key), error.problem))?;
        Ok(settings)
    }
}
