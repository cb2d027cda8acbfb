//! Encryption of connections, from files in PEM.

use super::settings::TlsSettings;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use std::{fmt, path::Path, sync::Arc};

/// The driver's form of the settings. Blocks while it reads the files.
///
/// # Errors
/// With a text that names the file, when one cannot be read or used.
pub(super) fn client_config(settings: &TlsSettings) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&settings.ca_file)? {
        roots
            .add(certificate)
            .map_err(|error| unusable(&settings.ca_file, &error))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let config = match &settings.identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let chain = certificates(&identity.certificate_file)?;
            let key = PrivateKeyDer::from_pem_file(&identity.key_file)
                .map_err(|error| unusable(&identity.key_file, &error))?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| unusable(&identity.certificate_file, &error))?
        }
    };
    Ok(Arc::new(config))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|error| unusable(file, &error));
    match certificates {
        Ok(none) if none.is_empty() => Err(unusable(file, &"it holds no certificate")),
        other => other,
    }
}

fn unusable(file: &Path, problem: &dyn fmt::Display) -> String {
    format!("cannot use the TLS file {}: {problem}", file.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_missing_or_empty_is_named() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let ca_file = dir.path().join("ca.pem");
        let settings = TlsSettings {
            ca_file: ca_file.clone(),
            identity: None,
        };
        let missing = client_config(&settings).expect_err("it is missing");
        std::fs::write(&ca_file, "").expect("written");
        let empty = client_config(&settings).expect_err("it is empty");
        for text in [missing, empty] {
            assert!(text.contains("ca.pem"), "{text}");
        }
    }
}
