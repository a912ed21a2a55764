//! Sending a reply: choosing what goes into the next system call, making that call, and taking in what came
//! of it. The three are apart, so that a driver can have the kernel make the call at another time.

use std::io;
use std::os::fd::AsFd;

use http1::Segment;
use sys::socket::Slice;

use super::Conversation;
use super::turn::{Next, Turn};
use crate::config::Coalesce;
use crate::content::{Content, Fetch, Patience, Pin};
use crate::counters::{Failure, Reset};
use crate::sends::MOST_AT_ONCE;
use crate::service::Service;

/// Most runs of memory in one call. Replies but those of many ranges have two or three.
const GATHER: usize = 8;

/// A call that blocks may take so long for more of a file than this that the file changes meanwhile. Its
/// client is not to have it all before that can be noticed.
const LARGE: u64 = 1 << 20;
/// Bytes at the end of such a file that are sent when it has not changed.
const HELD_BACK: u64 = 16 << 10;

/// Room for the runs of memory of one call, of whoever has the call made.
pub type Runs<'a> = [Slice<'a>; GATHER];

/// What goes into the next system call for a reply.
#[derive(Clone, Copy)]
pub enum Operation<'a> {
    /// Runs of memory, to be gathered.
    Gather {
        /// How many.
        count: usize,
        /// What of the reply follows them.
        follows: Follows,
    },
    /// A range of the pinned file.
    File {
        /// The file's entry.
        pin: &'a Pin,
        /// Where the range begins, in bytes.
        offset: u64,
        /// Bytes of it, one at least.
        len: u64,
    },
}

/// What of a reply comes behind runs of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    /// The reply ends with them.
    Nothing,
    /// More runs than go into one call.
    Memory,
    /// A range of a file.
    File,
}

/// Why nothing was sent.
pub(super) enum Unsent {
    Full,
    Interrupted,
    /// These bytes of the file are not in memory, and here nobody waits for the disk.
    Absent(Fetch),
    Changed,
    Broken(io::Error),
}

impl From<io::Error> for Unsent {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock => Self::Full,
            io::ErrorKind::Interrupted => Self::Interrupted,
            _ => Self::Broken(error),
        }
    }
}

