//! What else can be done with a client's socket than moving bytes: ask whether the client has left, and where
//! the connection was accepted, and lend the socket to an application.
//!
//! A [`channel`](crate::channel) moves the bytes, and hands a conversation such a line. A client without a
//! socket is taken to be there until its input ends, and is not lent.

use std::os::fd::BorrowedFd;

use sys::socket::{self, LocalAddress};

use crate::gateway::Lendable;

/// A client's socket, or none.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    socket: Option<BorrowedFd<'a>>,
    /// What is written to the socket is what the client reads, so that somebody else can write to it.
    is_plain: bool,
    /// Calls on it block.
    blocks: bool,
}

impl<'a> Line<'a> {
    /// Of a client without a socket of its own.
    pub const NONE: Line<'static> = Line { socket: None, is_plain: false, blocks: false };

    /// Of a client that reads what is written to this socket, where calls block or don't.
    #[inline]
    pub fn plain(socket: BorrowedFd<'a>, blocks: bool) -> Self {
        Self { socket: Some(socket), is_plain: true, blocks }
    }

    /// Of a client with whom something is agreed about the bytes of this socket. It can't be lent.
    #[inline]
    pub fn veiled(socket: BorrowedFd<'a>) -> Self {
        Self { socket: Some(socket), is_plain: false, blocks: false }
    }

    /// Whether the client sends no more ([`socket::has_hung_up`]).
    pub fn has_hung_up(self) -> bool {
        self.socket.is_some_and(socket::has_hung_up)
    }

    /// Whether nothing can be sent any more ([`socket::is_broken`]).
    pub fn is_broken(self) -> bool {
        self.socket.is_some_and(socket::is_broken)
    }

    /// The address that the client has connected to, if that can be told.
    pub fn local_address(self) -> Option<LocalAddress> {
        socket::local_address(self.socket?).ok()
    }

    /// What an application may be lent, if the client is one that may be.
    pub fn lendable(self) -> Option<Lendable<'a>> {
        let socket = self.socket.filter(|_| self.is_plain)?;
        Some(Lendable { socket, blocks: self.blocks })
    }
}
