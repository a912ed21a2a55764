//! Sending: the calls that perform an operation of a conversation.

use std::io;
use std::os::fd::AsFd as _;

use sys::event::Interest;
use sys::ring::How;
use sys::{poll, socket};

use super::Channel;
use super::by_ring::post;
use crate::config::Coalesce;
use crate::content::{Fetch, MayBlock, Pin};
use crate::conversation::{Follows, Next, Operation, Runs, Turn, Unsent};
use crate::handed_send::{HandedSend, Until};
use crate::sends::MOST_AT_ONCE;
use crate::service::Service;

/// A blocking call for more of a file than this may take so long that the file changes meanwhile. The
/// client must not have all of the file before that can be noticed.
const LARGE: u64 = 1 << 20;
/// Bytes at the end of such a file that are sent only when it has not changed.
const HELD_BACK: u64 = 16 << 10;

/// Why nothing was sent.
pub(super) enum Failed {
    Full,
    Interrupted,
    Unsent(Unsent),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock => Self::Full,
            io::ErrorKind::Interrupted => Self::Interrupted,
            _ => Self::Unsent(Unsent::Broken(error)),
        }
    }
}

impl From<Unsent> for Failed {
    fn from(unsent: Unsent) -> Self {
        Self::Unsent(unsent)
    }
}

impl Channel {
    /// Sends the reply until it is over, the socket is full, it must wait for the disk, or the quantum
    /// (`share`) is used up. `resident` is the window of the file that is known to be in memory.
    #[inline]
    pub(super) fn send_on(
        &mut self,
        service: &mut Service,
        share: &mut u64,
        mut resident: Option<u64>,
    ) -> Next {
        while self.conversation.is_replying() {
            if *share == 0 {
                self.conversation.carry_over();
                return Next::Turn(Turn::Unfinished);
            }
            if !self.writable || self.conversation.is_paused() {
                self.conversation.carry_over();
                // A body may still be read while the reply would block.
                let reads_on = self.conversation.machine().is_reading_body();
                return if reads_on { Next::Receive } else { Next::Turn(Turn::Blocked) };
            }
            let sent = self.send_once(service, *share, &mut resident);
            let is_broken_off = self.blocks && service.alarm_has_rung();
            *share = share.saturating_sub(self.sent(service, sent));
            if is_broken_off && self.conversation.is_replying() {
                service.held();
                *share = 0;
            }
        }
        Next::Receive
    }

    /// Makes one call, and returns how many bytes it sent.
    #[inline]
    fn send_once(
        &mut self,
        service: &mut Service,
        share: u64,
        resident: &mut Option<u64>,
    ) -> Result<u64, Failed> {
        let most = if self.blocks { self.most_at_once(service, share)? } else { share };
        if self.tls.is_some() {
            return self.send_sealed(service, most, resident);
        }
        let mut runs = Runs::new();
        let Some(operation) = self.conversation.next_send(&service.content, &mut runs) else {
            return Err(Unsent::Changed.into());
        };
        if let Some(outbox) = &mut service.outbox
            && let Operation::Gather { follows } = operation
            && matches!(follows, Follows::Nothing | Follows::End)
            && let Some(posted) = post(
                outbox,
                &mut service.buffers,
                &runs,
                || self.conversation.shared_end(&service.content),
                How { more_follows: follows == Follows::End, zero_copy: !self.is_local },
            )
        {
            drop(runs);
            self.is_posted(service);
            return Ok(posted);
        }
        let is_file = matches!(operation, Operation::File { .. });
        let sent = self.perform(service, operation, &runs, most, resident);
        drop(runs);
        if is_file {
            self.has_a_file();
        }
        sent
    }

    /// How much may go into one call on a socket that blocks: the whole reply, unless such sends have
    /// taken too much time. In that case this client's sends no longer block.
    fn most_at_once(&mut self, service: &mut Service, share: u64) -> Result<u64, Failed> {
        if service.may_block() {
            return Ok(MOST_AT_ONCE);
        }
        socket::set_nonblocking(self.socket.as_fd(), true)?;
        self.blocks = false;
        Ok(share)
    }

    /// Makes the system call, and returns how many bytes it sent.
    #[inline]
    fn perform(
        &self,
        service: &Service,
        operation: Operation<'_>,
        runs: &Runs<'_>,
        most: u64,
        resident: &mut Option<u64>,
    ) -> Result<u64, Failed> {
        match operation {
            Operation::Gather { follows } => {
                let client = self.socket.as_fd();
                let more_follows = follows != Follows::Nothing && self.joins(service, follows)?;
                let sent = if more_follows {
                    socket::send_more(client, runs)?
                } else {
                    socket::write_vectored(client, runs)?
                };
                Ok(sent as u64)
            }
            Operation::File { pin, offset, len } => {
                if let Some(until) = service.helpers_send
                    && let Some(send) = self.hand_on(service, pin, (offset, len), until)
                {
                    return Err(Unsent::Handed(send).into());
                }
                let wanted = sendable(service, pin, offset, len.min(most), resident)?;
                let sent = self.send_file(service, pin, (offset, wanted), wanted == len)?;
                if sent == len {
                    // What follows may be from another file.
                    *resident = None;
                }
                Ok(sent)
            }
        }
    }

