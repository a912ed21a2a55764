//! Sending a reply: choosing what goes into the next system call, and making it.

use std::io;
use std::os::fd::AsFd;

use http1::Segment;
use sys::socket::Slice;

use super::{Conversation, disk};
use crate::config::Coalesce;
use crate::content::Fetch;
use crate::counters::{Failure, Reset};
use crate::sends::MOST_AT_ONCE;
use crate::service::Service;

/// What became of writing.
pub(super) enum Written {
    All,
    Blocked,
    ShareUsed,
}

/// Most runs of memory in one `writev`. Replies but those of many ranges have two or three.
const GATHER: usize = 8;

impl Conversation {
    /// Sends the reply until it is over, the socket is full, the disk has to be waited for, or the share is
    /// used. `resident` is the window of the file that is known to be in memory.
    pub(super) fn write(
        &mut self,
        service: &mut Service,
        share: &mut u64,
        mut resident: Option<u64>,
    ) -> Written {
        while self.machine.is_replying() {
            if *share == 0 {
                return Written::ShareUsed;
            }
            if !self.writable {
                return Written::Blocked;
            }
            let sent = if self.blocks {
                self.send_blocking(service, *share, &mut resident)
            } else {
                self.send(service, *share, &mut resident)
            };
            let broken_off = self.blocks && service.alarm_has_rung();
            match sent {
                Ok(n) => {
                    *share = share.saturating_sub(n);
                    service.counters.bytes_sent.add(n);
                    self.machine.sent(&service.limits, service.clock.tick, n);
                }
                Err(Unsent::Full) => self.writable = false,
                Err(Unsent::Interrupted) => {}
                Err(Unsent::Absent(fetch)) => {
                    self.await_window(service, fetch);
                    return Written::Blocked;
                }
                Err(Unsent::Changed) => {
                    service.counters.reset(Reset::FileChanged);
                    self.machine.abort();
                }
                Err(Unsent::Broken(error)) => self.broken(service, &error, Failure::Send),
            }
            if broken_off && self.machine.is_replying() {
                service.held();
                self.carried_over = true;
                *share = 0;
            }
        }
        self.release(service);
        Written::All
    }

    /// The same as [`send`](Self::send) on a socket that blocks, unless too much time has gone by with such
    /// sends: then this client's block no more.
    pub(super) fn send_blocking(
        &mut self,
        service: &mut Service,
        share: u64,
        resident: &mut Option<u64>,
    ) -> Result<u64, Unsent> {
        if service.may_block() {
            return self.send(service, MOST_AT_ONCE, resident);
        }
        sys::socket::set_nonblocking(self.socket.as_fd(), true)?;
        self.blocks = false;
        self.send(service, share, resident)
    }

    /// Makes one system call's worth of progress and says how many bytes it sent.
    pub(super) fn send(
        &self,
        service: &Service,
        share: u64,
        resident: &mut Option<u64>,
    ) -> Result<u64, Unsent> {
        let mut slices = [Slice::EMPTY; GATHER];
        let mut count = 0;
        let mut file = None;
        let mut more = false;
        for segment in self.machine.output() {
            if file.is_some() || count == GATHER {
                more = true;
                break;
            }
            match segment {
                Segment::Own(bytes) => {
                    slices[count] = Slice::new(bytes);
                    count += 1;
                }
                Segment::Memory(pin, range) => {
                    slices[count] = service.content.memory(pin, range).ok_or(Unsent::Changed)?;
                    count += 1;
                }
                Segment::File(pin, offset, len) => file = Some((pin, offset, len)),
            }
        }
        let socket = self.socket.as_fd();
        let slices = &slices[..count];
        match file {
            // Nothing follows but the end, which takes these bytes along in one packet.
            None if !more && self.machine.closes_after_reply() => {
                Ok(sys::socket::send_more(socket, slices)? as u64)
            }
            None => Ok(sys::socket::write_vectored(socket, slices)? as u64),
            Some(_) if count > 0 => match service.coalesce {
                Coalesce::More | Coalesce::Auto => Ok(sys::socket::send_more(socket, slices)? as u64),
                Coalesce::None => Ok(sys::socket::write_vectored(socket, slices)? as u64),
                Coalesce::Cork => {
                    sys::socket::set_cork(socket, true)?;
                    Ok(sys::socket::write_vectored(socket, slices)? as u64)
                }
            },
            Some((pin, offset, len)) => {
                let mut from = offset;
                let wanted = disk::sendable(service, pin, offset, len.min(share), resident)? as usize;
                let last = !more && wanted as u64 == len;
                // A reply that took a while may have been overtaken by a change of the file: better to break
                // off than to complete something that the file never was.
                if last && self.carried_over && !service.content.intact(pin) {
                    return Err(Unsent::Changed);
                }
                let began_ms = if self.blocks { sys::clock::monotonic_ms() } else { 0 };
                let file = service.content.file(pin).ok_or(Unsent::Changed)?;
                let sent = sys::socket::send_file(socket, file, &mut from, wanted)?;
                if sent == 0 {
                    return Err(Unsent::Changed);
                }
                // The same after a call that blocked for a while: it may have been overtaken as well.
                if self.blocks
                    && sent as u64 == len
                    && sys::clock::monotonic_ms() != began_ms
                    && !service.content.intact(pin)
                {
                    return Err(Unsent::Changed);
                }
                if service.coalesce == Coalesce::Cork && last && sent as u64 == len {
                    sys::socket::set_cork(socket, false)?;
                }
                Ok(sent as u64)
            }
        }
    }

    /// Gives back what a finished reply held.
    pub(super) fn release(&mut self, service: &mut Service) {
        if let Some(ended) = self.machine.release() {
            service.release(ended, self);
        }
    }
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
