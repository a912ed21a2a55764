//! Which connections are due for a turn, and their order.

use super::by_networks::ByNetworks;
use super::registered::Registered;

/// The connections that can go on.
pub(super) struct Agenda {
    /// Connections for the coming work phase.
    pub(super) work: Vec<u32>,
    /// Connections that have used up their quantum of this turn.
    unfinished: Vec<u32>,
    /// Connections for the end of the work phase, because they shake hands while others do so, too.
    pub(super) handshakes: Vec<u32>,
    /// The last work phase did not reach all connections.
    pub(super) cut_short: bool,
    pub(super) by_networks: ByNetworks,
    /// A new connection is not due before its first event.
    pub(super) skips_new: bool,
}

impl Agenda {
    pub(super) fn new(skips_new: bool) -> Self {
        let by_networks = ByNetworks::new();
        let (work, unfinished, handshakes) = (Vec::new(), Vec::new(), Vec::new());
        Self { work, unfinished, handshakes, cut_short: false, by_networks, skips_new }
    }

    /// Whether no connection is due.
    pub(super) fn is_empty(&self) -> bool {
        self.unfinished.is_empty() && self.work.is_empty()
    }

    /// A connection has a turn in the coming work phase.
    #[inline]
    pub(super) fn add(&mut self, index: u32, registered: &mut Registered) {
        if !std::mem::replace(&mut registered.due, true) {
            self.work.push(index);
        }
    }

    /// A connection has its next turn after the coming get-events phase.
    #[inline]
    pub(super) fn add_unfinished(&mut self, index: u32, registered: &mut Registered) {
        if !std::mem::replace(&mut registered.due, true) {
            self.unfinished.push(index);
        }
    }

    /// Adds the unfinished connections. Those that the last work phase did not reach come first.
    #[inline]
    pub(super) fn take_up_unfinished(&mut self) {
        if self.work.is_empty() {
            std::mem::swap(&mut self.work, &mut self.unfinished);
        } else if !self.unfinished.is_empty() {
            self.work.append(&mut self.unfinished);
        }
    }
}
