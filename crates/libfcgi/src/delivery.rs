//! A reply on its way to a client that is lent (*pass-fd*): all of it, head and framing included, is sent
//! from here, and the web server only hears how it went.
//!
//! The client's socket is the web server's as well, which goes on with it: its status flags and options are
//! not touched, so each send says for itself that it must not wait, and whether more follows. (That sends
//! need not copy has to be allowed by an option. It is taken back.) Who waits for the client watches the web
//! server, too: it may give the request up, or be gone.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fastcgi::response;
use fastcgi::transport::{Lent, Returned};
use http1::{Limits, OpenReply, Plan, Run, Sheet, Stamp, Status, Terms, Tick, Version};
use sys::event::Interest;
use sys::socket::{self, Slice};

use crate::connection::Connection;
use crate::settings::{Send, Settings};

/// A reply that is being sent.
#[derive(Debug)]
pub(crate) struct Delivery {
    client: OwnedFd,
    reply: OpenReply<()>,
    limits: Limits,
    zero_copy: ZeroCopy,
    /// Whether the kernel was told that more follows, and may hold the last segment back for that.
    is_held: bool,
    /// Bytes that went to the client.
    sent: u64,
    /// Why no more of it can be sent.
    broken: Option<io::ErrorKind>,
}

/// Whether large pieces are sent without a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ZeroCopy {
    No,
    /// The socket allows it anyway.
    Allowed,
    /// It does not once the reply is sent.
    AllowedForNow,
}

impl ZeroCopy {
    /// Has a client's socket send without copies, if the settings say so and it can.
    fn allow(client: BorrowedFd<'_>) -> Self {
        if Settings::of_process().map_or(Send::Copy, |settings| settings.send) == Send::Copy {
            return Self::No;
        }
        match socket::has_zero_copy(client) {
            Ok(true) => Self::Allowed,
            Ok(false) if socket::set_zero_copy(client, true).is_ok() => Self::AllowedForNow,
            _ => Self::No,
        }
    }

    /// Copies from now on, and has the socket as it was.
    fn forbid(&mut self, client: BorrowedFd<'_>) {
        if *self == Self::AllowedForNow {
            let _ = socket::set_zero_copy(client, false);
        }
        *self = Self::No;
    }
}

/// What comes behind bytes that are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Follows {
    /// Nothing for now: they have to go.
    Nothing,
    /// The rest of the reply, soon as a rule.
    More,
}

/// Bytes that wait for more of the reply, so that head and body go in one piece.
const ROOM: usize = 8 << 10;
/// Most bytes of a piece whose last packet waits for what comes next. For more than that one packet matters
/// less than that BBR paces what is held back.
const FEW_PACKETS: usize = 128 << 10;
/// Bytes of a piece that is worth waiting for its notice, and a packet of its own for what is copied behind
/// it (docs/applications.md: 256 KiB cost as much either way, half of that a quarter more).
const WORTH_NOTICES: usize = 256 << 10;
/// The library has no clock: the web server watches how long a client takes.
const NOW: Tick = Tick(0);

/// The terms of a reply, as a client is lent on them.
pub(crate) fn terms(lent: Lent<'_>) -> Terms {
    let version = if lent.is_http11 { Version::Http11 } else { Version::Http10 };
    Terms { version, persistent: lent.is_persistent, body: lent.has_body }
}

/// Whether the web server has to see a reply itself: it names a file.
pub(crate) fn is_for_the_web_server(head: &response::Head<'_>) -> bool {
    ["X-Sendfile", "X-Accel-Redirect", "X-ZeroCopy"].iter().any(|name| head.field(name).is_some())
}

impl Delivery {
    /// Begins the reply with the head of a CGI response, as the web server would.
    pub(crate) fn new(client: OwnedFd, terms: Terms, stamp: &Stamp, head: &response::Head<'_>) -> Self {
        let terms = if head.length.is_some() { terms } else { terms.of_unknown_length() };
        let mut plan = Plan::with_reason(Sheet::default(), (Status(head.status), head.reason), terms, stamp);
        for (name, value) in head.for_client() {
            plan.field(name, value);
        }
        let limits = Limits::default();
        let reply = plan.open(head.length, &limits, NOW);
        let zero_copy = ZeroCopy::allow(client.as_fd());
        Self { client, reply, limits, zero_copy, is_held: false, sent: 0, broken: None }
    }

