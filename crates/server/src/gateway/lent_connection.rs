//! Passing a client's socket to an application, which then sends the reply itself (*pass-fd*; Yeung 2010,
//! section 3.2).
//!
//! A passed descriptor cannot be taken back, and the server does not see the reply. The server can only
//! see how many bytes were written to the socket. So it takes that number before passing the socket. It
//! checks now and then whether the client takes the bytes and whether more come. At the end it compares
//! the number with the application's report. While the socket is with the application, the server neither
//! reads from it nor sends to it.

use std::io;
use std::os::fd::BorrowedFd;

use fastcgi::transport::Returned;
use http1::{Limits, Tick, Timeouts};
use sys::{socket, tcp_info};

use super::failure::Failure;

/// A client's socket, which its owner allows to be passed.
#[derive(Clone, Copy, Debug)]
pub struct Lendable<'a> {
    /// A TCP socket.
    pub socket: BorrowedFd<'a>,
    /// Calls on it block.
    pub blocks: bool,
}

/// A client whose socket is passed.
#[derive(Debug)]
pub(super) struct LentConnection {
    /// Bytes written to the socket before it was passed.
    before: u64,
    /// Bytes written by the last check, and the bytes of these that the client has acknowledged.
    written: u64,
    taken: u64,
    /// The time by which the client must have taken enough, and how much it had taken when that time
    /// began. Set only while there is something to take.
    period: Option<(Tick, u64)>,
}

/// The result of checking a client whose socket is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// There is nothing for the client to take, and there are no new bytes.
    Silent,
    /// The client is taking bytes, or more bytes came.
    Busy,
    /// The client has taken less than it must.
    Slow,
}

/// How often to repeat a comparison of two figures that the kernel gives one after the other.
const LOOKS: usize = 16;

impl LentConnection {
    /// For a client whose socket is about to be passed.
    pub(super) fn new(client: Lendable<'_>) -> io::Result<Self> {
        let progress = tcp_info::progress(client.socket)?;
        // Bytes acknowledged between reading the two figures are counted twice. Reading again corrects
        // that.
        let written = if progress.queued == 0 { progress.acknowledged } else { settled(client)? };
        Ok(Self { before: written, written, taken: progress.acknowledged.min(written), period: None })
    }

    /// Checks the progress of the reply.
    pub(super) fn look(&mut self, client: Lendable<'_>, limits: &Limits, now: Tick) -> Look {
        let Ok(progress) = tcp_info::progress(client.socket) else { return Look::Silent };
        let Timeouts { write, write_rate, .. } = limits.timeouts;
        let is_news = progress.written() != self.written || progress.acknowledged != self.taken;
        (self.written, self.taken) = (progress.written(), progress.acknowledged);
        if progress.queued == 0 {
            self.period = None;
            return if is_news { Look::Busy } else { Look::Silent };
        }
        let (ends, mark) = *self.period.get_or_insert((now.after(write), self.taken));
        if ends.reached(now) {
            self.period = Some((now.after(write), self.taken));
            if self.taken - mark < Timeouts::progress(write, write_rate) {
                return Look::Slow;
            }
        }
        Look::Busy
    }

    /// Bytes written while the socket was passed.
    pub(super) fn sent(&self, client: Lendable<'_>) -> u64 {
        settled(client).map_or(u64::MAX, |written| written.saturating_sub(self.before))
    }

    /// Ends the pass, as reported by the application. Returns whether the connection can continue.
    ///
    /// # Errors
    ///
    /// The application's report is not true.
    pub(super) fn end(
        &self,
        client: Lendable<'_>,
        returned: Returned,
        nodelay: bool,
    ) -> Result<bool, Failure> {
        let is_status = if returned.sent == 0 { returned.status == 0 } else { is_final(returned.status) };
        if !is_status || returned.body > returned.sent {
            return Err(Failure::Senseless);
        }
        let expected = self.before.saturating_add(returned.sent);
        let mut found = expected;
        let is_true = (0..LOOKS).any(|_| {
            found = tcp_info::progress(client.socket).map_or(u64::MAX, tcp_info::Progress::written);
            found == expected
        });
        if !is_true {
            let found = found.saturating_sub(self.before);
            return Err(Failure::Miscounted { said: returned.sent, found });
        }
        Ok(put_back(client, nodelay))
    }
}

/// Restores the socket's options, and returns whether that worked.
pub(super) fn put_back(client: Lendable<'_>, nodelay: bool) -> bool {
    socket::put_back(client.socket, !client.blocks, nodelay).is_ok()
}

fn is_final(status: u16) -> bool {
    (200..600).contains(&status)
}

/// Bytes written so far to a socket that no process writes to just now.
fn settled(client: Lendable<'_>) -> io::Result<u64> {
    let mut least = u64::MAX;
    for _ in 0..LOOKS {
        let before = least;
        least = least.min(tcp_info::progress(client.socket)?.written());
        if least == before {
            break;
        }
    }
    Ok(least)
}
