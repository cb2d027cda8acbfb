//! Whose certificates a client trusts.

use crate::options::{ClientOptions, OptionsError};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};

/// The same endpoint, encrypted when its URL says so.
pub(crate) fn secure(
    endpoint: Endpoint,
    options: &ClientOptions,
) -> Result<Endpoint, OptionsError> {
    let is_https = options.server.starts_with("https://");
    let tls = match (&options.ca_certificates, is_https) {
        (None, false) => return Ok(endpoint),
        (Some(_), false) => {
            let server = &options.server;
            return Err(OptionsError(format!(
                "certificates are trusted of https:// servers only, and {server:?} is none"
            )));
        }
        (None, true) => ClientTlsConfig::new().with_native_roots(),
        (Some(pem), true) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)),
    };
    endpoint
        .tls_config(tls)
        .map_err(|error| OptionsError(format!("TLS cannot be used: {error}")))
}
