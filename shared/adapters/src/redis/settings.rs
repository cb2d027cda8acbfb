//! How Redis is reached, and how long it keeps what it is given.

use std::{fmt, path::PathBuf, time::Duration};

/// How Redis is reached, and how long it keeps what it is given.
#[derive(Clone)]
pub struct RedisSettings {
    /// `host:port`.
    pub address: String,
    /// The number of the database there, and in every other server.
    pub database: u8,
    /// `host:port` of others that may hold copies of best-effort counters: a delete must reach them.
    pub replicas: Vec<String>,
    /// Who this is, where Redis has users.
    pub username: Option<String>,
    /// The password, where Redis asks for one; never shown.
    pub password: Option<String>,
    /// Encryption of the connection; none by default.
    pub tls: Option<RedisTls>,
    /// What every key begins with, so that several installations can share one Redis.
    pub key_prefix: String,
    /// How long a checkpoint is kept after it was last set. Best-effort counters have their own.
    pub ttl: Duration,
    /// How long a connection may take to open.
    pub connect_timeout: Duration,
    /// How long a read or a set may take.
    pub command_timeout: Duration,
    /// How long to wait before another attempt to connect.
    pub reconnect_delay: Duration,
    /// Commands that wait to be sent; more are refused at once.
    pub max_queued: usize,
}

/// Encryption of the connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedisTls {
    /// The authorities that the server's certificate is checked against, in PEM; those of the
    /// system by default.
    pub ca_file: Option<PathBuf>,
}

/// Settings that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("redis.{key}: {problem}")]
pub struct SettingsError {
    /// The setting to blame.
    pub key: &'static str,
    /// What is wrong with it, and what it may be.
    pub problem: String,
}

impl Default for RedisSettings {
    fn default() -> Self {
        Self {
            address: "127.0.0.1:6379".to_owned(),
            database: 0,
            replicas: Vec::new(),
            username: None,
            password: None,
            tls: None,
            key_prefix: "quipu".to_owned(),
            ttl: Duration::from_hours(24),
            connect_timeout: Duration::from_secs(2),
            command_timeout: Duration::from_millis(500),
            reconnect_delay: Duration::from_millis(500),
            max_queued: 16_384,
        }
    }
}

impl fmt::Debug for RedisSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let password = self.password.as_ref().map(|_| "[redacted]");
        f.debug_struct("RedisSettings")
            .field("address", &self.address)
            .field("database", &self.database)
            .field("replicas", &self.replicas)
            .field("username", &self.username)
            .field("password", &password)
            .field("tls", &self.tls)
            .field("key_prefix", &self.key_prefix)
            .field("ttl", &self.ttl)
            .field("connect_timeout", &self.connect_timeout)
            .field("command_timeout", &self.command_timeout)
            .field("reconnect_delay", &self.reconnect_delay)
            .field("max_queued", &self.max_queued)
            .finish()
    }
}

impl RedisSettings {
    /// Checks what no type can.
    ///
    /// # Errors
    /// Names the setting and what it may be.
    pub fn check(&self) -> Result<(), SettingsError> {
        let refuse = |key, problem: &str| {
            Err(SettingsError {
                key,
                problem: problem.to_owned(),
            })
        };
        self.host_and_port()?;
        for replica in &self.replicas {
            split("replicas", replica)?;
            if *replica == self.address {
                return refuse("replicas", "it names the address itself; leave that out");
            }
        }
        if self.key_prefix.is_empty() || self.key_prefix.contains(['{', '}', ':']) {
            return refuse("key_prefix", "it must have text, and no '{', '}' or ':'");
        }
        if self.ttl < Duration::from_secs(1) || self.ttl > Duration::from_hours(24 * 365) {
            return refuse("ttl", "it must be between 1s and 365d");
        }
        for (key, value) in [
            ("connect_timeout", self.connect_timeout),
            ("command_timeout", self.command_timeout),
            ("reconnect_delay", self.reconnect_delay),
        ] {
            if value < Duration::from_millis(1) || value > Duration::from_secs(5) {
                return refuse(key, "it must be between 1ms and 5s");
            }
        }
        if self.max_queued == 0 {
            return refuse("max_queued", "it must be at least 1");
        }
        Ok(())
    }

    pub(super) fn host_and_port(&self) -> Result<(&str, u16), SettingsError> {
        split("address", &self.address)
    }
}

fn split<'a>(key: &'static str, address: &'a str) -> Result<(&'a str, u16), SettingsError> {
    let (host, port) = address.rsplit_once(':').unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match port.parse() {
        Ok(port) if !host.is_empty() => Ok((host, port)),
        _ => Err(SettingsError {
            key,
            problem: format!("{address:?} is not HOST:PORT, such as 127.0.0.1:6379"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        let settings = RedisSettings {
            password: Some("hunter2".to_owned()),
            ..RedisSettings::default()
        };
        let shown = format!("{settings:?}");
        assert!(shown.contains("[redacted]"), "{shown}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn settings_that_cannot_be_are_refused_by_name() {
        assert_eq!(RedisSettings::default().check(), Ok(()));
        let with = |change: fn(&mut RedisSettings)| {
            let mut settings = RedisSettings::default();
            change(&mut settings);
            settings.check().unwrap_err().key
        };
        assert_eq!(with(|s| s.address = "localhost".to_owned()), "address");
        assert_eq!(with(|s| s.replicas = vec!["b".to_owned()]), "replicas");
        let itself = with(|s| s.replicas = vec![s.address.clone()]);
        assert_eq!(itself, "replicas");
        assert_eq!(with(|s| s.key_prefix = "a{b}".to_owned()), "key_prefix");
        assert_eq!(with(|s| s.ttl = Duration::ZERO), "ttl");
        assert_eq!(
            with(|s| s.command_timeout = Duration::ZERO),
            "command_timeout"
        );
        assert_eq!(with(|s| s.max_queued = 0), "max_queued");
    }

    #[test]
    fn addresses_of_ipv6_have_brackets() {
        let settings = RedisSettings {
            address: "[::1]:6379".to_owned(),
            ..RedisSettings::default()
        };
        assert_eq!(settings.host_and_port(), Ok(("::1", 6379)));
    }
}
