//! Where the loop accepts from, and how much: its listeners, the gate and the accept policy.

use std::io;
use std::os::fd::AsFd;

use http1::Tick;
use sys::tcp_info::accept_queue;

use super::room::Pressure;
use crate::accept::{AcceptPolicy, Gate};
use crate::allotment::Allotment;
use crate::architecture::common::listener_handles::ListenerHandle;
use crate::architecture::common::samples::sample_queue;
use crate::architecture::common::token::{Kind, Token};
use crate::architecture::events::{EventMechanism, Registration};
use crate::config::{Settings, Wake};
use crate::control::Control;
use crate::counters::Counters;
use crate::listeners::Share;

/// The listeners of a loop, and what decides when it accepts from them.
pub(super) struct Accepting {
    pub(super) ports: Vec<Port>,
    pub(super) gate: Gate,
    pub(super) policy: AcceptPolicy,
    pub(super) pressure: Pressure,
    wake: Wake,
    /// Connections accepted since the listeners were last added.
    accepted_since_added: u64,
}

/// A listener in the loop.
pub(super) struct Port {
    pub(super) handle: ListenerHandle,
    /// Names the listener in its events.
    number: u32,
    pub(super) registration: Registration,
    /// It may have connections waiting.
    pub(super) pending: bool,
}

/// Accepts between two re-addings of the listeners. Re-adding a listener takes two system calls.
const RE_ADD_AFTER: u64 = 16;

impl Accepting {
    /// Marks every listener as pending. Connections that were queued before the registration are found only
    /// by trying to accept.
    pub(super) fn new(listeners: Share, settings: &Settings, now: Tick) -> Self {
        let handles = ListenerHandle::all(listeners).into_iter();
        let port =
            |(handle, number)| Port { handle, number, registration: Registration::None, pending: true };
        Self {
            ports: handles.zip(0..).map(port).collect(),
            gate: Gate::new(Allotment::of(settings).connections),
            policy: AcceptPolicy::new(settings.event.accept_limit),
            pressure: Pressure::new(now),
            wake: settings.event.wake,
            accepted_since_added: 0,
        }
    }

    /// Whether a listener may have connections waiting.
    pub(super) fn is_pending(&self) -> bool {
        self.ports.iter().any(|port| port.pending)
    }

    /// Whether a listener is to be emptied and closed.
    pub(super) fn is_retiring(&self) -> bool {
        self.ports.iter().any(Port::is_retiring)
    }

    /// The listener of that number may have connections waiting.
    pub(super) fn note(&mut self, number: u32) {
        if let Some(port) = self.ports.iter_mut().find(|port| port.number == number) {
            port.pending = true;
        }
    }

    /// Samples how many connections wait to be accepted.
    pub(super) fn sample_queue(&mut self, counters: &Counters) -> Option<()> {
        let pending = self.ports.iter().filter(|port| port.pending).map(|port| &port.handle);
        sample_queue(pending, &mut self.policy, counters)
    }

    /// How many connections wait to be accepted. For Unix sockets the kernel reports only whether there are
    /// any. That counts as a quarter of the open connections.
    pub(super) fn count_waiting(&self, open: u32) -> u32 {
        let some = open.div_ceil(4);
        let waiting = |port: &Port| match accept_queue(&*port.handle.listener) {
            Ok(queue) => queue.length,
            Err(_) if port.handle.listener.has_queue() => some,
            Err(_) => 0,
        };
        self.ports.iter().filter(|port| port.pending).map(waiting).fold(0, u32::saturating_add)
    }

    /// Registers the listeners whose events the loop wants, while this many connections are open.
    ///
    /// Level-triggered mechanisms report a listener for as long as it is non-empty. So the loop removes it
    /// while nothing can be accepted; otherwise the loop would spin. If the kernel wakes only one process
    /// for a connection, the loop removes an edge-triggered listener as well: the process that is woken
    /// must not be this one.
    pub(super) fn watch(
        &mut self,
        events: &mut EventMechanism,
        control: &Control,
        open: u32,
        now: Tick,
    ) -> io::Result<()> {
        let room = self.gate.room(open, now) > 0;
        let alone = self.wake != Wake::All;
        for port in &mut self.ports {
            let wanted = room || !port.pending;
            let listener = port.handle.listener.as_fd();
            port.registration = match (port.registration, wanted) {
                (Registration::None, true) => {
                    let token = Token { kind: Kind::Listener, generation: 0, index: port.number };
                    events.listen(listener, token.number(), alone)?
                }
                (Registration::Edge, false) if !alone => Registration::Edge,
                (Registration::Level { .. } | Registration::Edge, false) => {
                    events.remove(listener);
                    if alone {
                        // The kernel woke no other process for what waits there.
                        control.call_others();
                    }
                    Registration::None
                }
                (unchanged, _) => unchanged,
            };
        }
        Ok(())
    }

    /// Removes the listeners if that leaves the next connections to other processes. Returns whether they
    /// have to be added again. The kernel wakes the process that registered first; adding a listener again
    /// puts it at the end of that order.
    pub(super) fn leaves_the_next_to_others(&mut self, accepted: u64, events: &mut EventMechanism) -> bool {
        self.accepted_since_added += accepted;
        if self.wake != Wake::ReAdding || self.accepted_since_added < RE_ADD_AFTER {
            return false;
        }
        self.accepted_since_added = 0;
        for port in &mut self.ports {
            events.remove_if(port.handle.listener.as_fd(), port.registration);
            port.registration = Registration::None;
        }
        true
    }
}

impl Port {
    pub(super) fn is_retiring(&self) -> bool {
        self.handle.is_retiring()
    }
}
