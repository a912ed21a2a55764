//! A channel moves the bytes of a [`Conversation`]: it has the client's socket, and makes the calls on it to
//! receive, to send, and to end the connection. [TLS](tls) may lie between the two.
//!
//! A channel can [receive](Channel::receive) and [send](Channel::send) until something would block, or until
//! its quantum for the turn is used up. If sends may block ([`sends`](crate::sends)), a send that was
//! broken off uses up the quantum, too. The channel does not know its caller or what waits for events.
//! The event-driven architectures call [`Channel::work`], which alternates between both directions. Each
//! stage of a pipeline calls one of them, and hands the channel on.
//!
//! A ring may move the bytes instead of calls ([`by_ring`]).
//!
//! A channel gives access to its conversation: it dereferences to it.

mod application;
mod by_ring;
mod receive;
mod send;
#[cfg(test)]
mod tests;
pub mod tls;
mod work;

use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use http1::Tick;
use sys::socket::{self, PeerAddress};

use self::by_ring::ByRing;
use self::tls::Tls;
use crate::conversation::{Conversation, Next, Turn};
use crate::line::Line;
use crate::service::Service;
use crate::tls::Session;

/// A connection that was just accepted.
#[derive(Debug)]
pub struct Client {
    /// Its socket.
    pub socket: OwnedFd,
    /// The other end's address.
    pub peer: PeerAddress,
    /// The connection begins with a [PROXY header](crate::proxies::header).
    pub is_announced: bool,
    /// The client speaks TLS.
    pub speaks_tls: bool,
    /// The least number of milliseconds that the connection has waited in the accept queue, if that was
    /// measured.
    pub waited_ms: Option<u32>,
}

/// A client being served over its socket.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about the socket, a byte each")]
pub struct Channel {
    /// Dropped before the conversation, which may have a connection to the application that the socket
    /// was passed to.
    socket: OwnedFd,
    conversation: Conversation,
    /// The socket may have input: set by an event, cleared by finding it empty.
    readable: bool,
    /// The socket may have room: cleared by finding it full.
    writable: bool,
    /// The client has shut down its side, which an empty read will confirm.
    hung_up: bool,
    /// Sends block while the socket is full.
    blocks: bool,
    /// The socket is a Unix socket, which may carry descriptors.
    is_local: bool,
    /// What is received needs more than a call: the socket may carry descriptors, or there is TLS.
    reads_specially: bool,
    /// If the client speaks TLS: what opens and seals.
    tls: Option<Box<Tls>>,
    /// What a ring does for the client.
    ring: ByRing,
    /// When what the ring sends must be sent.
    sent_by: Tick,
}

impl Channel {
    /// A channel to a client that was just accepted.
    pub fn new(client: Client, service: &Service) -> Self {
        let Client { socket, peer, is_announced, speaks_tls, waited_ms } = client;
        let is_local = peer == PeerAddress::Unix;
        let session = speaks_tls.then(|| Session::new(service.tls_terms.as_ref()?)).flatten();
        let mut conversation = Conversation::new(peer, is_announced, waited_ms, service);
        if session.is_some() {
            service.counters.tls_connections.add(1);
        } else if speaks_tls {
            conversation.breaks_off();
        }
        Self {
            is_local,
            reads_specially: is_local || speaks_tls,
            tls: session.map(|session| Box::new(Tls::new(session))),
            conversation,
            socket,
            // Clients usually send at once, and trying to read is cheaper than asking for an event.
            readable: true,
            writable: true,
            hung_up: false,
            blocks: service.sends_block,
            ring: ByRing::default(),
            sent_by: service.clock.tick,
        }
    }

