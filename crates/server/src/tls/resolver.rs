//! Which certificate a handshake gets: that of the site whose host the client names. When the vault has new
//! certificates, the next handshake takes them up.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::SelectedCredential;
use rustls::error::PeerIncompatible;
use rustls::server::{ClientHello, ServerCredentialResolver};

use super::pair::{Pair, PairError, Pairs, Wanted};
use super::vault::Vault;
use crate::config::Settings;
use crate::content::Hosts;

/// Maps names to certificates.
#[derive(Debug)]
pub(super) struct Resolver {
    hosts: Hosts,
    wanted: Wanted,
    vault: Arc<Vault>,
    current: RwLock<Current>,
}

/// The certificates of a set in the vault.
#[derive(Debug)]
struct Current {
    generation: u64,
    pairs: Pairs,
}

impl Resolver {
    pub(super) fn new(settings: &Settings, vault: &Arc<Vault>) -> Result<Self, PairError> {
        let wanted = Wanted::of(settings);
        let (generation, texts) = vault.contents();
        let pairs = Pairs::among(&wanted, &texts, &Pairs::default())?;
        let current = RwLock::new(Current { generation, pairs });
        Ok(Self { hosts: Hosts::new(&settings.all_sites()), wanted, vault: Arc::clone(vault), current })
    }

    /// The certificate of a site.
    fn pair(&self, site: usize) -> Option<Arc<Pair>> {
        let is_new = {
            let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
            let is_new = current.generation != self.vault.generation();
            if !is_new {
                return current.pairs.of_site(site).cloned();
            }
            is_new
        };
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have taken them up meanwhile.
        if is_new && current.generation != self.vault.generation() {
            let (generation, texts) = self.vault.contents();
            current.generation = generation;
            match Pairs::among(&self.wanted, &texts, &current.pairs) {
                Ok(pairs) => current.pairs = pairs,
                Err(error) => tracing::error!("certificates stay as they were: {error}"),
            }
        }
        current.pairs.of_site(site).cloned()
    }
}

impl ServerCredentialResolver for Resolver {
    fn resolve(&self, hello: &ClientHello<'_>) -> Result<SelectedCredential, rustls::Error> {
        // A client that names no host gets the default site's certificate.
        let name = hello.server_name().map_or("", |name| name.as_ref());
        let site = usize::from(self.hosts.of(name.as_bytes()));
        let pair = self.pair(site).ok_or(rustls::Error::NoSuitableCertificate)?;
        let signer = pair.credentials().signer(hello.signature_schemes());
        Ok(signer.ok_or(PeerIncompatible::NoSignatureSchemesInCommon)?)
    }
}
