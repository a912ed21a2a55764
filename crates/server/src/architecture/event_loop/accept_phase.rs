//! The accept phase: takes connections out of the accept queues, at most as many as the accept limit says,
//! and sees to it that the loop, or somebody else, will be told of the next.

use std::io;
use std::os::fd::AsFd;

use super::EventLoop;
use crate::architecture::common::doors::{Accepted, Door};
use crate::architecture::common::samples::{sample_queue, sample_wait};
use crate::architecture::common::token::{Kind, Token};
use crate::architecture::events::Registration;
use crate::config::Wake;
use crate::listeners::Share;

/// A listener in the loop.
pub(super) struct Port {
    pub(super) door: Door,
    /// By which its events name it.
    pub(super) number: u32,
    pub(super) registration: Registration,
    /// It may have connections waiting.
    pub(super) pending: bool,
}

/// Accepts between two re-addings of the listeners, each of which takes two system calls.
const RE_ADD_AFTER: u64 = 16;

impl Port {
    /// Whatever was queued before they are registered is found by trying.
    pub(super) fn all(listeners: Share) -> Vec<Self> {
        let doors = Door::all(listeners).into_iter();
        let port = |(door, number)| Self { door, number, registration: Registration::None, pending: true };
        doors.zip(0..).map(port).collect()
    }
}

impl EventLoop {
    /// One such phase.
    pub(super) fn accept_phase(&mut self) -> io::Result<()> {
        let mut pending = false;
        for port in &mut self.ports {
            // Where it is to be closed, empty once does not mean empty at the end.
            port.pending |= port.door.is_retiring();
            pending |= port.pending;
        }
        if !pending {
            return Ok(());
        }
        let mut sample =
            self.accept_policy.sampling_is_due(self.service.clock.ns) && self.sample_queue().is_some();
        let mut budget = self.accept_policy.budget().connections;
        let mut accepted = 0;
        for at in 0..self.ports.len() {
            while self.ports[at].pending && budget > 0 && self.has_room() {
                match self.accept_at(at) {
                    Accepted::Client(mut client) => {
                        budget -= 1;
                        accepted += 1;
                        if std::mem::take(&mut sample) {
                            client.waited_ms =
                                sample_wait(&client.socket, &mut self.accept_policy, self.service.counters);
                        }
                        self.open(client);
                    }
                    Accepted::Nobody => self.ports[at].pending = false,
                    Accepted::TryAgain | Accepted::Paused => {}
                }
            }
        }
        self.service.counters.accept_phase(accepted);
        self.accepting_ends(accepted as u32);
        self.watch_listeners()?;
        self.leave_the_next_to_others(accepted)
    }

    pub(super) fn accept_at(&mut self, at: usize) -> Accepted {
        self.ports[at].door.accept(&mut self.service, &mut self.gate, &mut self.complaints)
    }

    /// Sees how many connections wait to be accepted.
    fn sample_queue(&mut self) -> Option<()> {
        let pending = self.ports.iter().filter(|port| port.pending).map(|port| &port.door);
        sample_queue(pending, &mut self.accept_policy, self.service.counters)
    }

    /// Level-triggered mechanisms report a listener for as long as it is non-empty: it is taken out while
    /// nothing can be accepted, or the loop would spin. So it is where only one process is woken, which must
    /// not be this one then.
    pub(super) fn watch_listeners(&mut self) -> io::Result<()> {
        let now = self.service.clock.tick;
        let room = self.gate.room(self.connections.len(), now) > 0;
        let alone = self.wake != Wake::All;
        for port in &mut self.ports {
            let wanted = room || !port.pending;
            let listener = port.door.listener.as_fd();
            port.registration = match (port.registration, wanted) {
                (Registration::None, true) => {
                    let token = Token { kind: Kind::Listener, generation: 0, index: port.number };
                    self.events.listen(listener, token.number(), alone)?
                }
                (Registration::Edge, false) if !alone => Registration::Edge,
                (Registration::Level { .. } | Registration::Edge, false) => {
                    self.events.remove(listener);
                    if alone {
                        // Nobody else was woken for what waits there.
                        self.control.call_others();
                    }
                    Registration::None
                }
                (unchanged, _) => unchanged,
            };
        }
        Ok(())
    }

    /// The kernel wakes whoever registered first among those that wait; re-adding a listener goes to the end
    /// of the line.
    fn leave_the_next_to_others(&mut self, accepted: u64) -> io::Result<()> {
        self.accepted_since_added += accepted;
        if self.wake != Wake::ReAdding || self.accepted_since_added < RE_ADD_AFTER {
            return Ok(());
        }
        self.accepted_since_added = 0;
        for port in &mut self.ports {
            self.events.remove_if(port.door.listener.as_fd(), port.registration);
            port.registration = Registration::None;
        }
        self.watch_listeners()
    }
}
