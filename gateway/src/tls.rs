//! TLS of a listener: certificates from PEM files, read again when they change.

use crate::reload::{self, Current};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use std::{path::PathBuf, sync::Arc};

/// The largest file of certificates, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;
pub(crate) const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// How a listener speaks to its clients.
#[derive(Clone)]
pub enum Transport {
    /// As it is: for this machine, or behind something that encrypts.
    Plain,
    /// Encrypted, with the certificate of the moment.
    Tls(Current<ServerConfig>),
}

impl Transport {
    /// Encrypted with a certificate (its chain included) and its key, from two PEM files; and the
    /// future that reads them again: spawn it.
    ///
    /// # Errors
    /// Names the files, and says what is wrong with them.
    pub fn tls(
        certificates: PathBuf,
        key: PathBuf,
    ) -> Result<(Self, impl Future<Output = ()> + Send + 'static), String> {
        let files = vec![certificates, key];
        let (current, keep) =
            reload::follow(files, MAX_FILE_BYTES, |read| config(&read[0], &read[1]))?;
        Ok((Self::Tls(current), keep))
    }

    /// The scheme of its URLs.
    pub fn scheme(&self) -> &'static str {
        match self {
            Self::Plain => "http",
            Self::Tls(_) => "https",
        }
    }

    /// Whether the files can be used as they are now; otherwise what is wrong with them.
    ///
    /// # Errors
    /// Names the files.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Plain => Ok(()),
            Self::Tls(current) => current.check(),
        }
    }
}

fn config(certificates: &[u8], key: &[u8]) -> Result<ServerConfig, String> {
    let chain = CertificateDer::pem_slice_iter(certificates)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| format!("the certificate is no PEM: {error}"))?;
    if chain.is_empty() {
        return Err("there is no CERTIFICATE in the certificate's file".to_owned());
    }
    // The error names the kind of what it found, never its content.
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|error| format!("there is no PRIVATE KEY in the key's file: {error}"))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|error| format!("the certificate and the key cannot be used: {error}"))?;
    config.alpn_protocols = [HTTP2, HTTP1].map(<[u8]>::to_vec).into();
    Ok(config)
}
