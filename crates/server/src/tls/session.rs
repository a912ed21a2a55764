//! A client's TLS session: rustls's, which reads from and writes to memory that it is lent.
//!
//! This is the only file that knows how rustls is driven. It uses the development release of 0.24: the
//! session keeps nothing but its state, and opens and seals in the worker's memory
//! ([`docs/design/tls.md`](../../../../docs/design/tls.md)).

use std::io;

use rustls::crypto::cipher::OutboundPlain;
use rustls::enums::ProtocolVersion;
use rustls::server::ServerSide;
use rustls::{Connection, HandshakeKind, SliceInput, SupportedCipherSuite, Tcp};

use super::TlsTerms;
use crate::secured::Facts;

/// One client's session.
pub struct Session {
    connection: Connection<ServerSide, Tcp>,
    is_begun: bool,
}

/// What came of opening.
#[derive(Debug, Default)]
pub struct Opened {
    /// How many sealed bytes were used up. The others are the beginning of a record.
    pub used: usize,
    /// How many bytes were opened.
    pub plain: usize,
    /// The client has said that it sends no more.
    pub has_ended: bool,
    /// The handshake is complete since now, and has established this.
    pub established: Option<Facts>,
}

impl Session {
    /// A session before its handshake. `None`: the cryptography does not work here.
    pub fn new(terms: &TlsTerms) -> Option<Self> {
        let connection = Connection::<ServerSide, Tcp>::new(terms.config());
        let connection = connection.inspect_err(|error| tracing::error!("no TLS session: {error}"));
        Some(Self { connection: connection.ok()?, is_begun: false })
    }

    /// Opens all whole records in `sealed`. What they carry goes to `room`, and what is to be answered is
    /// appended to `leaving`.
    ///
    /// # Errors
    ///
    /// The client breaks the protocol. An alert that says so is appended to `leaving`.
    pub fn open(&mut self, sealed: &mut [u8], room: &mut [u8], leaving: &mut Vec<u8>) -> io::Result<Opened> {
        let was_established = self.is_established();
        let mut opened = Opened::default();
        let mut input = SliceInput::new(sealed);
        let mut records = self.connection.read_tls(&mut input, leaving);
        while let Some(payload) = records.next_payload() {
            let payload = payload.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            let bytes = payload.bytes();
            let place = room.get_mut(opened.plain..opened.plain + bytes.len());
            place.ok_or(io::ErrorKind::OutOfMemory)?.copy_from_slice(bytes);
            opened.plain += bytes.len();
        }
        opened.has_ended = records.state().peer_has_closed();
        opened.used = input.into_used();
        self.is_begun |= opened.used > 0;
        if !was_established {
            opened.established = self.facts();
        }
        Ok(opened)
    }

    /// Whether the answer is still to come that takes long: with a key exchange and a signature. It is that
    /// to the client's first message, or to its second if the first offered no key that can be used.
    pub fn has_a_costly_answer_to_come(&self) -> bool {
        self.connection.handshake_kind().is_none()
    }

    /// Whether a record has come whole. Before that, another session can take this one's place.
    pub fn is_begun(&self) -> bool {
        self.is_begun
    }

    /// Whether the handshake is complete.
    pub fn is_established(&self) -> bool {
        !self.connection.is_handshaking()
    }

    /// Seals bytes into records at the end of `leaving`.
    ///
    /// # Errors
    ///
    /// There are no keys yet, or no more may be sealed with them.
    pub fn seal(&mut self, plain: &[u8], leaving: &mut Vec<u8>) -> io::Result<()> {
        // The client is gone, in effect: it gets no answer without a handshake.
        self.connection
            .write(OutboundPlain::Single(plain), leaving)
            .map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// Appends to `leaving` that nothing more is sent.
    pub fn say_end(&mut self, leaving: &mut Vec<u8>) {
        // Where there are no keys yet, nothing is missed.
        let _ = self.connection.send_close_notify(leaving);
    }

    /// What the handshake has established, if it is complete.
    fn facts(&self) -> Option<Facts> {
        if !self.is_established() {
            return None;
        }
        let resumed = [HandshakeKind::Resumed, HandshakeKind::ResumedWithHelloRetryRequest];
        Some(Facts {
            version: match self.connection.protocol_version()? {
                ProtocolVersion::TLSv1_2 => "TLSv1.2",
                _ => "TLSv1.3",
            },
            cipher: name(self.connection.negotiated_cipher_suite()?),
            server_name: self.connection.side().server_name().map(|name| name.as_ref().into()),
            is_resumed: self.connection.handshake_kind().is_some_and(|kind| resumed.contains(&kind)),
        })
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("is_established", &self.is_established()).finish_non_exhaustive()
    }
}

/// The name that OpenSSL, and so every application, knows a cipher suite by.
fn name(suite: SupportedCipherSuite) -> &'static str {
    use rustls::crypto::CipherSuite as Suite;
    match suite.suite() {
        Suite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
        Suite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
        Suite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
        Suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => "ECDHE-ECDSA-AES128-GCM-SHA256",
        Suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => "ECDHE-ECDSA-AES256-GCM-SHA384",
        Suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-ECDSA-CHACHA20-POLY1305",
        Suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => "ECDHE-RSA-AES128-GCM-SHA256",
        Suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => "ECDHE-RSA-AES256-GCM-SHA384",
        Suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-RSA-CHACHA20-POLY1305",
        _ => "unknown",
    }
}
