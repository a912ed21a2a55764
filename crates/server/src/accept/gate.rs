//! The gate: whether accepting is possible at all.

use http1::Tick;

/// The gate closes at the bound on connections, for a while after descriptors ran out, and while the disk
/// is behind, if the disk is to hold it.
///
/// At the bound, the server stops accepting. The kernel's accept queue holds the clients, and its backlog
/// bounds them. Accepting only to close again would cost more and tell the clients less.
#[derive(Debug)]
pub struct Gate {
    max_connections: u32,
    paused_until: Option<Tick>,
    /// The disk is behind. Past this time, that is no longer known.
    held_until: Option<Tick>,
    is_full: bool,
}

/// The pause after descriptors ran out: long enough that trying again costs nothing, short enough that no
/// client notices.
const BACK_OFF_TICKS: u32 = 100 / Tick::MS;

impl Gate {
    /// A gate that lets `max_connections` be open at once.
    pub fn new(max_connections: u32) -> Self {
        Self { max_connections, paused_until: None, held_until: None, is_full: false }
    }

    /// Stops accepting for a while, because descriptors or memory ran out.
    pub fn back_off(&mut self, now: Tick) {
        self.paused_until = Some(now.after(BACK_OFF_TICKS));
    }

    /// How many more connections there is room for.
    pub fn room(&mut self, open: u32, now: Tick) -> u32 {
        for until in [&mut self.paused_until, &mut self.held_until] {
            *until = until.filter(|until| !until.reached(now));
        }
        let is_closed = self.is_full || self.paused_until().is_some();
        if is_closed { 0 } else { self.max_connections.saturating_sub(open) }
    }

    /// Stops accepting until then, unless another call comes before. `None` ends such a hold.
    pub fn hold(&mut self, until: Option<Tick>) {
        self.held_until = until;
    }

    /// Whether the bound is reached already, because no thread is free for another connection.
    pub fn set_full(&mut self, is_full: bool) {
        self.is_full = is_full;
    }

    /// When a pause or a hold ends, if there is one.
    pub fn paused_until(&self) -> Option<Tick> {
        self.paused_until.or(self.held_until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_ends_by_itself_and_the_bound_holds() {
        let mut gate = Gate::new(10);
        assert_eq!(gate.room(7, Tick(0)), 3);
        assert_eq!(gate.room(12, Tick(0)), 0);
        gate.back_off(Tick(0));
        assert_eq!(gate.room(0, Tick(BACK_OFF_TICKS - 1)), 0);
        assert_eq!(gate.paused_until(), Some(Tick(BACK_OFF_TICKS)));
        assert_eq!(gate.room(0, Tick(BACK_OFF_TICKS)), 10);
        assert_eq!(gate.paused_until(), None);
    }

    #[test]
    fn a_gate_may_be_full_before_its_bound() {
        let mut gate = Gate::new(10);
        gate.set_full(true);
        assert_eq!((gate.room(1, Tick(0)), gate.paused_until()), (0, None));
        gate.set_full(false);
        assert_eq!(gate.room(1, Tick(0)), 9);
    }

    #[test]
    fn a_hold_ends_when_it_is_taken_back_or_when_nobody_says_anything_more() {
        let mut gate = Gate::new(10);
        gate.hold(Some(Tick(5)));
        assert_eq!((gate.room(0, Tick(4)), gate.paused_until()), (0, Some(Tick(5))));
        gate.hold(Some(Tick(7)));
        assert_eq!(gate.room(0, Tick(6)), 0);
        gate.hold(None);
        assert_eq!((gate.room(0, Tick(6)), gate.paused_until()), (10, None));
        gate.hold(Some(Tick(9)));
        assert_eq!((gate.room(0, Tick(9)), gate.paused_until()), (10, None));
    }
}
