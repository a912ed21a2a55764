//! Connections that user-level threads serve. A thread names its connection and asks for one step at a time,
//! since the loop may end that connection while the thread is parked.

use std::io;
use std::os::fd::AsFd as _;

use super::registered::Registered;
use super::{EventLoop, Name};
use crate::architecture::events::Registration;
use crate::channel::Channel;
use crate::conversation::{Next, Turn};
use crate::counters::Counters;
use crate::slab::Slab;

/// What came of a step.
pub(in crate::architecture) enum Step {
    /// The step is done.
    Done,
    /// The step is done as far as it can be before what this says.
    Waits(Turn),
    /// Nothing of a request has come, and nothing is owed to the client.
    Silent,
    /// The connection has ended.
    Ended,
}

impl EventLoop {
    /// Keeps a record of connections that end, for [`take_ended`](Self::take_ended).
    pub(in crate::architecture) fn tells_of_ends(&mut self) {
        self.ended = Some(Vec::new());
    }

    /// A connection that has ended since the last call. `None`: there are no more.
    pub(in crate::architecture) fn take_ended(&mut self) -> Option<Name> {
        self.ended.as_mut()?.pop()
    }

    /// What this worker counts, and the seconds since the Unix epoch.
    pub(in crate::architecture) fn counters_and_seconds(&self) -> (&'static Counters, u64) {
        (self.service.counters, self.service.clock.unix_secs)
    }

    /// The connection in that slot has its turn now, if it is due for one. `None`: it is not, or it waits for
    /// a thread.
    #[inline]
    pub(in crate::architecture) fn take_due(&mut self, index: u32) -> Option<Name> {
        let registered = self.connections.get_mut(index)?;
        let is_due = std::mem::take(&mut registered.due) && !registered.awaits_thread;
        is_due.then_some(Name { index, generation: registered.generation })
    }

    /// The connection waits until a thread is free. Meanwhile nothing reads from its socket, so that a
    /// level-triggered mechanism must not watch it.
    pub(in crate::architecture) fn await_thread(&mut self, name: Name) {
        let Some(registered) = named(&mut self.connections, name) else { return };
        registered.awaits_thread = true;
        if !self.waiting.events.is_edge_triggered() {
            self.waiting.events.remove_if(registered.conversation.as_fd(), registered.registration);
            registered.registration = Registration::None;
        }
    }

    /// A thread is free for the connection. `false`: it has ended.
    pub(in crate::architecture) fn has_thread(&mut self, name: Name) -> bool {
        let registered = named(&mut self.connections, name);
        registered.is_some_and(|registered| std::mem::take(&mut registered.awaits_thread))
    }

    /// Whether clients may wait to be accepted, and there is room for one more.
    pub(in crate::architecture) fn may_accept(&mut self) -> bool {
        (self.accepting.is_pending() || self.accepting.is_retiring()) && self.has_room()
    }

    /// Whether no thread is free for another connection, however few are open.
    pub(in crate::architecture) fn set_full(&mut self, is_full: bool) {
        self.accepting.gate.set_full(is_full);
    }

    /// An accept phase of a thread, which is to serve the connections that it takes. They wait for it.
    ///
    /// # Errors
    ///
    /// The event mechanism stops working.
    pub(in crate::architecture) fn accept_for_thread(&mut self) -> io::Result<Vec<Name>> {
        let before = self.agenda.work.len();
        self.accept_phase()?;
        let accepted: Vec<u32> = self.agenda.work.drain(before..).collect();
        let accepted: Vec<Name> = accepted.into_iter().filter_map(|index| self.take_due(index)).collect();
        for &name in &accepted {
            self.await_thread(name);
        }
        Ok(accepted)
    }

    /// Receives a request. Done: its reply is planned, or its application answers.
    pub(in crate::architecture) fn read(&mut self, name: Name) -> Step {
        let Some(registered) = named(&mut self.connections, name) else { return Step::Ended };
        let client = &mut registered.conversation;
        if client.is_bound() {
            return Step::Done;
        }
        match client.receive(&mut self.service) {
            Next::Send | Next::Receive => Step::Done,
            Next::Turn(turn @ (Turn::Close | Turn::Reset)) => self.ends(name, turn),
            Next::Turn(Turn::Blocked) if is_silent(client) => Step::Silent,
            Next::Turn(turn) => Step::Waits(turn),
        }
    }

    /// Sends what is owed to the client, and receives it from an application first if one answers. Done: all
    /// is sent, and the next request has begun.
    pub(in crate::architecture) fn write(&mut self, name: Name) -> Step {
        let Some(registered) = named(&mut self.connections, name) else { return Step::Ended };
        let client = &mut registered.conversation;
        match client.work(&mut self.service) {
            turn @ (Turn::Close | Turn::Reset) => self.ends(name, turn),
            Turn::Blocked if is_silent(client) => Step::Silent,
            Turn::Blocked if !client.is_replying() && !client.is_paused() => Step::Done,
            turn => Step::Waits(turn),
        }
    }

    /// The connection waits until it can go on.
    #[inline]
    pub(in crate::architecture) fn wait(&mut self, name: Name, turn: Turn) {
        match (turn, self.connections.get_mut(name.index)) {
            // As with a turn that is a call, nearly every one ends this way.
            (Turn::Blocked, Some(registered)) if registered.registration == Registration::Edge => {
                registered.keep_deadline(name.index, &mut self.waiting.timers);
            }
            (turn, _) => self.settle(name.index, turn),
        }
    }

    fn ends(&mut self, name: Name, turn: Turn) -> Step {
        self.settle(name.index, turn);
        Step::Ended
    }
}

/// The connection of that name, if it has not ended.
#[inline]
fn named(connections: &mut Slab<Registered>, name: Name) -> Option<&mut Registered> {
    connections.get_mut(name.index).filter(|registered| registered.generation == name.generation)
}

/// Whether a client is between requests, or behind its last one.
fn is_silent(client: &mut Channel) -> bool {
    !client.is_paused() && (client.machine().is_idle() || client.machine().is_lingering())
}
