//! A client's socket, and the calls on it: receives, sends, and the ends of the connection.
//!
//! A channel knows how to [receive](Plain::receive) and [send](Plain::send) until something would block, or
//! until its share of the turn is used up. Where sends may block ([`sends`](crate::sends)), the share is used
//! up as well when one was broken off. It does not know who calls it or what waits for events. The
//! event-driven architectures call [`Plain::work`], which alternates between both directions. The stages of a
//! pipeline call one of them each, and hand the channel on.
//!
//! A channel gives access to its conversation: it dereferences to it.

mod application;
mod receive;
mod send;
#[cfg(test)]
mod tests;
mod work;

use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use sys::socket::{self, PeerAddress};

use crate::conversation::{Conversation, Next, Turn};
use crate::line::Line;
use crate::service::Service;

/// A connection that was just accepted.
#[derive(Debug)]
pub struct Client {
    /// Its socket.
    pub socket: OwnedFd,
    /// The other end's address.
    pub peer: PeerAddress,
    /// It begins with a [PROXY header](crate::proxies::header).
    pub is_announced: bool,
    /// How many milliseconds it has waited in the accept queue at least, if that was looked at.
    pub waited_ms: Option<u32>,
}

/// A client being served over its socket.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about the socket, a byte each")]
pub struct Plain {
    /// Dropped before the conversation, which may have a connection to an application that was lent it.
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
}

impl Plain {
    /// A channel to a client that was just accepted.
    pub fn new(Client { socket, peer, is_announced, waited_ms }: Client, service: &Service) -> Self {
        Self {
            is_local: peer == PeerAddress::Unix,
            conversation: Conversation::new(peer, is_announced, waited_ms, service),
            socket,
            // Clients usually send at once, and the answer to trying is cheaper than the answer to asking.
            readable: true,
            writable: true,
            hung_up: false,
            blocks: service.sends_block,
        }
    }

    /// What else can be done with the client's socket than moving bytes.
    #[inline]
    fn line(&self) -> Line<'_> {
        Line::plain(self.socket.as_fd(), self.blocks)
    }

    /// Takes note of an event.
    pub fn note(&mut self, readable: bool, writable: bool, hung_up: bool) {
        self.readable |= readable || hung_up;
        self.writable |= writable || hung_up;
        self.hung_up |= hung_up;
    }

    /// Leaves it to an event to say that there is input.
    pub fn await_input(&mut self) {
        self.readable = false;
    }

    /// Whether an event is needed to go on reading or writing, as the conversation needs.
    pub fn waits_for(&self) -> (bool, bool) {
        let (input, room) = self.conversation.needs();
        (input && !self.readable, room && !self.writable)
    }

    /// Acts on a deadline that has come, and goes on with what follows. `None`: nothing has ended, ask for
    /// the deadline again.
    pub fn timeout(&mut self, service: &mut Service) -> Option<Turn> {
        match self.expire(service)? {
            Next::Turn(turn) => Some(turn),
            Next::Receive | Next::Send => Some(self.work(service)),
        }
    }

    /// Acts on a deadline that has come: what is said to the client is planned, and not sent. `None`: nothing
    /// has ended, ask for the deadline again.
    pub fn expire(&mut self, service: &mut Service) -> Option<Next> {
        let line = Line::plain(self.socket.as_fd(), self.blocks);
        self.conversation.expire(service, line)
    }

    /// Ends whatever the client takes its time for, since others wait for its place. It is told so where an
    /// answer is owed: that is planned, and not sent.
    pub fn give_up(&mut self, service: &mut Service) {
        let line = Line::plain(self.socket.as_fd(), self.blocks);
        self.conversation.give_up(service, line);
    }

    /// Ends whatever the client takes its time for, since others wait for its place. It is told so where an
    /// answer is owed, and its end is not awaited.
    pub fn give_way(&mut self, service: &mut Service) -> Turn {
        self.give_up(service);
        match self.work(service) {
            Turn::Blocked if self.conversation.machine().is_lingering() => Turn::Close,
            turn => turn,
        }
    }

    /// Gives back everything that belongs to the worker, and the socket.
    pub fn end(self, service: &mut Service) -> OwnedFd {
        self.cut_off();
        self.conversation.end(service);
        self.socket
    }

    /// Makes the end of the connection differ from the end of a reply, if one is under way: some clients
    /// know the end of a reply by the end of the connection alone. A socket that was lent is ended for all
    /// processes that may have a copy. Call this before the channel is dropped.
    pub fn cut_off(&self) {
        if self.conversation.was_lent() {
            self.end_lent();
        } else if self.conversation.is_in_a_reply() {
            // Otherwise it is closed as any is.
            let _ = socket::reset_when_closed(self.socket.as_fd());
        }
    }

    /// Ends a connection whose socket was lent: an application may have a copy.
    #[cold]
    fn end_lent(&self) {
        // Its client may have ended it.
        let _ = if self.conversation.is_cut_short() {
            socket::disconnect(self.socket.as_fd())
        } else {
            socket::shut_down(self.socket.as_fd())
        };
    }
}

impl Deref for Plain {
    type Target = Conversation;

    fn deref(&self) -> &Conversation {
        &self.conversation
    }
}

impl DerefMut for Plain {
    fn deref_mut(&mut self) -> &mut Conversation {
        &mut self.conversation
    }
}

impl AsFd for Plain {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
