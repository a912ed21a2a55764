//! Sends a reply to the client on a passed descriptor (*pass-fd*). The library sends all of the reply,
//! including head and framing, and the web server only learns the result.
//!
//! The web server also has the client's socket and continues to use it. The library therefore does not change
//! the socket's status flags and options: each send sets for itself that it must not block, and whether more
//! follows. The one exception is the option that allows sends without a copy, which the library resets. While
//! it waits for the client it also watches the web server, which may give up the request, or be gone.

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
    /// Whether the kernel was told that more follows. It may then hold back the last segment.
    is_held: bool,
    /// Bytes sent to the client.
    sent: u64,
    /// Why no more of it can be sent.
    broken: Option<io::ErrorKind>,
}

/// Whether large pieces are sent without a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ZeroCopy {
    No,
    /// The socket option was already set.
    Allowed,
    /// Enabled for this reply, and disabled after it.
    AllowedForNow,
}

impl ZeroCopy {
    /// Enables sends without a copy on a client's socket, if the settings ask for it and the socket supports
    /// it.
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

    /// Copies from now on, and restores the socket option.
    fn forbid(&mut self, client: BorrowedFd<'_>) {
        if *self == Self::AllowedForNow {
            let _ = socket::set_zero_copy(client, false);
        }
        *self = Self::No;
    }
}

/// What follows the bytes that are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Follows {
    /// Nothing for now: they must be sent at once.
    Nothing,
    /// The rest of the reply, usually soon.
    More,
}

/// Bytes that wait for more of the reply, so that head and body go in one piece.
const ROOM: usize = 8 << 10;
/// Most bytes of a piece whose last packet waits for more data. In a larger piece one packet saved matters
/// less than the pacing that BBR applies to held-back data.
const FEW_PACKETS: usize = 128 << 10;
/// Pieces from this size on are sent without a copy: they are worth the wait for the notification, and a
/// separate packet for the copied bytes after them. At 256 KiB the cost is the same either way, at half of
/// that a quarter more (docs/applications.md).
const WORTH_NOTICES: usize = 256 << 10;
/// The library has no clock: the web server enforces the client's timeouts.
const NOW: Tick = Tick(0);

/// The terms of a reply, from the terms of the passed descriptor.
pub(crate) fn terms(lent: Lent<'_>) -> Terms {
    let version = if lent.is_http11 { Version::Http11 } else { Version::Http10 };
    Terms { version, persistent: lent.is_persistent, body: lent.has_body }
}

/// Whether the web server must handle a reply itself, because it names a file.
pub(crate) fn is_for_the_web_server(head: &response::Head<'_>) -> bool {
    ["X-Sendfile", "X-Accel-Redirect", "X-ZeroCopy"].iter().any(|name| head.field(name).is_some())
}

impl Delivery {
    /// Begins the reply with the head of a CGI response, as the web server would do.
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

    /// Takes more of the body, and sends what need not wait for more.
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
        // Data that need not wait is sent from where it is. If that is only a few packets, the last of them
        // waits: the rest of the reply, even only the end of the chunks, would be another packet.
        self.reply.supply_elsewhere(&self.limits, NOW, 0..bytes.len() as u64);
        let is_last = self.reply.owed() == Some(0);
        let follows = if is_last || bytes.len() > FEW_PACKETS { Follows::Nothing } else { Follows::More };
        self.send(connection, bytes, follows)
    }

    /// Sends all buffered bytes.
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

    /// Completes the body: sends the rest, gives up the client and returns the result for the web server.
    pub(crate) fn finish(mut self, connection: &mut Connection) -> Returned {
        // A body that is too short is sent anyway, as the web server would do. The connection is then
        // aborted.
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

    /// Sends all of the reply. `piece` is the part that is not in its buffer.
    fn send(&mut self, connection: &mut Connection, piece: &[u8], follows: Follows) -> io::Result<()> {
        let sent = self.send_all(connection, piece, follows);
        if follows == Follows::Nothing && std::mem::take(&mut self.is_held) {
            // The cork option was off and stays off, but the call sends held-back data. The next send reports
            // an error of the connection.
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
                        // Other sends have too much in progress, so this piece is copied.
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

    /// Ends the connection of a client whose web server is gone, because other processes may have copies of
    /// its descriptor. The client must notice if the reply is not complete.
    fn end_client(&self, is_whole: bool) {
        // The client may be gone as well.
        let _ =
            if is_whole { socket::shutdown_write(&self.client) } else { socket::disconnect(&self.client) };
    }
}
