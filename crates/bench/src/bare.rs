//! What the ceiling and the relay have in common, who parse nothing: requests that are counted by their
//! lengths, and sockets that don't block.

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;

use anyhow::{Context as _, Result};
use sys::socket::Slice;

/// Requests of a client that sends the same one again and again.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// Length of the first one, and, it is assumed, of all others; 0 before it came.
    length: usize,
    /// Bytes received and not yet counted as a whole one.
    received: usize,
    /// Those that were not answered, the one being answered included.
    pub(crate) owed: usize,
}

impl Requests {
    /// Counts what came, and says whether the first request ends in it: at the first empty line. After that,
    /// lengths are enough.
    pub(crate) fn count(&mut self, input: &[u8]) -> bool {
        self.received += input.len();
        let is_first = self.length == 0;
        if is_first {
            let Some(end) = input.windows(4).position(|window| window == b"\r\n\r\n") else { return false };
            self.length = self.received - input.len() + end + 4;
        }
        self.owed += self.received / self.length;
        self.received %= self.length;
        is_first
    }
}

/// The next client in a queue that `accept` takes from, if there is one.
pub(crate) fn next_client(mut accept: impl FnMut() -> io::Result<OwnedFd>) -> Result<Option<OwnedFd>> {
    loop {
        match unless_blocked(accept()) {
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
            accepted => return accepted.context("cannot accept"),
        }
    }
}

/// `None` where there is nothing to do now.
pub(crate) fn unless_blocked<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        other => other.map(Some),
    }
}

/// What is left of two pieces of which so many bytes are sent.
pub(crate) fn unsent<'a>(first: &'a [u8], second: &'a [u8], sent: usize) -> [Slice<'a>; 2] {
    let mut pieces = [Slice::new(first), Slice::new(second)];
    pieces[0].advance(sent);
    pieces[1].advance(sent.saturating_sub(first.len()));
    pieces
}
