//! The event loop with a ring ([`sys::ring`]) instead of an event mechanism. Readiness comes as from the
//! others. But a client's bytes are received and sent by the ring:
//!
//! 1. While a connection waits for input, the ring [receives](EventLoop::await_ring) for it. What comes is
//!    taken in the [get-events phase](EventLoop::heed_ring), and the connection has a turn. Connections to
//!    which files were sent are an exception: the ring tells when they have input, and calls receive it.
//! 2. A turn puts what it sends from memory into the [outbox](crate::outbox), and the loop
//!    [hands it](EventLoop::hand_to_ring) to the ring. Files, and what is too large for a copy, are sent by
//!    calls.
//! 3. The next get-events phase hands all operations to the kernel, in one call.
//!
//! What applications' servers send and receive goes the same way
//! ([`gateway::Link`](crate::gateway::Link)).
//!
//! A connection that ends leaves its operations to the ring, which cancels them. They are named by the
//! connection's token, so that what completes late reaches no other connection.

use std::os::fd::AsFd as _;

use sys::event::Interest;
use sys::ring::{Completion, How};
use sys::socket;

use super::EventLoop;
use super::registered::Registered;
use crate::architecture::common::token::{Kind, Token};
use crate::architecture::events::Registration;
use crate::counters::Reset;
use crate::outbox::{Outbox, Post};

impl EventLoop {
    /// Takes what the ring has received, and gives back what it has sent.
    #[inline]
    pub(super) fn heed_ring(&mut self) {
        let Self { waiting, connections, service, agenda, postponed, .. } = self;
        let Some(ring) = waiting.events.ring() else { return };
        service.counters.ring(ring.counts(), ring.in_flight());
        while let Some(completion) = ring.next_completion() {
            let name = completion.name();
            let Some(token) = Token::from_number(name) else { continue };
            if token.kind == Kind::Helpers {
                postponed.loaded.push(token.index);
                continue;
            }
            let Some(registered) = Registered::named(connections, token) else {
                if let Completion::Sent { bytes, .. } | Completion::Released { bytes, .. } = completion {
                    service.buffers.give(bytes);
                }
                continue;
            };
            let goes_on = if token.kind == Kind::Application {
                // The client's request may have another connection to a server by now.
                let link = registered.conversation.link().map(|(link, _)| link);
                match (link.filter(|link| link.watched_as == name), completion) {
                    (Some(link), Completion::Received { result, .. }) => {
                        link.has_received(result);
                        true
                    }
                    (Some(link), Completion::Sent { result, bytes, .. }) => link.has_sent(result, bytes),
                    _ => false,
                }
            } else {
                match completion {
                    Completion::Received { result, .. } => {
                        registered.conversation.has_received(service, result);
                        true
                    }
                    Completion::Sent { result, bytes, .. } => {
                        service.buffers.give(bytes);
                        registered.conversation.has_sent(service, result)
                    }
                    Completion::Released { bytes, .. } => {
                        service.buffers.give(bytes);
                        false
                    }
                    Completion::Loaded { .. } => false,
                }
            };
            if goes_on {
                agenda.add(token.index, registered);
            }
        }
        if !self.postponed.loaded.is_empty() {
            self.heed_loads();
        }
    }

    /// Hands what the connection's turn has put into the outbox to the ring.
    #[inline]
    pub(super) fn hand_to_ring(&mut self, index: u32) {
        let Some(Post { bytes, how }) = self.service.outbox.as_mut().and_then(Outbox::take) else {
            return;
        };
        let (Some(ring), Some(registered)) = (self.waiting.events.ring(), self.connections.get_mut(index))
        else {
            return;
        };
        ring.send(registered.conversation.as_fd(), registered.token(index), bytes, how);
    }

