//! What TLS needs before a client comes: certificates and their keys, keys of tickets, and what is agreed.
//!
//! ```text
//! supervisor at the start, and the keeper (supervisor/keeper.rs) when files change:
//!     files --> Texts, checked --> Vault: memory that all processes share
//! supervisor, every half day:
//!     a new key for tickets --> Vault
//! each worker:
//!     Vault --> TlsTerms --> a session for each client (channel/tls)
//! ```
//!
//! TLS itself is rustls with the cryptography of AWS-LC. `docs/design/tls.md` has the reasons and what was
//! measured.

mod certificates;
mod pair;
mod resolver;
mod session;
mod suites;
mod tickets;
mod vault;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, TicketProducer};
use rustls::enums::ApplicationProtocol;

pub use self::certificates::Certificates;
pub use self::pair::{FEW_DAYS, Pair, PairError, Pairs, days_left, read_all};
use self::resolver::Resolver;
pub use self::session::{Opened, Session};
use self::suites::OursUnlessChaCha;
pub use self::tickets::KEY_LIFETIME;
pub use self::vault::{Texts, Vault};
use crate::config::{ListenAddress, Settings};

/// Why TLS cannot be spoken.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A certificate cannot be used.
    #[error(transparent)]
    Pair(#[from] PairError),
    /// The cryptography does not work here.
    #[error("TLS does not work here: {0}")]
    Cryptography(#[from] rustls::Error),
}

/// The cryptography.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls_aws_lc_rs::DEFAULT_PROVIDER)
}

/// How a worker's clients are served over TLS, and where.
#[derive(Debug)]
pub struct TlsTerms {
    config: Arc<ServerConfig>,
    addresses: HashSet<ListenAddress>,
}

impl TlsTerms {
    /// For these settings, with what is in the vault. `None`: no address speaks TLS.
    ///
    /// # Errors
    ///
    /// A certificate is not in the vault, or the cryptography does not work here.
    pub fn new(settings: &Settings, vault: &Arc<Vault>) -> Result<Option<Self>, TlsError> {
        if settings.tls.listen.is_empty() {
            return Ok(None);
        }
        let resolver = Arc::new(Resolver::new(settings, vault)?);
        let mut config = ServerConfig::builder(provider())
            .with_no_client_auth()
            .with_server_credential_resolver(resolver)?;
        config.cipher_suite_selector = &OursUnlessChaCha;
        config.alpn_protocols = vec![ApplicationProtocol::Http11];
        config.ticketer = Some(Arc::new(Tickets { vault: Arc::clone(vault) }));
        Ok(Some(Self { config: Arc::new(config), addresses: settings.with_copies_of(&settings.tls.listen) }))
    }

    /// Whether clients speak TLS at an address.
    pub fn are_for(&self, address: &ListenAddress) -> bool {
        self.addresses.contains(address)
    }

    /// What is agreed with each client.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }
}

/// Memory in which a worker opens and seals for one client at a time.
#[derive(Debug, Default)]
pub struct Scratch {
    /// What was received.
    pub sealed: Vec<u8>,
    /// What is to be sealed.
    pub plain: Vec<u8>,
    /// What is sealed, while it is sent.
    pub leaving: Vec<u8>,
}

/// Seals sessions into tickets, and opens them, with the keys in the vault.
#[derive(Debug)]
struct Tickets {
    vault: Arc<Vault>,
}

impl TicketProducer for Tickets {
    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.vault.tickets().seal(plain)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.vault.tickets().open(ticket)
    }

    fn lifetime(&self) -> Duration {
        KEY_LIFETIME
    }
}

/// The line that keeps browsers from connecting without TLS (RFC 6797), if there is to be one.
pub(crate) fn hsts(settings: &Settings) -> String {
    settings
        .tls
        .hsts
        .map_or_else(String::new, |time| format!("Strict-Transport-Security: max-age={}\r\n", time.as_secs()))
}
