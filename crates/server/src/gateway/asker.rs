//! Who asks an application.

use sys::socket::{LocalAddress, PeerAddress};

/// Who asks.
#[derive(Clone, Debug)]
pub struct Asker {
    /// The client, which may be one for whom a trusted proxy asks.
    pub client: PeerAddress,
    /// Where it has connected to.
    pub local: Option<LocalAddress>,
    /// Whether whoever has connected is trusted to say for whom.
    pub is_trusted: bool,
}
