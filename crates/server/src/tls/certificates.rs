//! Until when certificates are valid, for those who watch the server. This reads no keys.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::pair::{Validity, Wanted};
use super::vault::{Texts, Vault};
use crate::config::{PairFiles, Settings};

/// The most certificates in the status: those that end first.
const MOST: usize = 100;

/// The certificates in use.
#[derive(Debug)]
pub struct Certificates {
    wanted: Wanted,
    vault: Arc<Vault>,
    known: Mutex<Known>,
}

/// What was read from a set in the vault.
#[derive(Debug)]
struct Known {
    generation: u64,
    /// As [`Certificates::ends`] returns it.
    ends: Arc<[(String, i64)]>,
}

impl Certificates {
    /// Those that the settings name, from the vault.
    pub fn new(settings: &Settings, vault: &Arc<Vault>) -> Self {
        let wanted = Wanted::of(settings);
        let known = Mutex::new(Known::read(&wanted, vault));
        Self { wanted, vault: Arc::clone(vault), known }
    }

    /// The names of the 100 certificates that end first, and until when each is valid, in seconds since the
    /// Unix epoch. Those that end first come first.
    pub fn ends(&self) -> Arc<[(String, i64)]> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.generation != self.vault.generation() {
            *known = Known::read(&self.wanted, &self.vault);
        }
        Arc::clone(&known.ends)
    }
}

/// The path of a certificate's file, or `self-signed`.
fn name(files: &PairFiles) -> String {
    files.certificate.as_ref().map_or_else(|| "self-signed".to_owned(), |file| file.display().to_string())
}

impl Known {
    fn read(wanted: &Wanted, vault: &Vault) -> Self {
        let (generation, all) = vault.contents();
        let end = |texts: &Texts| {
            let first = CertificateDer::from_pem_slice(&texts.chain).ok()?;
            Some((name(&texts.files), Validity::of(&first).ok()?.until))
        };
        let wanted = wanted.files();
        let mut ends: Vec<_> =
            all.iter().filter(|texts| wanted.contains(&texts.files)).filter_map(end).collect();
        ends.sort_by(|(name, until), other| (until, name).cmp(&(&other.1, &other.0)));
        ends.truncate(MOST);
        Self { generation, ends: ends.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ListenAddress;
    use crate::tls::read_all;

    #[test]
    fn those_that_are_named_are_told_and_told_again_when_they_are_renewed() {
        let mut settings = Settings::new("/".into());
        settings.tls.self_signed = true;
        settings.tls.listen = vec![ListenAddress::Tcp(([127, 0, 0, 1], 0).into())];
        let vault = Vault::new().unwrap();
        let made = read_all(&settings).unwrap().remove(0);
        let unnamed =
            PairFiles { certificate: Some("/etc/old.pem".into()), key: Some("/etc/old.key".into()) };
        vault.publish(&[Texts { files: unnamed, ..made.clone() }]).unwrap();
        let certificates = Certificates::new(&settings, &vault);
        assert_eq!(certificates.ends().len(), 0, "no site has it");
        vault.publish(&[made]).unwrap();
        let ends = certificates.ends();
        assert_eq!(ends.len(), 1);
        assert!(ends[0].0 == "self-signed" && ends[0].1 > sys::clock::realtime_secs() as i64);
    }
}