impl Conversation {
    /// What is to be sent next of the reply under way; this changes nothing but `runs`, where runs of memory
    /// go. `None`: it can't be had any more.
    #[inline]
    pub fn next_send<'a>(&'a self, content: &'a Content, runs: &mut Runs<'a>) -> Option<Operation<'a>> {
        if self.machine.is_of_several() {
            return self.next_send_of_several(content, runs);
        }
        first_of(self.machine.output(), content, runs)
    }

    #[cold]
    fn next_send_of_several<'a>(
        &'a self,
        content: &'a Content,
        runs: &mut Runs<'a>,
    ) -> Option<Operation<'a>> {
        first_of(self.machine.output_of_several(), content, runs)
    }

    /// Sends the reply until it is over, the socket is full, the disk has to be waited for, or the share is
    /// used. `resident` is the window of the file that is known to be in memory.
    #[inline]
    pub(super) fn send_on(
        &mut self,
        service: &mut Service,
        share: &mut u64,
        mut resident: Option<u64>,
    ) -> Next {
        while self.machine.is_replying() {
            if *share == 0 {
                self.carried_over = true;
                return Next::Turn(Turn::Unfinished);
            }
            if !self.writable || self.exchange.waiting.is_some() {
                self.carried_over = true;
                // A body may still be read behind a reply that would block.
                let reads_on = self.machine.is_reading_body();
                return if reads_on { Next::Receive } else { Next::Turn(Turn::Blocked) };
            }
            let sent = self.send_once(service, *share, &mut resident);
            let is_broken_off = self.blocks && service.alarm_has_rung();
            *share = share.saturating_sub(self.sent(service, sent));
            if is_broken_off && self.machine.is_replying() {
                service.held();
                *share = 0;
            }
        }
        Next::Receive
    }

    /// Makes one call, and says how many bytes it sent.
    #[inline]
    fn send_once(
        &mut self,
        service: &mut Service,
        share: u64,
        resident: &mut Option<u64>,
    ) -> Result<u64, Unsent> {
        let most = if self.blocks { self.most_at_once(service, share)? } else { share };
        let mut runs = [Slice::EMPTY; GATHER];
        let Some(operation) = self.next_send(&service.content, &mut runs) else {
            return Err(Unsent::Changed);
        };
        self.perform(service, operation, &runs, most, resident)
    }

    /// How much may go into one call on a socket that blocks: the whole reply, unless too much time has gone
    /// by with such sends. Then this client's block no more.
    fn most_at_once(&mut self, service: &mut Service, share: u64) -> Result<u64, Unsent> {
        if service.may_block() {
            return Ok(MOST_AT_ONCE);
        }
        sys::socket::set_nonblocking(self.socket.as_fd(), true)?;
        self.blocks = false;
        Ok(share)
    }

    /// Has the kernel do it, and says how many bytes it sent.
    #[inline]
    fn perform(
        &self,
        service: &Service,
        operation: Operation<'_>,
        runs: &Runs<'_>,
        most: u64,
        resident: &mut Option<u64>,
    ) -> Result<u64, Unsent> {
        match operation {
            Operation::Gather { count, follows } => {
                let socket = self.socket.as_fd();
                let more_follows = match follows {
                    // Nothing but the end, which takes these bytes along in one packet.
                    Follows::Nothing => self.machine.closes_after_reply(),
                    Follows::Memory => false,
                    Follows::File => {
                        if service.coalesce == Coalesce::Cork {
                            sys::socket::set_cork(socket, true)?;
                        }
                        matches!(service.coalesce, Coalesce::More | Coalesce::Auto)
                    }
                };
                let runs = &runs[..count];
                let sent = if more_follows {
                    sys::socket::send_more(socket, runs)?
                } else {
                    sys::socket::write_vectored(socket, runs)?
                };
                Ok(sent as u64)
            }
            Operation::File { pin, offset, len } => {
                let wanted = sendable(service, pin, offset, len.min(most), resident)?;
                let sent = self.send_file(service, pin, (offset, wanted), wanted == len)?;
                if sent == len {
                    // What follows may be of another file.
                    *resident = None;
                }
                Ok(sent)
            }
        }
    }

    /// Sends a range of a file, which is the last that the reply has of it there if it `ends`.
    fn send_file(
        &self,
        service: &Service,
        pin: &Pin,
        (mut offset, wanted): (u64, u64),
        ends: bool,
    ) -> Result<u64, Unsent> {
        // A reply that took a while may have been overtaken by a change of the file: better to break off than
        // to complete something that the file never was.
        if ends && self.carried_over && !service.content.intact(pin) {
            return Err(Unsent::Changed);
        }
        let socket = self.socket.as_fd();
        let began_ms = if self.blocks { sys::clock::monotonic_ms() } else { 0 };
        let file = service.content.file(pin).ok_or(Unsent::Changed)?;
        // So may one be after a call that blocked for a while, whose client is not to have all of it by then.
        let held_back = if ends && self.blocks && wanted > LARGE { HELD_BACK } else { 0 };
        let due = wanted - held_back;
        let sent = sys::socket::send_file(socket, file, &mut offset, due as usize)? as u64;
        if sent == 0 {
            return Err(Unsent::Changed);
        }
        if self.blocks
            && sent == due
            && sys::clock::monotonic_ms() != began_ms
            && !service.content.intact(pin)
        {
            return Err(Unsent::Changed);
        }
        if service.coalesce == Coalesce::Cork && ends && sent == wanted {
            sys::socket::set_cork(socket, false)?;
        }
        Ok(sent)
    }

    /// Takes in what came of a call, and says how many bytes it sent.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "counted: a call here costs every request 10 instructions")]
    fn sent(&mut self, service: &mut Service, sent: Result<u64, Unsent>) -> u64 {
        match sent {
            Ok(n) => {
                service.counters.bytes_sent.add(n);
                self.machine.sent(&service.limits, service.clock.tick, n);
                n
            }
            Err(unsent) => {
                self.not_sent(service, unsent);
                0
            }
        }
    }

    fn not_sent(&mut self, service: &mut Service, unsent: Unsent) {
        match unsent {
            Unsent::Full => self.writable = false,
            Unsent::Interrupted => {}
            Unsent::Absent(fetch) => self.await_window(service, fetch),
            Unsent::Changed => {
                service.counters.reset(Reset::FileChanged);
                self.machine.abort();
            }
            Unsent::Broken(error) => self.broken(service, &error, Failure::Send),
        }
    }

    /// Gives back what a finished reply held.
    #[inline]
    pub(super) fn release(&mut self, service: &mut Service) {
        if self.machine.has_finished_reply() {
            self.give_back(service);
        }
    }

    fn give_back(&mut self, service: &mut Service) {
        if let Some(ended) = self.machine.release() {
            self.exchange.end(service, ended.status, ended.body_sent);
            service.release(ended);
        }
    }
}

/// How many of the `wanted` bytes from `offset` can be sent now: in a worker that must not wait, at most to
/// the end of the window that they begin in, if that is in memory. `resident` is the window known to be.
fn sendable(
    service: &Service,
    pin: &Pin,
    offset: u64,
    wanted: u64,
    resident: &mut Option<u64>,
) -> Result<u64, Unsent> {
    if service.patience != Patience::None {
        return Ok(wanted);
    }
    let window = Fetch::window_of(offset);
    let wanted = wanted.min(Fetch::end_of(window) - offset);
    let now_ms = service.clock.ms;
    if *resident != Some(window) && !service.content.was_resident(pin, window, now_ms) {
        service.counters.residency_probes.add(1);
        if !service.content.is_resident(pin, window, now_ms) {
            service.counters.residency_misses.add(1);
            return Err(Unsent::Absent(service.content.fetch(pin, window)));
        }
        *resident = Some(window);
    }
    Ok(wanted)
}

/// What goes in one call of the output of a reply.
#[inline]
fn first_of<'a>(
    output: impl Iterator<Item = Segment<'a, Pin>>,
    content: &'a Content,
    runs: &mut Runs<'a>,
) -> Option<Operation<'a>> {
    let mut count = 0;
    for segment in output {
        let run = match segment {
            Segment::File(pin, offset, len) if count == 0 => {
                return Some(Operation::File { pin, offset, len });
            }
            Segment::File(..) => return Some(Operation::Gather { count, follows: Follows::File }),
            _ if count == GATHER => return Some(Operation::Gather { count, follows: Follows::Memory }),
            Segment::Own(bytes) => Slice::new(bytes),
            Segment::Memory(pin, range) => content.memory(pin, range)?,
        };
        runs[count] = run;
        count += 1;
    }
    Some(Operation::Gather { count, follows: Follows::Nothing })
}
