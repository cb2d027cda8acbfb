//! Who may call a server, and how it encrypts.

use super::ProcessError;
use clap::Args;
use quipu_adapters::{
    clock::Clock,
    config::{AuthSection, ConfigError, TlsSection},
};
use quipu_gateway::{
    Access, Transport,
    auth::{Keyring, MAX_FILE_BYTES},
    reload,
};
use std::{net::SocketAddr, path::PathBuf};

/// Options of `quipu serve` and `quipu gateway`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SecurityArgs {
    /// The file that declares API keys, which every call needs then; see `quipu key create`
    #[arg(long, value_name = "FILE", env = "QUIPU_AUTH_KEYS_FILE")]
    keys: Option<PathBuf>,
    /// Let anybody call, also from other machines
    #[arg(long, env = "QUIPU_AUTH_ANONYMOUS")]
    anonymous: bool,
    /// The server's certificate and its chain, in PEM; encrypts
    #[arg(long, value_name = "FILE", env = "QUIPU_TLS_CERT_FILE")]
    tls_cert: Option<PathBuf>,
    /// The certificate's key, in PEM
    #[arg(long, value_name = "FILE", env = "QUIPU_TLS_KEY_FILE")]
    tls_key: Option<PathBuf>,
}

impl SecurityArgs {
    /// The same as sections of a configuration, checked.
    pub(crate) fn sections(&self) -> Result<(AuthSection, TlsSection), ConfigError> {
        let auth = AuthSection {
            keys_file: self.keys.clone(),
            anonymous: self.anonymous,
        };
        let tls = TlsSection {
            cert_file: self.tls_cert.clone(),
            key_file: self.tls_key.clone(),
        };
        auth.check()?;
        tls.check()?;
        Ok((auth, tls))
    }

    /// The same as keys of the configuration.
    pub(crate) fn flags(self) -> [(&'static str, Option<String>); 4] {
        let text = |path: Option<PathBuf>| path.map(|path| path.display().to_string());
        [
            ("auth.keys_file", text(self.keys)),
            ("auth.anonymous", self.anonymous.then(|| "true".to_owned())),
            ("tls.cert_file", text(self.tls_cert)),
            ("tls.key_file", text(self.tls_key)),
        ]
    }
}

/// What listeners need to know. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Security {
    pub(crate) access: Access,
    pub(crate) transport: Transport,
}

impl Security {
    /// Reads keys and certificates, and follows their changes from now on. Refuses to let anybody
    /// on other machines call unless that was said in so many words.
    pub(crate) fn open(
        auth: &AuthSection,
        tls: &TlsSection,
        addresses: &[SocketAddr],
        clock: &Clock,
    ) -> Result<Self, ProcessError> {
        let is_exposed = |address: &&SocketAddr| !address.ip().to_canonical().is_loopback();
        let exposed = addresses.iter().find(is_exposed);
        let transport = match (&tls.cert_file, &tls.key_file) {
            (Some(certificates), Some(key)) => {
                let made = Transport::tls(certificates.clone(), key.clone());
                let (transport, keep) = made.map_err(ProcessError::Security)?;
                tokio::spawn(keep);
                transport
            }
            _ => Transport::Plain,
        };
        let access = match (&auth.keys_file, exposed) {
            (Some(file), exposed) => {
                if let (Some(address), Transport::Plain) = (exposed, &transport) {
                    tracing::warn!(
                        %address,
                        "API keys travel unencrypted: set --tls-cert and --tls-key, or encrypt in front"
                    );
                }
                let made = reload::follow(vec![file.clone()], MAX_FILE_BYTES, keys);
                let (keys, keep) = made.map_err(ProcessError::Security)?;
                tokio::spawn(keep);
                let clock = clock.clone();
                Access::Keys { keys, clock }
            }
            (None, Some(address)) if !auth.anonymous => {
                return Err(ProcessError::Exposed { address: *address });
            }
            (None, exposed) => {
                if let Some(address) = exposed {
                    tracing::warn!(%address, "anybody who reaches this address may call");
                }
                Access::Anyone
            }
        };
        Ok(Self { access, transport })
    }

    /// Whether the files can be used as they are now; otherwise what is wrong with them.
    pub(crate) fn check(&self) -> Result<(), String> {
        if let Access::Keys { keys, .. } = &self.access {
            keys.check()?;
        }
        self.transport.check()
    }
}

fn keys(read: &[Vec<u8>]) -> Result<Keyring, String> {
    let text = std::str::from_utf8(&read[0]).map_err(|error| error.to_string())?;
    Keyring::parse(text)
}
