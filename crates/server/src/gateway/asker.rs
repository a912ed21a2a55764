//! The origin of a request for an application: the client, and what the request was sent to.

use std::sync::Arc;

use sys::socket::{LocalAddress, PeerAddress};

use crate::proxies::AsksFor;
use crate::proxies::origin::Origin;
use crate::secured::Facts;

/// The origin of a request.
#[derive(Clone, Debug)]
pub struct Asker {
    /// The client. It may be a client that a trusted proxy asks for.
    pub client: PeerAddress,
    /// What the request is for, by the fields that a trusted proxy has sent.
    pub asks_for: AsksFor,
    /// What the request was sent to, as a trusted proxy reports it.
    pub origin: Origin,
    /// What a TLS handshake with the client, or its proxy, has established.
    pub secured: Option<Arc<Facts>>,
    /// The local address that the connection was made to.
    pub local: Option<LocalAddress>,
}