    /// Makes runs of memory leave in one packet with what follows them, if anything does. Returns whether
    /// the call that sends them must say so.
    #[inline]
    fn joins(&self, service: &Service, follows: Follows) -> Result<bool, Failed> {
        Ok(match follows {
            Follows::End => true,
            Follows::Nothing | Follows::Memory => false,
            Follows::File => {
                // A helper can't take out the cork.
                let corks = service.coalesce == Coalesce::Cork && service.helpers_send.is_none();
                if corks {
                    socket::set_cork(self.socket.as_fd(), true)?;
                }
                !corks && service.coalesce != Coalesce::None
            }
        })
    }

    /// A range of a file for a helper to send. `None`: it can't, and this thread has to.
    fn hand_on(
        &self,
        service: &Service,
        pin: &Pin,
        (offset, len): (u64, u64),
        until: Until,
    ) -> Option<HandedSend> {
        let file = service.content.share_file(pin)?;
        // There may be no descriptor left for the copy.
        let client = self.socket.as_fd().try_clone_to_owned().ok()?;
        file.is_unchanged().then_some(HandedSend { client, file, offset, len, until })
    }

    /// Whether the socket has room at this moment. No event may tell: the room may have come and gone while
    /// a helper was sending.
    #[cold]
    pub(super) fn has_room_now(&self) -> bool {
        let asked = [(self.socket.as_fd(), Interest::WRITABLE)];
        poll::wait_for(asked, Some(0)).is_ok_and(|[event]| event.writable || event.hang_up || event.error)
    }

    /// Sends a range of a file. If it `ends`, the range is the last one in the reply from that part of
    /// the file.
    fn send_file(
        &self,
        service: &Service,
        pin: &Pin,
        (mut offset, wanted): (u64, u64),
        ends: bool,
    ) -> Result<u64, Failed> {
        // While a reply took long, its file may have changed. It is better to break off than to complete
        // something that the file never was.
        if ends && self.conversation.is_carried_over() && !service.content.intact(pin) {
            return Err(Unsent::Changed.into());
        }
        let client = self.socket.as_fd();
        let began_ms = if self.blocks { sys::clock::monotonic_ms() } else { 0 };
        let file = service.content.file(pin).ok_or(Unsent::Changed)?;
        // The file may also have changed after a call that blocked for a while. The client must not have
        // all of it by then.
        let held_back = if ends && self.blocks && wanted > LARGE { HELD_BACK } else { 0 };
        let due = wanted - held_back;
        let sent = socket::send_file(client, file, &mut offset, due as usize)? as u64;
        if sent == 0 {
            return Err(Unsent::Changed.into());
        }
        if self.blocks
            && sent == due
            && sys::clock::monotonic_ms() != began_ms
            && !service.content.intact(pin)
        {
            return Err(Unsent::Changed.into());
        }
        if service.coalesce == Coalesce::Cork && ends && sent == wanted {
            socket::set_cork(client, false)?;
        }
        Ok(sent)
    }

    /// Handles the result of a call, and returns how many bytes it sent.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "counted: a call here costs every request 10 instructions")]
    fn sent(&mut self, service: &mut Service, sent: Result<u64, Failed>) -> u64 {
        match sent {
            Ok(n) => {
                self.conversation.sent(service, n);
                n
            }
            Err(failed) => {
                match failed {
                    Failed::Full => self.writable = false,
                    Failed::Interrupted => {}
                    Failed::Unsent(unsent) => self.conversation.not_sent(service, unsent),
                }
                0
            }
        }
    }
}

/// How many of the `wanted` bytes from `offset` can be sent now. In a worker that must not wait for the
/// disk: at most to the end of their first window, if that window is in memory. `resident` is the window
/// that is known to be in memory.
pub(super) fn sendable(
    service: &Service,
    pin: &Pin,
    offset: u64,
    wanted: u64,
    resident: &mut Option<u64>,
) -> Result<u64, Failed> {
    if service.may_block != MayBlock::Never {
        return Ok(wanted);
    }
    let window = Fetch::window_of(offset);
    let wanted = wanted.min(Fetch::end_of(window) - offset);
    let now_ms = service.clock.ms;
    if *resident != Some(window) && !service.content.was_resident(pin, window, now_ms) {
        service.counters.residency_probes.add(1);
        if !service.content.is_resident(pin, window, now_ms) {
            service.counters.residency_misses.add(1);
            return Err(Unsent::Absent(service.content.fetch(pin, window)).into());
        }
        *resident = Some(window);
    }
    Ok(wanted)
}
