//! The sections `[auth]` and `[tls]`.

use super::{ConfigError, secret};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Who may call a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuthSection {
    /// The file that declares API keys; without one, no call needs a key.
    pub keys_file: Option<PathBuf>,
    /// Lets anybody call, also from other machines.
    pub anonymous: bool,
}

/// How a server encrypts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsSection {
    /// The server's certificate and its chain, in PEM; encrypts.
    pub cert_file: Option<PathBuf>,
    /// Its key, in PEM.
    pub key_file: Option<PathBuf>,
}

impl AuthSection {
    /// Checks what no type can, and that the file can be read.
    ///
    /// # Errors
    /// Names the key, and what it may be.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.anonymous && self.keys_file.is_some() {
            let problem = "a server with keys asks everybody for one: set auth.keys_file or \
                           auth.anonymous, not both";
            return Err(ConfigError::value("auth.anonymous", problem));
        }
        secret::readable("auth.keys_file", self.keys_file.as_deref())
    }
}

impl TlsSection {
    /// Checks what no type can, and that the files can be read.
    ///
    /// # Errors
    /// Names the key, and what it may be.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.cert_file.is_some() != self.key_file.is_some() {
            let problem = "set tls.cert_file and tls.key_file together, or neither";
            return Err(ConfigError::value("tls.key_file", problem));
        }
        secret::readable("tls.cert_file", self.cert_file.as_deref())?;
        secret::readable("tls.key_file", self.key_file.as_deref())
    }
}
