//! A client whose socket is lent to an application, which sends the reply itself (*pass-fd*; Yeung 2010,
//! section 3.2).
//!
//! Nobody can take a descriptor back, and the server sees nothing of the reply. What it can see is how much
//! was written to the socket. So it counts that before, looks now and then whether the client takes it and
//! whether more comes, and compares it in the end with what the application says. While the client is away
//! nothing is read from it or sent to it here.

use std::io;
use std::os::fd::BorrowedFd;

use fastcgi::transport::Returned;
use http1::{Limits, Tick, Timeouts};
use sys::{socket, tcp_info};

use super::failure::Failure;

/// A client's socket, as whoever has it lets it be lent.
#[derive(Clone, Copy, Debug)]
pub struct Lendable<'a> {
    /// A socket of TCP.
    pub socket: BorrowedFd<'a>,
    /// Calls on it block.
    pub blocks: bool,
}

/// A client that is lent.
#[derive(Debug)]
pub(super) struct Loan {
    /// Bytes written to the socket before that.
    before: u64,
    /// Bytes written by the last look, and of these, what the client has acknowledged.
    written: u64,
    taken: u64,
    /// When the client has to have taken its share, and what it had taken when that time began. Only while
    /// there is something to take.
    period: Option<(Tick, u64)>,
}

/// What has come of a look at a client that is lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// There is nothing for the client to take, and nothing new.
    Silent,
    /// The client is taking something, or more has come.
    Busy,
    /// The client has taken less than it has to.
    Slow,
}

/// How often two figures are compared that the kernel gives one after the other.
const LOOKS: usize = 16;

impl Loan {
    /// Of a client that is about to be lent.
    pub(super) fn new(client: Lendable<'_>) -> io::Result<Self> {
        let progress = tcp_info::progress(client.socket)?;
        // What was acknowledged between the two figures counts twice, and once more it does not.
        let written = if progress.queued == 0 { progress.acknowledged } else { settled(client)? };
        Ok(Self { before: written, written, taken: progress.acknowledged.min(written), period: None })
    }

    /// Looks how far it is.
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

    /// Bytes that were written while it was lent.
    pub(super) fn sent(&self, client: Lendable<'_>) -> u64 {
        settled(client).map_or(u64::MAX, |written| written.saturating_sub(self.before))
    }

    /// The client comes back, as the application says. Says whether its connection can go on.
    ///
    /// # Errors
    ///
    /// What the application says is not true.
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

/// Makes the socket what it was, and says whether that could be done.
pub(super) fn put_back(client: Lendable<'_>, nodelay: bool) -> bool {
    socket::put_back(client.socket, !client.blocks, nodelay).is_ok()
}

fn is_final(status: u16) -> bool {
    (200..600).contains(&status)
}

/// Bytes written so far, of a socket that nobody writes to just now.
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
