//! Who asks an application, and what for.

use sys::socket::{LocalAddress, PeerAddress};

use crate::proxies::origin::Origin;

/// Who asks.
#[derive(Clone, Debug)]
pub struct Asker {
    /// The client, which may be one for whom a trusted proxy asks.
    pub client: PeerAddress,
    /// A trusted proxy has said who it is, in a field of the request.
    pub is_told: bool,
    /// What a trusted proxy has said that the request was sent to.
    pub origin: Origin,
    /// Where who has connected has connected to.
    pub local: Option<LocalAddress>,
}
