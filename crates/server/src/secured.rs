//! What a TLS handshake has established, for logs and applications.

/// What a handshake has established.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The version of TLS, as OpenSSL names it: `TLSv1.2`, `TLSv1.3`.
    pub version: &'static str,
    /// The cipher suite, as OpenSSL names it: `TLS_AES_128_GCM_SHA256`, `ECDHE-RSA-AES128-GCM-SHA256`.
    pub cipher: &'static str,
    /// The host that the client has asked for (RFC 6066 section 3), if it has named one.
    pub server_name: Option<Box<str>>,
    /// The client has continued a session that it had before.
    pub is_resumed: bool,
}
