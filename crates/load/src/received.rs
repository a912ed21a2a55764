//! What a receiving call on a connection brings, with or without TLS.

/// What a receiving call brought.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    /// Bytes; with TLS, decrypted ones.
    pub(crate) count: usize,
    /// The server has closed its side.
    pub(crate) end: bool,
    /// The socket is empty: the next event tells when there is more.
    pub(crate) drained: bool,
}
