//! A client whose bytes a ring moves ([`sys::ring`]). What it sends comes by itself
//! ([`has_received`](Channel::has_received)). What is sent to it lies in the [outbox](crate::outbox) first,
//! and counts as sent then, as it would in the socket's buffer. Until it has gone, nothing else is sent,
//! and no other request is taken.

use std::io;

use http1::{Tick, TimerKind};
use sys::ring::{How, Received, Shared};
use sys::socket::Slice;

use super::Channel;
use crate::buffers::Buffers;
use crate::conversation::Unsent;
use crate::outbox::Outbox;
use crate::service::Service;

/// What a ring does for a client.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a client, a byte each")]
pub(super) struct ByRing {
    /// It receives.
    pub(super) is_receiving: bool,
    /// It sends.
    pub(super) is_sending: bool,
    /// Something waits until all is sent.
    is_awaited: bool,
    /// The client has asked for a file, which calls send.
    has_files: bool,
}

/// Puts runs of memory into the outbox, and returns how many bytes they have. `shared` returns the last run
/// as memory that can be shared, and `how` what is possible. `None`: they are sent by a call.
#[inline]
pub(super) fn post(
    outbox: &mut Outbox,
    buffers: &mut Buffers,
    runs: &[Slice<'_>],
    shared: impl FnOnce() -> Option<Shared>,
    how: How,
) -> Option<u64> {
    let bytes: usize = runs.iter().map(Slice::len).sum();
    if !(1..=Outbox::MOST).contains(&bytes) {
        return None;
    }
    let (last, others) = runs.split_last()?;
    let shared = if last.len() >= Outbox::WORTH_SHARING { shared() } else { None };
    let shared = shared.filter(|(_, range)| range.len() == last.len());
    let copied = if shared.is_some() { others } else { runs };
    outbox.put(buffers.take(), (copied, shared), how);
    Some(bytes as u64)
}

impl Channel {
    /// Something was put into the outbox for this client.
    #[inline]
    pub(super) fn is_posted(&mut self, service: &Service) {
        self.writable = false;
        self.ring.is_sending = true;
        self.sent_by = service.clock.tick.after(service.limits.timeouts.write);
    }

    /// Whether the ring has something of the client's to send. If so, [`has_sent`](Self::has_sent) tells
    /// when it is sent.
    #[inline]
    pub(super) fn awaits_ring(&mut self) -> bool {
        if self.ring.is_sending {
            self.ring.is_awaited = true;
        }
        self.ring.is_sending
    }

    /// Whether the ring sends.
    pub fn is_sending(&self) -> bool {
        self.ring.is_sending
    }

    /// A part of a file is sent, by a call.
    #[inline]
    pub(super) fn has_a_file(&mut self) {
        self.ring.has_files = true;
    }

    /// Whether the client's input is better watched, and received by calls. A receive costs the ring more
    /// than a call where sending takes calls in any case: 1% of the CPU time for 100 KB.
    #[inline]
    pub fn is_better_watched(&self) -> bool {
        self.ring.has_files && !self.ring.is_receiving
    }

    /// Whether the ring receives.
    pub fn is_receiving(&self) -> bool {
        self.ring.is_receiving
    }

    /// How many bytes the ring is to receive, if it is to receive and doesn't yet. It does from now on.
    #[inline]
    pub fn begins_to_receive(&mut self, service: &Service) -> Option<usize> {
        let ByRing { is_receiving, is_awaited, .. } = self.ring;
        if is_receiving || is_awaited || self.readable || !self.conversation.needs().0 {
            return None;
        }
        let room = self.conversation.room_for_more(service).saturating_sub(self.kept_sealed());
        // With no room, the conversation has more than it can use, and says so in its next turn.
        self.ring.is_receiving = room > 0;
        (room > 0).then_some(room)
    }

    /// Whether it depends on the socket's state how the conversation goes on, and not only on what the
    /// ring receives and sends.
    #[inline]
    pub fn awaits_events(&self) -> bool {
        self.conversation.is_paused()
            || !self.writable
                && !self.ring.is_sending
                && (self.conversation.needs().1 || self.has_own_to_send())
    }

    /// The ring has received, or failed to.
    #[inline]
    pub fn has_received(&mut self, service: &mut Service, received: io::Result<Received<'_>>) {
        self.ring.is_receiving = false;
        match received {
            Ok(bytes) if bytes.is_empty() => self.conversation.input_ends(),
            Ok(bytes) => {
                self.readable |= bytes.has_more() || self.hung_up;
                service.counters.bytes_received.add(bytes.len() as u64);
                if self.tls.is_some() {
                    self.has_received_sealed(service, &bytes);
                } else {
                    self.conversation.keep_more(service, &bytes);
                }
            }
            // It had no buffer. A call needs none.
            Err(error) if sys::socket::is_exhaustion(&error) => self.readable = true,
            Err(error) => self.conversation.not_received(service, &error),
        }
    }

    /// The ring has sent all, or failed to. Returns whether the connection can go on with something that
    /// has waited for it.
    #[inline]
    pub fn has_sent(&mut self, service: &mut Service, sent: io::Result<usize>) -> bool {
        self.ring.is_sending = false;
        self.writable = true;
        let is_awaited = std::mem::take(&mut self.ring.is_awaited);
        if let Err(error) = sent {
            self.conversation.not_sent(service, Unsent::Broken(error));
            return true;
        }
        is_awaited || self.conversation.needs().1 || self.has_own_to_send()
    }

    /// When to call [`timeout`](Self::timeout), if nothing happens before.
    #[inline]
    pub fn deadline(&self) -> Option<Tick> {
        let deadline = self.conversation.deadline();
        if !self.ring.is_sending {
            return deadline;
        }
        Some(deadline.map_or(self.sent_by, |deadline| deadline.earlier(self.sent_by)))
    }

    /// Whether the client has not taken what the ring sends, for as long as it may take.
    pub(super) fn is_sent_too_slowly(&self, service: &Service) -> bool {
        let is_over = self.ring.is_sending && self.sent_by.reached(service.clock.tick);
        if is_over {
            service.counters.timeout(TimerKind::Write);
        }
        is_over
    }

    /// Whether the connection has been between requests for long enough to be closed in favour of another
    /// client.
    pub fn has_idled(&self, now: Tick) -> bool {
        !self.is_sending() && self.conversation.has_idled(now)
    }
}
