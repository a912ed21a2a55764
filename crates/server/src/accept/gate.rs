//! When accepting is possible at all.

use http1::Tick;

/// When accepting is possible: below the bound on connections, and not just after descriptors ran out.
///
/// At the bound the server stops accepting; the kernel's accept queue holds the clients, and its backlog
/// bounds them. Accepting only to close again would cost more and tell them less.
#[derive(Debug)]
pub struct Gate {
    max_connections: u32,
    paused_until: Option<Tick>,
}

/// After descriptors ran out: long enough that trying again costs nothing, short enough that nobody notices.
const BACK_OFF_TICKS: u32 = 100 / Tick::MS;

impl Gate {
    /// A gate that lets `max_connections` be open at once.
    pub fn new(max_connections: u32) -> Self {
        Self { max_connections, paused_until: None }
    }

    /// Descriptors (or memory) ran out: no accepting for a while.
    pub fn back_off(&mut self, now: Tick) {
        self.paused_until = Some(now.after(BACK_OFF_TICKS));
    }

    /// How many more connections there is room for.
    pub fn room(&mut self, open: u32, now: Tick) -> u32 {
        if self.paused_until.is_some_and(|until| until.reached(now)) {
            self.paused_until = None;
        }
        if self.paused_until.is_some() { 0 } else { self.max_connections.saturating_sub(open) }
    }

    /// When a pause ends, if there is one.
    pub fn paused_until(&self) -> Option<Tick> {
        self.paused_until
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
}
