//! The event loop at `max_connections`: frees slots for clients that wait to be accepted.
//!
//! When a client waits, a connection that has been idle for a second is closed at once. If none is idle,
//! connections are ended in turn. Twice a second, as many of them as clients are waiting get
//! `Connection: close` with their next reply. The loop takes one connection after the other, so that all
//! keep their slots for about as long. A client that has not sent its request within a second is
//! disconnected as well. Workers with one client each check as often, and treat their clients in the same
//! way.

use http1::Tick;

use super::EventLoop;

/// Where the search for a connection that can make room continues, and when connections were last ended in
/// turn.
#[derive(Debug)]
pub(super) struct Pressure {
    hand: u32,
    turns_given: Tick,
}

/// How often connections are ended in turn.
const TURN_TICKS: u32 = 500 / Tick::MS;
/// How many connections are examined to find an idle one.
const LOOKS: u32 = 64;

impl Pressure {
    pub(super) fn new(now: Tick) -> Self {
        Self { hand: 0, turns_given: now }
    }
}

impl EventLoop {
    /// Whether another connection may be opened. If necessary, makes room by ending another one.
    pub(super) fn has_room(&mut self) -> bool {
        let now = self.service.clock.tick;
        if self.accepting.gate.room(self.connections.len(), now) > 0 {
            return true;
        }
        if self.accepting.gate.paused_until().is_some() {
            return false;
        }
        // That may be so long ago that ticks no longer show which came first.
        let since = now.0.wrapping_sub(self.accepting.pressure.turns_given.0);
        if !self.close_an_idle_one() && since >= TURN_TICKS {
            self.accepting.pressure.turns_given = now;
            self.give_turns();
        }
        self.accepting.gate.room(self.connections.len(), now) > 0
    }

    /// Closes a connection that has been idle for a while, if one is found quickly.
    fn close_an_idle_one(&mut self) -> bool {
        let now = self.service.clock.tick;
        for _ in 0..LOOKS.min(self.connections.slots()) {
            let index = self.next_in_turn();
            let Some(registered) = self.connections.get_mut(index) else { continue };
            if !registered.awaits_thread
                && registered.conversation.has_idled(now)
                && registered.conversation.close_if_idle()
            {
                self.service.counters.connections_closed_under_pressure.add(1);
                self.close(index, false);
                return true;
            }
        }
        false
    }

    /// Ends as many connections as clients are waiting.
    fn give_turns(&mut self) {
        let now = self.service.clock.tick;
        let mut waiting = self.accepting.count_waiting(self.connections.len());
        for _ in 0..self.connections.slots() {
            if waiting == 0 {
                break;
            }
            let index = self.next_in_turn();
            let Some(registered) = self.connections.get_mut(index) else { continue };
            // Its request may have just arrived.
            let is_too_slow = !registered.due
                && !registered.awaits_thread
                && registered.conversation.is_too_slow(&self.service.limits, now);
            if is_too_slow {
                let turn = registered.conversation.make_room(&mut self.service);
                self.service.counters.connections_closed_under_pressure.add(1);
                self.settle(index, turn);
            } else if !registered.conversation.machine().drain() {
                continue;
            }
            waiting -= 1;
        }
    }

    fn next_in_turn(&mut self) -> u32 {
        self.accepting.pressure.hand = (self.accepting.pressure.hand + 1) % self.connections.slots();
        self.accepting.pressure.hand
    }
}
