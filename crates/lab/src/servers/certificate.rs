//! The certificate that the servers of an experiment share. It is self-signed, with a new ECDSA key on
//! P-256. Only the clients of the experiment trust it, so its key opens nothing else.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::{Context, Result};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use rcgen::{CertificateParams, DnType, KeyPair};

/// The name that it is for. Servers listen at many addresses, so clients ask for this name at all of them.
pub(crate) const NAME: &str = "localhost";

/// The name of the file with certificate and key, in PEM.
pub(crate) const FILE: &str = "tls.pem";

/// Writes a new certificate and its key to this file. One that is there already stays, because an
/// experiment that continues has the same.
pub(crate) fn keep(path: &Path) -> Result<()> {
    if path.is_file() {
        return Ok(());
    }
    let text = make().context("cannot make a certificate")?;
    // An interrupted lab leaves no half of a file.
    let part = path.with_extension("part");
    let mut options = OpenOptions::new();
    let written = options.write(true).create(true).truncate(true).mode(0o600).open(&part);
    let written = written.and_then(|mut file| file.write_all(text.as_bytes()));
    written.and_then(|()| fs::rename(&part, path)).with_context(|| format!("cannot write {}", path.display()))
}

fn make() -> Result<String, rcgen::Error> {
    let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
    let mut params = CertificateParams::new([NAME.to_owned()])?;
    params.distinguished_name.push(DnType::CommonName, "sluicelab");
    let certificate = params.self_signed(&key)?;
    Ok(pem("CERTIFICATE", certificate.der()) + &pem("PRIVATE KEY", key.serialized_der()))
}

/// The text of RFC 7468.
fn pem(label: &str, bytes: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(bytes);
    let lines = text.as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line) + "\n");
    format!("-----BEGIN {label}-----\n{}-----END {label}-----\n", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_certificate_is_made_once_and_only_its_owner_reads_the_key() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE);
        keep(&path).unwrap();
        let first = fs::read_to_string(&path).unwrap();
        let labels: Vec<&str> = first.lines().filter(|line| line.starts_with("-----BEGIN")).collect();
        assert_eq!(labels, ["-----BEGIN CERTIFICATE-----", "-----BEGIN PRIVATE KEY-----"]);
        assert!(first.lines().all(|line| line.len() <= 64));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        keep(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), first);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
