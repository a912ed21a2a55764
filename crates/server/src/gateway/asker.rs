//! Who asks an application, and what for.

use sys::socket::{LocalAddress, PeerAddress};

use crate::proxies::AsksFor;
use crate::proxies::origin::Origin;

/// Who asks.
#[derive(Clone, Debug)]
pub struct Asker {
    /// The client, which may be one for whom a trusted proxy asks.
    pub client: PeerAddress,
    /// For whom the fields of the request say that it is, if a trusted proxy has sent them.
    pub asks_for: AsksFor,
    /// What a trusted proxy has said that the request was sent to.
    pub origin: Origin,
    /// Where who has connected has connected to.
    pub local: Option<LocalAddress>,
}
