//! A certificate authority for a test, and the certificates that it signs. Clients are told to trust it.

use std::fs;
use std::path::{Path, PathBuf};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// An authority.
pub struct Authority {
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate that an authority has signed, and its key.
pub struct Issued {
    /// The certificate.
    pub certificate: Certificate,
    /// Its key.
    pub key: KeyPair,
}

impl Authority {
    /// Creates an authority.
    pub fn create() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new([]).expect("no names");
        params.distinguished_name.push(DnType::CommonName, "authority of a test");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key).expect("a certificate");
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    /// Signs a certificate for these names and IP addresses. The first one is also its common name.
    pub fn issue(&self, names: &[&str]) -> Issued {
        let key = KeyPair::generate().expect("a key");
        let of: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(of).expect("names");
        params.distinguished_name.push(DnType::CommonName, names[0]);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Issued { certificate, key }
    }

    /// Writes the authority's certificate to this file, in PEM.
    pub fn write(&self, path: &Path) {
        fs::write(path, pem("CERTIFICATE", self.certificate.der())).expect("a file");
    }
}

impl Issued {
    /// Writes the certificate and the key to `NAME.pem` and `NAME.key` in this directory, in PEM. Returns
    /// the paths.
    pub fn write(&self, directory: &Path, name: &str) -> [PathBuf; 2] {
        let paths = ["pem", "key"].map(|extension| directory.join(format!("{name}.{extension}")));
        fs::write(&paths[0], pem("CERTIFICATE", self.certificate.der())).expect("a file");
        fs::write(&paths[1], pem("PRIVATE KEY", self.key.serialized_der())).expect("a file");
        paths
    }
}

/// The text of RFC 7468.
fn pem(label: &str, bytes: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(bytes);
    let mut lines = vec![format!("-----BEGIN {label}-----")];
    lines.extend(text.as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line).into_owned()));
    lines.push(format!("-----END {label}-----\n"));
    lines.join("\n")
}
