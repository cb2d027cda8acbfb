//! How Redis is reached.

use crate::http::Failure;
use fred::types::config::{Config, Server, ServerConfig};

/// The configuration of a client of one server, at `host:port`.
pub(super) fn config(address: &str) -> Result<Config, Failure> {
    let (host, port) = address
        .rsplit_once(':')
        .ok_or("Redis' address has no port")?;
    Ok(Config {
        server: ServerConfig::Centralized {
            server: Server::new(host, port.parse()?),
        },
        ..Config::default()
    })
}
