//! Settings of TLS: where it is spoken, with which certificate, what clients are told about it, and how much
//! of a worker handshakes take.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use crate::config::address::ListenAddress;

/// Settings of TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// Those of the addresses in [`Settings::listen`](super::Settings::listen) where clients speak TLS.
    pub listen: Vec<ListenAddress>,
    /// The certificate of the default site, for all names that have no other.
    pub pair: PairFiles,
    /// The default site's certificate is made at the start, and signed by itself.
    pub self_signed: bool,
    /// Requests without TLS are redirected to https, except those for ACME challenges.
    pub redirect: bool,
    /// How long clients that have come over TLS are to use nothing else (RFC 6797). `None`: they are told
    /// nothing.
    pub hsts: Option<Duration>,
}

/// Bounds on TLS handshakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandshakeSettings {
    /// Most handshakes that wait for each worker that serves many clients. Of workers that serve one, so many
    /// may wait altogether.
    pub queue: u32,
    /// The part of a worker's time, in percent, in which handshakes go before its other clients. `None`:
    /// 0.5, or 5 while they get no time besides.
    pub share: Option<NonZeroU32>,
}

impl Default for HandshakeSettings {
    fn default() -> Self {
        Self { queue: 256, share: None }
    }
}

/// The files of a certificate, absolute. Both or none are set in checked settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PairFiles {
    /// The chain in PEM: the certificate of the server, and those that lead to a root.
    pub certificate: Option<PathBuf>,
    /// The private key of the first certificate, in PEM.
    pub key: Option<PathBuf>,
}

impl PairFiles {
    /// The certificate's file and the key's, if they are set.
    pub fn both(&self) -> Option<(&PathBuf, &PathBuf)> {
        self.certificate.as_ref().zip(self.key.as_ref())
    }
}
