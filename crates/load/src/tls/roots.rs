//! By what the certificates of servers are verified.

use std::path::{Path, PathBuf};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, RootCertStore, SignatureScheme};

/// By what a server's certificate is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Roots {
    /// The root certificates of this machine.
    System,
    /// The certificates in this file, which is in PEM.
    File(PathBuf),
    /// Nothing: every certificate is accepted. The server still has to have its key.
    None,
}

/// There are no root certificates as they are asked for.
#[derive(Debug, thiserror::Error)]
pub enum NoRoots {
    /// The file of root certificates.
    #[error("--roots {}: {reason}; allowed: a file with certificates in PEM", file.display())]
    File {
        /// Its name.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// This machine has no root certificates.
    #[error(
        "this machine has no root certificates{reason}; name a file with --roots, or accept every \
         certificate with --insecure"
    )]
    Machine {
        /// Why none could be read, after a colon; empty if none was found.
        reason: String,
    },
}

/// Those of this machine that can be understood, as some may be odd.
pub(super) fn system_roots() -> Result<RootCertStore, NoRoots> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let reason = found.errors.first().map_or_else(String::new, |error| format!(": {error}"));
        return Err(NoRoots::Machine { reason });
    }
    Ok(roots)
}

/// All of a file, each of which must be understood.
pub(super) fn roots_in(file: &Path) -> Result<RootCertStore, NoRoots> {
    let unusable = |reason: String| NoRoots::File { file: file.to_owned(), reason };
    let unreadable = |error: pem::Error| match error {
        pem::Error::Io(error) => unusable(error.to_string()),
        _ => unusable("it is malformed".to_owned()),
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(unreadable)? {
        let number = roots.len() + 1;
        let added = roots.add(certificate.map_err(unreadable)?);
        added.map_err(|_| unusable(format!("certificate {number} in it is malformed")))?;
    }
    if roots.is_empty() {
        return Err(unusable("there is no certificate in it".to_owned()));
    }
    Ok(roots)
}

/// Accepts every certificate. That the server has its key is verified all the same, so that a handshake costs
/// what it costs.
#[derive(Debug)]
pub(super) struct Any(pub(super) WebPkiSupportedAlgorithms);

impl ServerCertVerifier for Any {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_roots_has_certificates() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("roots.pem");
        let error = |roots: &Path| roots_in(roots).unwrap_err().to_string();
        assert!(error(&file).contains("roots.pem: No such file"), "{}", error(&file));
        for (content, told) in [
            ("nothing\n", "there is no certificate in it; allowed: a file with certificates in PEM"),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n", "roots.pem: it is malformed; allowed"),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "certificate 1 in it is mal"),
        ] {
            std::fs::write(&file, content).unwrap();
            assert!(error(&file).contains(told), "{}", error(&file));
        }
    }
}
