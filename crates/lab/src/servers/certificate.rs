//! The certificates that the servers of an experiment share: one for each kind of key that it asks for. They
//! are self-signed, with new keys. Only the clients of the experiment trust them, so their keys open nothing
//! else.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use rcgen::{CertificateParams, DnType, KeyPair, RsaKeySize};

use super::tls::Key;

/// The name that they are for. Servers listen at many addresses, so clients ask for this name at all of them.
pub(crate) const NAME: &str = "localhost";

/// The file in a directory with the certificate for a kind of key, and that key, in PEM.
pub(crate) fn file(directory: &Path, key: Key) -> PathBuf {
    directory.join(match key {
        Key::Ecdsa => "tls.pem",
        Key::Rsa => "tls-rsa.pem",
    })
}

/// Writes a new certificate and its key to their file in this directory. One that is there already stays,
/// because an experiment that continues has the same.
pub(crate) fn keep(directory: &Path, key: Key) -> Result<PathBuf> {
    let path = file(directory, key);
    if path.is_file() {
        return Ok(path);
    }
    let text = make(key).context("cannot make a certificate")?;
    // An interrupted lab leaves no half of a file.
    let part = path.with_extension("part");
    let mut options = OpenOptions::new();
    let written = options.write(true).create(true).truncate(true).mode(0o600).open(&part);
    let written = written.and_then(|mut file| file.write_all(text.as_bytes()));
    let written = written.and_then(|()| fs::rename(&part, &path));
    written.with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

fn make(key: Key) -> Result<String, rcgen::Error> {
    let key = match key {
        Key::Ecdsa => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?,
        Key::Rsa => KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048)?,
    };
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
        let keep = |key| keep(directory.path(), key).unwrap();
        let path = keep(Key::Ecdsa);
        let first = fs::read_to_string(&path).unwrap();
        let labels: Vec<&str> = first.lines().filter(|line| line.starts_with("-----BEGIN")).collect();
        assert_eq!(labels, ["-----BEGIN CERTIFICATE-----", "-----BEGIN PRIVATE KEY-----"]);
        assert!(first.lines().all(|line| line.len() <= 64));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        keep(Key::Ecdsa);
        assert_eq!(fs::read_to_string(&path).unwrap(), first);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        // An RSA key with 2048 bits has about 1,200 bytes, and one on P-256 has about 140.
        let rsa = fs::read_to_string(keep(Key::Rsa)).unwrap();
        assert!(rsa.len() > first.len() + 1_500 && rsa.len() < first.len() + 3_000, "{rsa}");
    }
}