    /// What the client's socket can do other than moving bytes.
    #[inline]
    fn line(&self) -> Line<'_> {
        Line::of(self.socket.as_fd(), self.tls.is_none(), self.blocks)
    }

    /// Whether the client speaks TLS.
    pub fn speaks_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether a TLS handshake is under way.
    pub fn is_shaking_hands(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| !tls.is_established())
    }

    /// Ends a connection that is between requests. Returns whether it was. A client in a handshake has
    /// something to ask.
    pub fn close_if_idle(&mut self) -> bool {
        !self.is_shaking_hands() && self.conversation.machine().close_if_idle()
    }

    /// As [`close_if_idle`](Self::close_if_idle), because the server ends. A client asks only when its
    /// handshake is complete, so it is left a second to do so.
    pub fn close_if_done(&mut self, now: Tick) -> bool {
        let has_just_come =
            self.tls.is_some() && self.conversation.requests() == 0 && !self.conversation.has_idled(now);
        !has_just_come && self.close_if_idle()
    }

    /// Whether its handshake waits, or is computed aside.
    #[inline]
    fn awaits_handshake(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.awaits_handshake())
    }

    /// Whether it waits in a queue, with a request or with its handshake.
    pub fn is_queued(&self) -> bool {
        self.awaits_handshake() || self.conversation.is_queued()
    }

    /// If it waits in a queue, names it. [`Service::called`] returns the name when it need not wait any more.
    /// The name must not be 0.
    pub fn name_queued(&self, service: &mut Service, name: u64) {
        match &self.tls {
            Some(tls) if tls.awaits_handshake() => tls.name_handshake(service, name),
            _ => self.conversation.name_queued(service, name),
        }
    }

    /// Whether only this worker can continue: for the conversation ([`Conversation::is_bound`]), or because
    /// its handshake waits in this worker's name.
    pub fn is_bound(&self) -> bool {
        self.awaits_handshake() || self.conversation.is_bound()
    }

    /// Whether TLS has something to send, whatever the conversation does.
    #[inline]
    fn has_own_to_send(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.has_own_to_send())
    }

    /// Records an event.
    pub fn note(&mut self, readable: bool, writable: bool, hung_up: bool) {
        self.readable |= (readable || hung_up) && !self.ring.is_receiving;
        self.writable |= (writable || hung_up) && !self.ring.is_sending;
        self.hung_up |= hung_up;
    }

    /// Leaves it to an event to report input.
    pub fn await_input(&mut self) {
        self.readable = false;
    }

    /// Whether an event is needed to continue reading or writing, as the conversation needs.
    pub fn waits_for(&self) -> (bool, bool) {
        if self.awaits_handshake() {
            return (false, false);
        }
        let (input, room) = self.conversation.needs();
        (input && !self.readable, (room || self.has_own_to_send()) && !self.writable)
    }

    /// Handles a deadline that has passed, and continues with what follows. `None`: nothing has ended, so
    /// ask for the deadline again.
    pub fn timeout(&mut self, service: &mut Service) -> Option<Turn> {
        if self.is_sent_too_slowly(service) {
            return Some(Turn::Reset);
        }
        match self.expire(service)? {
            Next::Turn(turn) => Some(turn),
            Next::Receive | Next::Send => Some(self.work(service)),
        }
    }

    /// Handles a deadline that has passed. An answer to the client is planned, not sent. `None`: nothing
    /// has ended, so ask for the deadline again.
    pub fn expire(&mut self, service: &mut Service) -> Option<Next> {
        let line = Line::of(self.socket.as_fd(), self.tls.is_none(), self.blocks);
        self.conversation.expire(service, line)
    }

    /// Ends whatever the client is slow at, because others wait for its slot. If the client is owed an
    /// answer, the answer is planned, not sent.
    pub fn give_up(&mut self, service: &mut Service) {
        let line = Line::of(self.socket.as_fd(), self.tls.is_none(), self.blocks);
        self.conversation.give_up(service, line);
    }

    /// Ends whatever the client is slow at, because others wait for its slot. If the client is owed an
    /// answer, the answer is sent. The client's own end is not awaited.
    pub fn make_room(&mut self, service: &mut Service) -> Turn {
        self.give_up(service);
        match self.work(service) {
            Turn::Blocked if self.conversation.machine().is_lingering() => Turn::Close,
            turn => turn,
        }
    }

    /// Gives back everything that belongs to the worker, and the socket.
    pub fn end(mut self, service: &mut Service) -> OwnedFd {
        self.cut_off();
        if self.tls.is_some() {
            self.end_tls(service);
        }
        self.conversation.end(service);
        self.socket
    }

    #[cold]
    fn end_tls(&mut self, service: &mut Service) {
        service.counters.tls_connections.add(1_u64.wrapping_neg());
        self.give_handshake_up(service);
        let is_cut_short = self.conversation.is_cut_short()
            || self.conversation.is_in_a_reply()
            || self.conversation.machine().is_broken();
        if !is_cut_short && !self.ring.is_sending {
            // If there is no room for it, the client sees an end that nobody has said.
            self.says_end(service);
        }
    }

    /// Makes the end of the connection differ from the end of a reply, if one is under way. Some clients
    /// know the end of a reply only by the end of the connection. If the socket was passed to an
    /// application, this ends it for all processes that may have a copy. Call this before the channel is
    /// dropped.
    pub fn cut_off(&self) {
        if self.conversation.was_lent() {
            self.end_lent();
        } else if self.conversation.awaits_send() {
            // The helper has a copy of the socket. This ends the connection for both.
            let _ = socket::disconnect(self.socket.as_fd());
        } else if self.conversation.is_in_a_reply() {
            // Otherwise it is closed like any other socket.
            let _ = socket::reset_when_closed(self.socket.as_fd());
        }
    }

    /// Ends a connection whose socket was passed to an application, which may have a copy.
    #[cold]
    fn end_lent(&self) {
        // The client may have ended it already.
        let _ = if self.conversation.is_cut_short() {
            socket::disconnect(self.socket.as_fd())
        } else {
            socket::shut_down(self.socket.as_fd())
        };
    }
}

impl Deref for Channel {
    type Target = Conversation;

    fn deref(&self) -> &Conversation {
        &self.conversation
    }
}

impl DerefMut for Channel {
    fn deref_mut(&mut self) -> &mut Conversation {
        &mut self.conversation
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
