//! What a client's socket can do besides moving bytes: report whether the client has disconnected and where
//! the connection was accepted, and be lent to an application.
//!
//! A [`channel`](crate::channel) moves the bytes, and gives a conversation a `Line`. A client without a
//! socket counts as connected until its input ends, and cannot be lent.

use std::os::fd::BorrowedFd;

use sys::socket::{self, LocalAddress};

use crate::gateway::Lendable;

/// A client's socket, or none.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    socket: Option<BorrowedFd<'a>>,
    /// The client reads exactly what is written to the socket, so another process can write to it.
    is_plain: bool,
    /// Calls on the socket block.
    blocks: bool,
}

impl<'a> Line<'a> {
    /// For a client without a socket.
    pub const NONE: Line<'static> = Line { socket: None, is_plain: false, blocks: false };

    /// For a client with this socket. `is_plain`: it reads exactly what is written to the socket.
    /// Otherwise it cannot be lent. `blocks`: calls on the socket block.
    #[inline]
    pub fn of(socket: BorrowedFd<'a>, is_plain: bool, blocks: bool) -> Self {
        Self { socket: Some(socket), is_plain, blocks }
    }

    /// Whether the client sends no more ([`socket::has_hung_up`]).
    pub fn has_hung_up(self) -> bool {
        self.socket.is_some_and(socket::has_hung_up)
    }

    /// Whether nothing can be sent any more ([`socket::is_broken`]).
    pub fn is_broken(self) -> bool {
        self.socket.is_some_and(socket::is_broken)
    }

    /// The address that the client has connected to, if that is known.
    pub fn local_address(self) -> Option<LocalAddress> {
        socket::local_address(self.socket?).ok()
    }

    /// What an application may be lent, if this client may be lent.
    pub fn lendable(self) -> Option<Lendable<'a>> {
        let socket = self.socket.filter(|_| self.is_plain)?;
        Some(Lendable { socket, blocks: self.blocks })
    }
}
