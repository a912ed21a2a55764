//! A server's connection whose bytes a ring moves ([`sys::ring`]).
//!
//! - The ring receives while the connection waits for input. What comes is kept
//!   ([`has_received`](Link::has_received)) until the request takes it. If more has come than a buffer of
//!   the ring holds, the request receives the rest by calls.
//! - Records that are complete are *posted*. The event loop hands them to the ring
//!   ([`take_posted`](Link::take_posted)), and nothing else is sent until they have gone
//!   ([`has_sent`](Link::has_sent)). Calls send large bodies, without a copy, and pass descriptors.

use std::io;

use sys::ring::Received;
use sys::socket::is_exhaustion;

use super::{Link, Passes, Setup, charge};
use crate::outbox::Outbox;

/// What a ring does for a connection.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a connection, a byte each")]
pub(super) struct ByRing {
    /// It receives.
    is_receiving: bool,
    /// What has come, and was not taken yet.
    came: Vec<u8>,
    /// More may have come than that.
    has_more: bool,
    sending: Sending,
    /// What is sent is a part of the request.
    is_request: bool,
    /// The server has taken a part of the request since that was last asked.
    has_gone: bool,
    /// Why nothing can be sent any more.
    broken: Option<io::Error>,
}

/// How far what is sent has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sending {
    /// Nothing is sent.
    #[default]
    Nothing,
    /// Records are to be handed to the ring.
    Posted,
    /// The ring has them.
    Handed,
}

impl Link {
    /// Whether the ring receives.
    pub(super) fn is_receiving(&self) -> bool {
        self.ring.as_ref().is_some_and(|ring| ring.is_receiving)
    }

    /// Whether the ring sends, or is about to.
    pub(super) fn is_sending(&self) -> bool {
        self.ring.as_ref().is_some_and(|ring| ring.sending != Sending::Nothing)
    }

    /// Whether the ring has something to complete. What was only posted, it does not know.
    pub(super) fn has_operations(&self) -> bool {
        self.ring.as_ref().is_some_and(|ring| ring.is_receiving || ring.sending == Sending::Handed)
    }

    /// Whether the ring has sent a part of the request since the last call.
    ///
    /// # Errors
    ///
    /// It could not send.
    pub(super) fn has_gone_by_ring(&mut self) -> io::Result<bool> {
        let Some(ring) = &mut self.ring else { return Ok(false) };
        match ring.broken.take() {
            Some(error) => Err(error),
            None => Ok(std::mem::take(&mut ring.has_gone)),
        }
    }

    /// Posts the records in `out`, if the ring can send them as they are.
    pub(super) fn posts(&mut self, share: &mut u64) -> bool {
        let Some(ring) = &mut self.ring else { return false };
        let length = self.out.len() - self.gone;
        if self.passes != Passes::Nothing || self.lent > 0 || length > Outbox::MOST {
            return false;
        }
        (ring.sending, ring.is_request) = (Sending::Posted, !self.is_sent);
        self.writable = false;
        charge(share, length);
        true
    }

    /// Takes the records that were posted. The ring sends them from now on.
    pub fn take_posted(&mut self) -> Option<Vec<u8>> {
        let ring = self.ring.as_mut().filter(|ring| ring.sending == Sending::Posted)?;
        ring.sending = Sending::Handed;
        self.out.drain(..std::mem::take(&mut self.gone));
        Some(std::mem::take(&mut self.out))
    }

    /// The ring has sent all of these records, or failed to. Returns whether the request can go on with
    /// something.
    pub fn has_sent(&mut self, sent: io::Result<usize>, mut records: Vec<u8>) -> bool {
        let Some(ring) = &mut self.ring else { return false };
        ring.sending = Sending::Nothing;
        self.writable = true;
        if self.out.capacity() == 0 {
            records.clear();
            self.out = records;
        }
        match sent {
            Ok(_) => {
                ring.has_gone |= ring.is_request;
                self.is_joined
                    || !self.is_said
                    || !self.out.is_empty()
                    || self.area.as_ref().is_some_and(|area| area.has_free())
            }
            Err(error) => {
                match error.kind() {
                    io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => self.says_nothing_more(),
                    _ => ring.broken = Some(error),
                }
                true
            }
        }
    }

    /// Whether the ring is to receive, and doesn't yet. It does from now on.
    pub fn begins_to_receive(&mut self, wants_input: bool) -> bool {
        let begins = wants_input && !self.readable && self.setup != Setup::Connecting;
        match &mut self.ring {
            Some(ring) if begins && !ring.is_receiving => {
                ring.is_receiving = true;
                true
            }
            _ => false,
        }
    }

    /// The ring has received, or failed to.
    pub fn has_received(&mut self, received: io::Result<Received<'_>>) {
        let Some(ring) = &mut self.ring else { return };
        (ring.is_receiving, self.readable) = (false, true);
        match received {
            Ok(bytes) if !bytes.is_empty() => {
                ring.has_more = bytes.has_more();
                ring.came.extend_from_slice(&bytes);
            }
            // It had no buffer. A call needs none.
            Err(error) if is_exhaustion(&error) => {}
            // The end, or an error. The next call returns the end.
            _ => self.hung_up = true,
        }
    }

    /// Takes what the ring has received, as far as there is room. `None`: there is nothing.
    pub(super) fn take_received(&mut self, room: &mut [u8]) -> Option<usize> {
        let ring = self.ring.as_mut().filter(|ring| !ring.came.is_empty())?;
        let count = ring.came.len().min(room.len());
        room[..count].copy_from_slice(&ring.came[..count]);
        ring.came.drain(..count);
        self.readable = !ring.came.is_empty() || ring.has_more || self.hung_up;
        self.has_heard = true;
        Some(count)
    }

    /// Whether only the socket's state can tell how the connection goes on, and not what the ring receives
    /// and sends.
    pub fn awaits_events(&self, wants_room: bool) -> bool {
        wants_room && !self.is_sending()
    }
}