    /// Has the ring receive for the connection if it waits for input, and watches its socket if it waits
    /// for something that only the socket can tell. From its first file on, input is watched as well.
    #[inline]
    pub(super) fn await_ring(&mut self, index: u32) {
        let Self { waiting, connections, service, .. } = self;
        let (Some(ring), Some(registered)) = (waiting.events.ring(), connections.get_mut(index)) else {
            return;
        };
        let token = registered.token(index);
        let Registered { conversation, registration, .. } = registered;
        let mut watched = Ok(());
        if *registration == Registration::WithRing {
            // Its input is watched as well.
        } else if conversation.is_better_watched() {
            if *registration != Registration::None {
                // It is watched, so it can be removed.
                let _ = ring.remove(&*conversation);
            }
            watched = ring.add(&*conversation, token, Interest::BOTH);
            *registration = Registration::WithRing;
        } else {
            if let Some(room) = conversation.begins_to_receive(service) {
                // The first request of a connection is usually there, and the next one is not.
                let is_silent = conversation.requests() > 0;
                ring.receive(conversation.as_fd(), token, room, is_silent);
            }
            if conversation.awaits_events() && *registration == Registration::None {
                watched = ring.add(&*conversation, token, Interest::WRITABLE);
                *registration = Registration::BesidesInput;
            }
        }
        if let Err(error) = watched {
            *registration = Registration::None;
            let message = format!("cannot wait for a connection: {error}");
            self.complaints.warn(self.service.clock.ms, &message);
            return self.close(index, true);
        }
        registered.keep_deadline(index, &mut waiting.timers);
    }

    /// Hands what the connection's request sends to an application's server to the ring, and has the ring
    /// receive. Watches the server's socket if only that can tell how the request goes on. Returns whether
    /// that is possible.
    pub(super) fn watch_link_by_ring(&mut self, index: u32) -> bool {
        let Self { waiting, connections, complaints, service, .. } = self;
        let (Some(ring), Some(registered)) = (waiting.events.ring(), connections.get_mut(index)) else {
            return true;
        };
        let token = Token { kind: Kind::Application, generation: registered.generation, index };
        let Registered { conversation, links, .. } = registered;
        let Some((link, (wants_input, wants_room))) = conversation.link() else { return true };
        if Token::from_number(link.watched_as) != Some(token) {
            // It is new, or was another client's.
            if link.registration != Registration::None {
                // It is watched, so it can be removed.
                let _ = ring.remove(&*link);
            }
            *links = links.wrapping_add(1);
            (link.registration, link.watched_as) = (Registration::None, token.number_in(*links));
        }
        let name = link.watched_as;
        if let Some(records) = link.take_posted() {
            ring.send(link.as_fd(), name, (records, None), How::default());
        }
        if link.begins_to_receive(wants_input) {
            // Its answer takes a while.
            ring.receive(link.as_fd(), name, usize::MAX, true);
        }
        if link.awaits_events(wants_room) && link.registration == Registration::None {
            match ring.add(&*link, name, Interest::WRITABLE) {
                Ok(()) => link.registration = Registration::BesidesInput,
                Err(error) => {
                    let message = format!("cannot wait for an application: {error}");
                    complaints.warn(service.clock.ms, &message);
                    return false;
                }
            }
        }
        true
    }

    /// Ends a connection that has left its slot. The socket is closed behind its operations.
    pub(super) fn close_by_ring(&mut self, index: u32, registered: Registered, reset: bool) {
        let token = registered.token(index);
        let Registered { conversation, registration, .. } = registered;
        // What counts as sent has not gone yet. This end must not look like the end of the reply.
        let is_cut_off = conversation.is_sending();
        let is_moving = conversation.is_receiving() || is_cut_off;
        if let Some(ring) = self.waiting.events.ring() {
            if is_moving {
                ring.cancel(token);
            }
            if registration != Registration::None {
                // It is watched, so it can be removed.
                let _ = ring.remove(&conversation);
            }
        }
        let socket = conversation.end(&mut self.service);
        self.service.counters.connections_closed.add(1);
        if reset {
            self.service.counters.reset(Reset::Local);
        }
        if reset || is_cut_off {
            // A socket that cannot be reset is closed.
            let _ = socket::reset_when_closed(socket.as_fd());
        }
        if let Some(ring) = self.waiting.events.ring() {
            ring.close(socket);
        }
    }
}

impl Registered {
    /// Names the connection in this slot.
    #[inline]
    fn token(&self, index: u32) -> u64 {
        Token { kind: Kind::Client, generation: self.generation, index }.number()
    }
}