    /// Takes more of the body, and sends what does not wait.
    ///
    /// # Errors
    ///
    /// No more of the reply can be sent.
    pub(crate) fn write(&mut self, connection: &mut Connection, bytes: &[u8]) -> io::Result<()> {
        if let Some(kind) = self.broken {
            return Err(kind.into());
        }
        if self.reply.own_left() + bytes.len() <= ROOM {
            self.reply.supply(&self.limits, NOW, bytes);
            return Ok(());
        }
        // What would not wait is sent from where it is. If that is few packets, the last of them waits: the
        // rest of the reply would be another, be it only the end of the chunks.
        self.reply.supply_elsewhere(&self.limits, NOW, 0..bytes.len() as u64);
        let is_last = self.reply.owed() == Some(0);
        let follows = if is_last || bytes.len() > FEW_PACKETS { Follows::Nothing } else { Follows::More };
        self.send(connection, bytes, follows)
    }

    /// Sends all that there is.
    ///
    /// # Errors
    ///
    /// No more of the reply can be sent.
    pub(crate) fn flush(&mut self, connection: &mut Connection) -> io::Result<()> {
        match self.broken {
            Some(kind) => Err(kind.into()),
            None => self.send(connection, &[], Follows::Nothing),
        }
    }

    /// The body is complete: sends what is left, gives up the client and says how it goes back.
    pub(crate) fn finish(mut self, connection: &mut Connection) -> Returned {
        // What is too short is sent all the same, as the web server would: it is broken off then.
        let keeps_its_word = self.reply.finish(&self.limits, NOW);
        let is_sent = self.flush(connection).is_ok();
        let is_whole = keeps_its_word && is_sent;
        self.zero_copy.forbid(self.client.as_fd());
        if !connection.is_up() {
            self.end_client(is_whole);
        }
        Returned {
            status: self.reply.status().0,
            is_whole,
            is_persistent: is_whole && self.reply.is_persistent(),
            body: self.reply.body_sent(),
            sent: self.sent,
        }
    }

    /// Sends all of the reply, of which the piece is what does not lie in it.
    fn send(&mut self, connection: &mut Connection, piece: &[u8], follows: Follows) -> io::Result<()> {
        let sent = self.send_all(connection, piece, follows);
        if follows == Follows::Nothing && std::mem::take(&mut self.is_held) {
            // Nothing is held back by this option, now as before, but the call sends what is. An error is one
            // of the connection, which whoever sends next hears of.
            let _ = socket::set_cork(&self.client, false);
        }
        if let Err(error) = &sent {
            self.broken = Some(error.kind());
            if error.kind() == io::ErrorKind::UnexpectedEof {
                self.end_client(false);
            }
        }
        sent
    }

    fn send_all(&mut self, connection: &mut Connection, piece: &[u8], follows: Follows) -> io::Result<()> {
        let Self { client, reply, zero_copy, is_held, sent: all_sent, .. } = self;
        let client = client.as_fd();
        let last = if *zero_copy == ZeroCopy::No { 0 } else { 1 + socket::segment(client)? };
        socket::send_uncopied(
            client,
            |what| connection.await_client(client, what),
            |uncopied| {
                while reply.left() > 0 {
                    // Head or framing, the piece, and the end of its chunk.
                    let mut slices = [Slice::EMPTY; 3];
                    let mut large = None;
                    for ((at, slice), run) in slices.iter_mut().enumerate().zip(reply.runs()) {
                        *slice = match run {
                            Run::Own(bytes) => Slice::new(bytes),
                            Run::Elsewhere(Range { start, end }) => {
                                let bytes = &piece[start as usize..end as usize];
                                if *zero_copy != ZeroCopy::No && bytes.len() >= WORTH_NOTICES + last {
                                    large = Some((at, &bytes[..bytes.len() - last]));
                                }
                                Slice::new(bytes)
                            }
                        };
                    }
                    let sent = match large {
                        Some((0, bytes)) => uncopied.send(bytes),
                        Some((before, _)) => socket::send_more_at_once(client, &slices[..before]),
                        None if follows == Follows::More => socket::send_more_at_once(client, &slices),
                        None => socket::send_slices_at_once(client, &slices),
                    };
                    match sent {
                        Ok(count) => {
                            *is_held = follows == Follows::More;
                            reply.sent(count as u64);
                            *all_sent += count as u64;
                        }
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                            uncopied.wait_for(Interest::WRITABLE)?;
                        }
                        // Others have too much under way: then it is copied.
                        Err(error) if large.is_some() && error.raw_os_error() == Some(libc::ENOBUFS) => {
                            zero_copy.forbid(client);
                        }
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(())
            },
        )
    }

    /// Ends a client whose web server is gone: others may have copies of its descriptor. It has to notice
    /// when the reply is not whole.
    fn end_client(&self, is_whole: bool) {
        // It may be gone as well.
        let _ =
            if is_whole { socket::shutdown_write(&self.client) } else { socket::disconnect(&self.client) };
    }
}
