//! The connection: bounded in time, in memory and in attempts, and made again for ever.

use super::settings::{RedisSettings, RedisTls, SettingsError};
use fred::{
    clients::{Client, WithOptions},
    interfaces::{ClientLike, EventInterface},
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, pem::PemObject},
    },
    types::{
        Builder,
        config::{
            Config, Options, ReconnectPolicy, ServerConfig, TlsConnector, UnresponsiveConfig,
        },
    },
};
use std::time::Duration;

/// A connection without an answer for this many command timeouts is closed and made again.
const UNRESPONSIVE_TIMEOUTS: u32 = 4;
/// How often that is looked at, within one command timeout.
const LOOKS: u32 = 2;
const UNLIMITED: u32 = 0;

/// A client that connects in the background, and whose every command fails at once while there is
/// no connection. A command is sent at most once. `meanwhile` says, for people, what happens while
/// there is no Redis.
pub(super) fn connect(
    settings: &RedisSettings,
    meanwhile: &'static str,
) -> Result<WithOptions<Client>, SettingsError> {
    settings.check()?;
    let (host, port) = settings.host_and_port()?;
    let tls = settings.tls.as_ref().map(connector).transpose()?;
    let mut builder = Builder::from_config(Config {
        // The first connection is tried again like every other.
        fail_fast: false,
        server: ServerConfig::new_centralized(host, port),
        username: settings.username.clone(),
        password: settings.password.clone(),
        database: (settings.database > 0).then_some(settings.database),
        tls: tls.map(Into::into),
        ..Config::default()
    });
    let delay = u32::try_from(settings.reconnect_delay.as_millis()).unwrap_or(u32::MAX);
    builder.set_policy(ReconnectPolicy::new_constant(UNLIMITED, delay));
    builder.with_connection_config(|connection| {
        connection.connection_timeout = settings.connect_timeout;
        connection.internal_command_timeout = settings.connect_timeout;
        connection.max_command_attempts = 1;
        connection.max_command_buffer_len = settings.max_queued;
        connection.reconnect_on_auth_error = true;
        connection.tcp.nodelay = Some(true);
        connection.unresponsive = UnresponsiveConfig {
            max_timeout: Some(settings.command_timeout * UNRESPONSIVE_TIMEOUTS),
            interval: (settings.command_timeout / LOOKS).max(Duration::from_millis(2)),
        };
    });
    let client = builder.build().map_err(|error| SettingsError {
        key: "address",
        problem: error.to_string(),
    })?;
    let task = client.connect();
    tokio::spawn(async move {
        // It ends with the last client.
        if let Ok(Err(error)) = task.await {
            tracing::debug!(%error, "the connection to Redis ended");
        }
    });
    report_connection(&client, settings.address.clone(), meanwhile);
    Ok(client.with_options(&Options {
        max_attempts: Some(1),
        timeout: Some(settings.command_timeout),
        fail_fast: true,
        ..Options::default()
    }))
}

/// Says once that the connection is lost, and once that it is back.
fn report_connection(client: &Client, address: String, meanwhile: &'static str) {
    let (mut errors, mut reconnects) = (client.error_rx(), client.reconnect_rx());
    tokio::spawn(async move {
        use tokio::sync::broadcast::error::RecvError::Closed;
        let mut lost = false;
        loop {
            tokio::select! {
                error = errors.recv() => match error {
                    Ok((error, _)) if !lost => {
                        lost = true;
                        tracing::warn!(%error, %address, "no Redis; {meanwhile}");
                    }
                    Err(Closed) => return,
                    _ => {}
                },
                back = reconnects.recv() => match back {
                    Err(Closed) => return,
                    _ if lost => {
                        lost = false;
                        tracing::info!(%address, "Redis is back");
                    }
                    _ => {}
                },
            }
        }
    });
}

fn connector(tls: &RedisTls) -> Result<TlsConnector, SettingsError> {
    let refused = |problem: String| SettingsError {
        key: "tls.ca_file",
        problem,
    };
    // Dependencies bring a second provider along, and with two of them rustls wants to be told.
    // Whoever told it before has the same say.
    let _ = ring::default_provider().install_default();
    let Some(path) = &tls.ca_file else {
        return TlsConnector::default_rustls().map_err(|error| refused(error.to_string()));
    };
    let at = |error: &dyn std::fmt::Display| refused(format!("{}: {error}", path.display()));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| at(&error))? {
        let certificate = certificate.map_err(|error| at(&error))?;
        roots.add(certificate).map_err(|error| at(&error))?;
    }
    if roots.is_empty() {
        return Err(at(&"it holds no certificate in PEM"));
    }
    let config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::generate_simple_self_signed;

    #[test]
    fn certificates_of_a_file_are_trusted_and_a_file_without_any_is_named() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let file = directory.path().join("ca.pem");
        let tls = RedisTls {
            ca_file: Some(file.clone()),
        };
        let made = generate_simple_self_signed(["redis".to_owned()]).expect("a certificate");
        std::fs::write(&file, made.cert.pem()).expect("written");
        assert!(connector(&tls).is_ok());
        std::fs::write(&file, "").expect("written");
        let refused = connector(&tls).expect_err("it holds none");
        assert!(refused.problem.contains("ca.pem"), "{refused}");
    }
}
