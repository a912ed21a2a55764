//! The accept phase: takes connections out of the accept queues, at most as many as the accept limit
//! allows. It also ensures that this loop, or another process, learns of the next connection.

use std::io;
use std::os::fd::AsFd as _;

use super::EventLoop;
use crate::architecture::common::listener_handles::Accepted;
use crate::architecture::common::samples::sample_wait;

/// Most clients that an accept phase takes while handshakes wait. To accept one and to learn that its
/// handshake has to wait takes as long as a few replies.
const MOST_CLIENTS: u32 = 4;
/// How many clients it refuses in the time that it takes to accept one. Those who wait behind them in the
/// accept queue may be of other networks, so a flood must not keep it full.
const REFUSED_FOR_ONE: u32 = 4;

impl EventLoop {
    /// Takes the first waiting connection of a listener. A ring takes up to `budget` of them in one call, and
    /// keeps the others for the next calls.
    pub(super) fn accept_at(&mut self, at: usize, budget: u32) -> Accepted {
        let Self { accepting, waiting, connections, service, complaints, .. } = self;
        let handle = &accepting.ports[at].handle;
        let accepted = match waiting.events.ring() {
            Some(ring) => {
                let room = accepting.gate.room(connections.len(), service.clock.tick);
                ring.accept(handle.listener.as_fd(), budget.min(room))
            }
            None => service.accept(&handle.listener),
        };
        handle.judge(accepted, service, &mut accepting.gate, complaints)
    }

    /// One accept phase.
    pub(in crate::architecture) fn accept_phase(&mut self) -> io::Result<()> {
        let mut pending = false;
        for port in &mut self.accepting.ports {
            // If the listener is to be closed, a queue that was empty once need not be empty at the end.
            port.pending |= port.handle.is_retiring();
            pending |= port.pending;
        }
        if !pending {
            return Ok(());
        }
        let counters = self.service.counters;
        let mut sample = self.accepting.policy.sampling_is_due(self.service.clock.ns)
            && self.accepting.sample_queue(counters).is_some();
        let (mut budget, cost_of_client) = self.accept_budget();
        let mut accepted = 0;
        for at in 0..self.accepting.ports.len() {
            while self.accepting.ports[at].pending && budget > 0 && self.has_room()
                || self.waiting.events.ring().is_some_and(|ring| ring.has_accepted())
            {
                match self.accept_at(at, budget.div_ceil(cost_of_client)) {
                    Accepted::Client(mut client) => {
                        budget = budget.saturating_sub(cost_of_client);
                        accepted += 1;
                        if std::mem::take(&mut sample) {
                            client.waited_ms =
                                sample_wait(&client.socket, &mut self.accepting.policy, counters);
                        }
                        self.open(client);
                    }
                    Accepted::Refused => {
                        budget = budget.saturating_sub(1);
                        accepted += 1;
                    }
                    Accepted::Nobody => self.accepting.ports[at].pending = false,
                    Accepted::TryAgain | Accepted::Paused => {}
                }
            }
        }
        counters.accept_phase(accepted);
        self.accepting_ends(accepted as u32);
        self.watch_listeners()?;
        if self.accepting.leaves_the_next_to_others(accepted, &mut self.waiting.events) {
            self.watch_listeners()?;
        }
        Ok(())
    }

    /// How much an accept phase may do, and how much of that a client takes. A refusal takes 1.
    fn accept_budget(&self) -> (u32, u32) {
        let policy = &self.accepting.policy;
        if self.handshakes_wait() {
            // What `auto` has learned is about clients that are served at once.
            let clients = policy.fixed_limit().unwrap_or(MOST_CLIENTS).min(MOST_CLIENTS);
            (clients * REFUSED_FOR_ONE, REFUSED_FOR_ONE)
        } else {
            (policy.budget().connections, 1)
        }
    }

    /// Registers the listeners whose events the loop wants.
    pub(in crate::architecture) fn watch_listeners(&mut self) -> io::Result<()> {
        let (open, now) = (self.connections.len(), self.service.clock.tick);
        self.accepting.watch(&mut self.waiting.events, &self.control, open, now)
    }
}
