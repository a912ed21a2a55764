//! The get-events phase: waits until a socket can go on, a timer expires or the supervisor sends a request.
//! Then it sorts the events.

use std::io;

use http1::Tick;

use super::EventLoop;
use super::registered::Registered;
use crate::architecture::common::token::{Kind, Token};

/// How often the loop comes back to check whether a connection can make room for waiting clients.
const PRESSURE_TICKS: u32 = 100 / Tick::MS;

impl EventLoop {
    /// One get-events phase.
    pub(super) fn get_events_phase(&mut self) -> io::Result<()> {
        let timeout_ms = self.wait_at_most_ms();
        let at_once = timeout_ms == Some(0);
        if !at_once {
            self.service.rest();
        }
        let count = self.waiting.wait(timeout_ms)?;
        let completed = self.waiting.events.ring().map_or(0, |ring| ring.completed());
        self.service.counters.event_waits.add(1);
        self.service.begin_turn();
        self.turn_begins(at_once, (count + completed) as u32);
        self.agenda.take_up_unfinished();
        for at in 0..count {
            let Some(event) = self.waiting.ready.get(at) else { break };
            let Some(token) = Token::from_number(event.token) else { continue };
            match token.kind {
                Kind::Client => {
                    let Some(registered) = Registered::named(&mut self.connections, token) else { continue };
                    let gone = event.hang_up || event.error;
                    registered.conversation.note(event.readable, event.writable, gone);
                    self.agenda.add(token.index, registered);
                }
                Kind::Application => self.heed_link(token, event),
                Kind::Listener => self.accepting.note(token.index),
                Kind::Supervisor => self.heed_supervisor(),
                Kind::Helpers => self.heed_helpers(),
                Kind::Wakeup => self.heed_wakeup(),
            }
        }
        if self.service.outbox.is_some() {
            self.heed_ring();
        }
        Ok(())
    }

    /// How long the phase may wait.
    fn wait_at_most_ms(&mut self) -> Option<u32> {
        let now = self.service.clock.tick;
        if !self.agenda.is_empty() || !self.postponed.listings.is_empty() {
            return Some(0);
        }
        let pending = self.accepting.is_pending();
        let open = self.connections.len();
        if pending && self.accepting.gate.room(open, now) > 0 {
            return Some(0);
        }
        let mut ticks = self.waiting.timers.ticks_to_next();
        if pending {
            let paused = self.accepting.gate.paused_until().map(|until| until.remaining(now).max(1));
            ticks = Some(sooner(ticks, paused.unwrap_or(PRESSURE_TICKS)));
        }
        if let Some(deadline) = self.service.chores_are_due_at() {
            ticks = Some(sooner(ticks, deadline.remaining(now)));
        }
        if self.ending.is_draining() || self.accepting.is_retiring() {
            ticks = Some(sooner(ticks, 1));
        }
        let mut ms = ticks.map(|ticks| ticks.saturating_mul(Tick::MS));
        if let Some(log_ms) = self.service.logs.wait_at_most_ms(self.service.clock.ms) {
            ms = Some(sooner(ms, log_ms.min(u64::from(u32::MAX)) as u32));
        }
        ms
    }
}

/// The sooner of two times, of which the first may be missing.
fn sooner(one: Option<u32>, other: u32) -> u32 {
    one.map_or(other, |one| one.min(other))
}
