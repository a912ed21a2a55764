//! Sending a reply: chooses what goes into the next operation, and handles its result. A channel performs
//! the operation, possibly at another time.

use std::io;

use arrayvec::ArrayVec;
use http1::Segment;
use sys::ring::Shared;
use sys::socket::Slice;

use super::Conversation;
use crate::content::{Content, Fetch, Pin};
use crate::counters::{Failure, Reset};
use crate::handed_send::HandedSend;
use crate::service::Service;

/// Most runs of memory in one call. All replies except those with many ranges have two or three.
const GATHER: usize = 8;

/// Room for the runs of memory of one operation. The channel provides it.
pub type Runs<'a> = ArrayVec<Slice<'a>, GATHER>;

/// The next part of a reply to send.
#[derive(Clone, Copy)]
pub enum Operation<'a> {
    /// Runs of memory, to be gathered.
    Gather {
        /// What follows them in the reply.
        follows: Follows,
    },
    /// A range of the pinned file.
    File {
        /// The file's entry.
        pin: &'a Pin,
        /// Where the range begins, in bytes.
        offset: u64,
        /// The length of the range, at least one byte.
        len: u64,
    },
}

/// What follows runs of memory in a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    /// The reply ends with them.
    Nothing,
    /// The reply ends with them, and so does the connection. Both ends may go in one packet.
    End,
    /// More runs than go into one call.
    Memory,
    /// A range of a file.
    File,
}

/// Why nothing was sent, if trying again at once is useless.
#[derive(Debug)]
pub enum Unsent {
    /// These bytes of the file are not in memory, and this worker must not wait for the disk.
    Absent(Fetch),
    /// A helper is to send them.
    Handed(HandedSend),
    /// The file has changed.
    Changed,
    /// The connection is broken.
    Broken(io::Error),
}

impl Conversation {
    /// The next part to send of the reply under way. This changes only `runs`, which receives runs of
    /// memory. `None`: that part can no longer be read.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "counted: a call here costs every request 4% more instructions")]
    pub fn next_send<'a>(&'a self, content: &'a Content, runs: &mut Runs<'a>) -> Option<Operation<'a>> {
        if self.machine.is_of_several() {
            return self.next_send_of_several(content, runs);
        }
        first_of(self.machine.output(), || self.last(), content, runs)
    }

    /// The memory with which the reply under way ends, and the part that is still to be sent, for a ring.
    /// `None`: it ends with something else.
    pub fn shared_end(&self, content: &Content) -> Option<Shared> {
        if self.machine.is_of_several() {
            return None;
        }
        match self.machine.output().last()? {
            Segment::Memory(pin, range) => {
                Some((content.share_memory(pin)?, range.start as usize..range.end as usize))
            }
            Segment::Own(_) | Segment::File(..) => None,
        }
    }

    #[cold]
    fn next_send_of_several<'a>(
        &'a self,
        content: &'a Content,
        runs: &mut Runs<'a>,
    ) -> Option<Operation<'a>> {
        first_of(self.machine.output_of_several(), || self.last(), content, runs)
    }

    /// What follows the last bytes of the reply.
    #[inline]
    fn last(&self) -> Follows {
        if self.machine.closes_after_reply() { Follows::End } else { Follows::Nothing }
    }

    /// Whether the reply under way, or the last one, took a while. Then its sources may have changed.
    #[inline]
    pub fn is_carried_over(&self) -> bool {
        self.carried_over
    }

    /// Records that the reply under way has to wait, for its client or for its next turn.
    #[inline]
    pub fn carry_over(&mut self) {
        self.carried_over = true;
    }

    /// `count` bytes of the reply were sent.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "counted: a call here costs every request 10 instructions")]
    pub fn sent(&mut self, service: &mut Service, count: u64) {
        service.counters.bytes_sent.add(count);
        self.machine.sent(&service.limits, service.clock.tick, count);
    }

    /// Nothing could be sent.
    pub fn not_sent(&mut self, service: &mut Service, unsent: Unsent) {
        match unsent {
            Unsent::Absent(fetch) => self.await_window(service, fetch),
            Unsent::Handed(send) => self.await_send(service, send),
            Unsent::Changed => {
                service.counters.reset(Reset::FileChanged);
                self.machine.abort();
            }
            Unsent::Broken(error) => self.broken(service, &error, Failure::Send),
        }
    }

    /// Gives back what a finished reply held.
    #[inline]
    pub fn release(&mut self, service: &mut Service) {
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

/// The part of a reply's output for one call.
#[inline(always)]
#[expect(clippy::inline_always, reason = "counted: a call here costs every request 2% more instructions")]
fn first_of<'a>(
    output: impl Iterator<Item = Segment<'a, Pin>>,
    last: impl FnOnce() -> Follows,
    content: &'a Content,
    runs: &mut Runs<'a>,
) -> Option<Operation<'a>> {
    for segment in output {
        let run = match segment {
            Segment::File(pin, offset, len) if runs.is_empty() => {
                return Some(Operation::File { pin, offset, len });
            }
            Segment::File(..) => return Some(Operation::Gather { follows: Follows::File }),
            _ if runs.is_full() => return Some(Operation::Gather { follows: Follows::Memory }),
            Segment::Own(bytes) => Slice::new(bytes),
            Segment::Memory(pin, range) => content.memory(pin, range)?,
        };
        runs.push(run);
    }
    Some(Operation::Gather { follows: last() })
}
