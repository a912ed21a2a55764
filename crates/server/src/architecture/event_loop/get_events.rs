//! The get-events phase: waits until a socket can go on, a timer comes up or the supervisor calls, and sorts
//! what came.

use std::io;

use http1::Tick;

use super::EventLoop;
use crate::architecture::common::token::{Kind, Token};

/// How often the loop comes back to see whether somebody makes room for those who wait.
const PRESSURE_TICKS: u32 = 100 / Tick::MS;

impl EventLoop {
    /// One such phase.
    pub(super) fn get_events_phase(&mut self) -> io::Result<()> {
        let timeout_ms = self.wait_at_most_ms();
        let at_once = timeout_ms == Some(0);
        if !at_once {
            self.service.rest();
        }
        let count = self.events.get(&mut self.ready, timeout_ms)?;
        self.service.counters.event_waits.add(1);
        self.service.begin_turn();
        self.turn_began = self.service.clock.tick;
        self.turn_begins(at_once, count as u32);
        // Those that the last work phase did not come to are first.
        if self.work.is_empty() {
            std::mem::swap(&mut self.work, &mut self.unfinished);
        } else if !self.unfinished.is_empty() {
            self.work.append(&mut self.unfinished);
        }
        for at in 0..count {
            let Some(event) = self.ready.get(at) else { break };
            let Some(token) = Token::from_number(event.token) else { continue };
            match token.kind {
                Kind::Client => {
                    let registered = self.connections.get_mut(token.index);
                    let Some(registered) = registered.filter(|one| one.generation == token.generation) else {
                        continue;
                    };
                    let gone = event.hang_up || event.error;
                    registered.conversation.note(event.readable, event.writable, gone);
                    if !std::mem::replace(&mut registered.due, true) {
                        self.work.push(token.index);
                    }
                }
                Kind::Application => self.heed_link(token, event),
                Kind::Listener => {
                    if let Some(port) = self.ports.iter_mut().find(|port| port.number == token.index) {
                        port.pending = true;
                    }
                }
                Kind::Supervisor => self.heed_supervisor(),
                Kind::Helpers => self.heed_helpers(),
                Kind::Bell => self.heed_bell(),
            }
        }
        Ok(())
    }

    /// How long it may wait.
    fn wait_at_most_ms(&mut self) -> Option<u32> {
        let now = self.service.clock.tick;
        if !self.unfinished.is_empty() || !self.work.is_empty() || !self.listings.is_empty() {
            return Some(0);
        }
        let pending = self.ports.iter().any(|port| port.pending);
        let open = self.connections.len();
        if pending && self.gate.room(open, now) > 0 {
            return Some(0);
        }
        let mut ticks = self.timers.ticks_to_next();
        if pending {
            let paused = self.gate.paused_until().map(|until| until.remaining(now).max(1));
            ticks = Some(sooner(ticks, paused.unwrap_or(PRESSURE_TICKS)));
        }
        if let Some(deadline) = self.service.gateway.deadline() {
            ticks = Some(sooner(ticks, deadline.remaining(now)));
        }
        if self.ending.is_draining() || self.ports.iter().any(|port| port.door.is_retiring()) {
            ticks = Some(sooner(ticks, 1));
        }
        let mut ms = ticks.map(|ticks| ticks.saturating_mul(Tick::MS));
        if let Some(log_ms) = self.service.logs.wait_at_most_ms(self.service.clock.ms) {
            ms = Some(sooner(ms, log_ms.min(u64::from(u32::MAX)) as u32));
        }
        ms
    }
}

/// The sooner of a time that may be none and another.
fn sooner(one: Option<u32>, other: u32) -> u32 {
    one.map_or(other, |one| one.min(other))
}
