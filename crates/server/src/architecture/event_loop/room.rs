//! The event loop at `max_connections`: places for those who wait to be accepted.
//!
//! Whoever has been idle for a second is closed at once when somebody waits. If nobody is, places are given
//! by turns: twice a second as many of those who have one as there are others waiting are told
//! `Connection: close` with their next reply, one after the other, so that each has its place for about as
//! long as the others. Who has not brought its request within a second has had its turn as well. (Workers
//! with a client each look as often, and ask the same of theirs.)

use http1::Tick;

use super::EventLoop;

/// Where the search for somebody to make room goes on, and when places were last given by turns.
#[derive(Debug)]
pub(super) struct Pressure {
    hand: u32,
    turns_given: Tick,
}

/// How often that is done.
const TURN_TICKS: u32 = 500 / Tick::MS;
/// How many connections are looked at for one that is idle.
const LOOKS: u32 = 64;

impl Pressure {
    pub(super) fn new(now: Tick) -> Self {
        Self { hand: 0, turns_given: now }
    }
}

impl EventLoop {
    /// Whether another connection may be opened, making room at the expense of others if need be.
    pub(super) fn has_room(&mut self) -> bool {
        let now = self.service.clock.tick;
        if self.accepting.gate.room(self.connections.len(), now) > 0 {
            return true;
        }
        if self.accepting.gate.paused_until().is_some() {
            return false;
        }
        // That may be longer ago than ticks can tell the order of.
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
            if registered.conversation.has_idled(now) && registered.conversation.machine().close_if_idle() {
                self.service.counters.connections_closed_under_pressure.add(1);
                self.close(index, false);
                return true;
            }
        }
        false
    }

    /// Has as many leave as wait.
    fn give_turns(&mut self) {
        let now = self.service.clock.tick;
        let mut waiting = self.accepting.count_waiting(self.connections.len());
        for _ in 0..self.connections.slots() {
            if waiting == 0 {
                break;
            }
            let index = self.next_in_turn();
            let Some(registered) = self.connections.get_mut(index) else { continue };
            // Its request may have come just now.
            let dawdles = !registered.due && registered.conversation.dawdles(&self.service.limits, now);
            if dawdles {
                let turn = registered.conversation.give_way(&mut self.service);
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
