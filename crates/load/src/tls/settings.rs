//! What a run asks of TLS, and what begins its connections.

use std::io;
use std::sync::Arc;

use rustls::client::{Resumption, WantsClientCert};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ConfigBuilder, SupportedProtocolVersion};

use super::layer::Tls;
use super::names::{Cipher, Group, Name, Version};
use super::reasons::{failure, told};
use super::roots::{Any, NoRoots, Roots, roots_in, system_roots};
use super::sessions::Sessions;

/// How targets are asked that speak TLS. Servers get no certificate from these clients, and HTTP/1.1 as the
/// only protocol (ALPN).
#[derive(Clone, Debug)]
pub struct Settings {
    /// By what the server's certificate is verified.
    pub roots: Roots,
    /// Whether a connection resumes a session of an earlier one of its thread. If not, all handshakes are
    /// full.
    pub resumption: bool,
    /// The only version that is offered; `None`: 1.2 and 1.3.
    pub version: Option<Version>,
    /// The only key-exchange group that is offered; `None`: those that rustls prefers.
    pub group: Option<Group>,
    /// The only cipher suite that is offered; `None`: those that rustls prefers.
    pub cipher: Option<Cipher>,
}

/// TLS can't be used as it is asked for.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// The root certificates.
    #[error(transparent)]
    Roots(#[from] NoRoots),
    /// No version of TLS allows all that is asked.
    #[error("{asked}: no version of TLS allows all of these; leave one of them out")]
    NoVersion {
        /// The options, each with the versions that allow it.
        asked: String,
    },
    /// What rustls refuses.
    #[error("TLS can't be used like this: {0}")]
    Refused(rustls::Error),
}

impl Default for Settings {
    /// Certificates are verified by this machine's roots, sessions are resumed, and rustls decides the rest.
    fn default() -> Self {
        Self { roots: Roots::System, resumption: true, version: None, group: None, cipher: None }
    }
}

/// What all threads have in common.
#[derive(Debug)]
pub(crate) struct Prepared {
    config: ClientConfig,
    resumption: bool,
}

impl Settings {
    /// Reads the root certificates, and checks that the rest goes together.
    pub(crate) fn prepare(&self) -> Result<Prepared, Unusable> {
        let mut provider = default_provider();
        if let Some(Group(group)) = self.group {
            provider.kx_groups = vec![group];
        }
        if let Some(Cipher(suite)) = self.cipher {
            provider.cipher_suites = vec![suite];
        }
        let versions = self.versions()?;
        let mut config = self.verifying(provider, &versions)?.with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Prepared { config, resumption: self.resumption })
    }

    fn verifying(
        &self,
        provider: CryptoProvider,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, Unusable> {
        let algorithms = provider.signature_verification_algorithms;
        let builder = ClientConfig::builder_with_provider(Arc::new(provider));
        let builder = builder.with_protocol_versions(versions).map_err(Unusable::Refused)?;
        Ok(match &self.roots {
            Roots::System => builder.with_root_certificates(system_roots()?),
            Roots::File(file) => builder.with_root_certificates(roots_in(file)?),
            Roots::None => builder.dangerous().with_custom_certificate_verifier(Arc::new(Any(algorithms))),
        })
    }

    /// The versions to offer: those that allow all that is asked.
    fn versions(&self) -> Result<Vec<&'static SupportedProtocolVersion>, Unusable> {
        let allowed = |fits: &dyn Fn(Version) -> bool| {
            Version::ALL.into_iter().filter(|version| fits(*version)).collect::<Vec<_>>()
        };
        let mut asked = Vec::new();
        if let Some(version) = self.version {
            asked.push((format!("--tls-version {version}"), vec![version]));
        }
        if let Some(cipher) = self.cipher {
            let of = allowed(&|version| *cipher.0.version() == *version.supported());
            asked.push((format!("--tls-cipher {cipher}"), of));
        }
        if let Some(group) = self.group {
            let of = allowed(&|version| group.0.usable_for_version(version.supported().version));
            asked.push((format!("--tls-group {group}"), of));
        }
        let common = allowed(&|version| asked.iter().all(|(_, of)| of.contains(&version)));
        if common.is_empty() {
            let of =
                |versions: &[Version]| versions.iter().map(|of| of.name()).collect::<Vec<_>>().join(", ");
            let asked = asked.iter().map(|(option, versions)| format!("{option} (TLS {})", of(versions)));
            return Err(Unusable::NoVersion { asked: asked.collect::<Vec<_>>().join(" ") });
        }
        Ok(common.into_iter().map(Version::supported).collect())
    }
}

/// Begins the connections of a thread to a target.
#[derive(Debug)]
pub(crate) struct Client {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Prepared {
    /// A thread's client for a target of that name. Where it may not resume sessions, all its handshakes are
    /// full.
    pub(crate) fn client(&self, Name(name): &Name, may_resume: bool) -> Client {
        let mut config = self.config.clone();
        config.resumption = if self.resumption && may_resume {
            Resumption::store(Arc::new(Sessions::default()))
        } else {
            Resumption::disabled()
        };
        Client { config: Arc::new(config), name: name.clone() }
    }
}

impl Client {
    /// Begins a handshake. This makes the client's keys, which takes a part of the handshake's time.
    pub(crate) fn begin(&self) -> io::Result<Tls> {
        let tls = ClientConnection::new(Arc::clone(&self.config), self.name.clone());
        let tls = tls.map_err(|error| failure(told(&error)))?;
        Ok(Tls::new(tls))
    }
}

#[cfg(test)]
mod tests {
    use rustls::version;

    use super::*;

    fn asked(version: Option<&str>, group: Option<&str>, cipher: Option<&str>) -> Settings {
        Settings {
            roots: Roots::None,
            version: version.map(|text| text.parse().unwrap()),
            group: group.map(|text| text.parse().unwrap()),
            cipher: cipher.map(|text| text.parse().unwrap()),
            ..Settings::default()
        }
    }

    #[test]
    fn only_versions_are_offered_that_allow_all_that_is_asked() {
        let both = [&version::TLS12, &version::TLS13];
        let new = "TLS_AES_128_GCM_SHA256";
        let old = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256";
        for (settings, expected) in [
            (asked(None, None, None), &both[..]),
            (asked(None, Some("x25519"), None), &both[..]),
            (asked(Some("1.2"), Some("x25519"), None), &both[..1]),
            (asked(None, Some("x25519mlkem768"), None), &both[1..]),
            (asked(None, None, Some(new)), &both[1..]),
            (asked(None, None, Some(old)), &both[..1]),
            (asked(Some("1.3"), Some("mlkem1024"), Some(new)), &both[1..]),
        ] {
            assert_eq!(settings.versions().unwrap(), expected, "{settings:?}");
            assert!(settings.prepare().is_ok(), "{settings:?}");
        }
        for (settings, told) in [
            (
                asked(Some("1.2"), None, Some(new)),
                "--tls-version 1.2 (TLS 1.2) --tls-cipher TLS_AES_128_GCM_SHA256 (TLS 1.3): no version of",
            ),
            (
                asked(None, Some("x25519mlkem768"), Some(old)),
                "--tls-cipher TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 (TLS 1.2) --tls-group x25519mlkem768 \
                 (TLS 1.3): no version",
            ),
        ] {
            let error = settings.prepare().unwrap_err().to_string();
            assert!(error.starts_with(told), "{error}");
        }
    }
}
