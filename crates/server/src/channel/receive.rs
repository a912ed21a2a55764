//! Receiving: the calls that read input.

use std::io;
use std::os::fd::AsFd as _;

use sys::socket;

use super::Channel;
use crate::conversation::{Input, Next, Turn, Want};
use crate::line::Line;
use crate::service::Service;

/// What a read that ended at descriptors costs of the quantum (`share`).
const COST_OF_DESCRIPTORS: usize = 4 << 10;

impl Channel {
    /// Receives and takes input until there is a reply to send, the conversation must wait, or its
    /// quantum is used up.
    #[inline]
    pub(super) fn receive_on(
        &mut self,
        service: &mut Service,
        input: &mut Input<'_>,
        share: &mut u64,
    ) -> Next {
        loop {
            let wanted = match self.conversation.wants(input, || self.suspects_input()) {
                Want::Nothing => return self.blocked(),
                Want::Reset => return Next::Turn(Turn::Reset),
                Want::Input(wanted) if !self.readable && !wanted.is_behind() => return self.blocked(),
                _ if self.awaits_ring() => return Next::Turn(Turn::Blocked),
                Want::Close => return Next::Turn(Turn::Close),
                Want::ShutDown => {
                    if self.tls.is_some() && !self.says_end(service) {
                        self.conversation.machine().shut_down_waits(&service.limits, service.clock.tick);
                        return Next::Turn(Turn::Blocked);
                    }
                    if socket::shutdown_write(self.socket.as_fd()).is_err() {
                        return Next::Turn(Turn::Close);
                    }
                    self.conversation.output_is_shut(service);
                    continue;
                }
                Want::Take(wanted) => {
                    self.conversation.take_up(input);
                    wanted
                }
                Want::Input(wanted) if wanted.is_behind() => {
                    self.conversation.take_up(input);
                    self.read_behind(service, input, share);
                    wanted
                }
                Want::Input(wanted) => {
                    self.conversation.take_up(input);
                    if *share == 0 {
                        return Next::Turn(Turn::Unfinished);
                    }
                    if !self.read(service, input, share) && self.conversation.is_open() {
                        return self.blocked();
                    }
                    wanted
                }
            };
            let line = || Line::of(self.socket.as_fd(), self.tls.is_none(), self.blocks);
            let goes_on = self.conversation.take(service, line, input, wanted);
            if self.conversation.is_replying() {
                return Next::Send;
            }
            if !goes_on {
                return Next::Turn(Turn::Close);
            }
        }
    }

    /// Whether more may have come than was received.
    #[inline]
    pub(super) fn suspects_input(&self) -> bool {
        self.readable || self.blocks
    }

    /// What to do next when nothing can be received.
    #[inline]
    pub(super) fn blocked(&self) -> Next {
        if self.conversation.is_paused() {
            return Next::Turn(Turn::Blocked);
        }
        if self.conversation.is_replying() && self.writable { Next::Send } else { Next::Turn(Turn::Blocked) }
    }

    /// Receives what the client has sent after its last request, if anything.
    #[cold]
    fn read_behind(&mut self, service: &mut Service, input: &mut Input<'_>, share: &mut u64) {
        self.read(service, input, share);
    }

    /// Receives what is there. `false`: nothing was there, or the connection is broken.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "counted: a call here costs every request 2% more instructions")]
    pub(super) fn read(&mut self, service: &mut Service, input: &mut Input<'_>, share: &mut u64) -> bool {
        if self.reads_specially {
            return self.read_specially(service, input, share);
        }
        let received = service.receive(self.socket.as_fd(), input.room());
        self.take_received(service, input, share, received.map(|count| (count, false)))
    }

    /// Receives from a Unix socket, or from a client that speaks TLS.
    #[cold]
    fn read_specially(&mut self, service: &mut Service, input: &mut Input<'_>, share: &mut u64) -> bool {
        if self.tls.is_some() {
            return self.read_sealed(service, input, share);
        }
        let room = input.room();
        let received = if service.awaits_input {
            service.receive(self.socket.as_fd(), room).map(|count| (count, false))
        } else {
            socket::recv_without(self.socket.as_fd(), room)
        };
        self.take_received(service, input, share, received)
    }

    /// Takes what a call has received: so many bytes, and whether descriptors came with them.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "counted: a call here costs every request 2% more instructions")]
    fn take_received(
        &mut self,
        service: &mut Service,
        input: &mut Input<'_>,
        share: &mut u64,
        received: io::Result<(usize, bool)>,
    ) -> bool {
        match received {
            Ok((0, _)) => {
                self.conversation.input_ends();
                true
            }
            Ok((n, has_descriptors)) => {
                // Fewer bytes than there was room for: the socket is empty, unless the end follows. A
                // read also ends after descriptors. A client that sends some with each byte uses up its
                // turn.
                self.readable = n == input.room().len() || has_descriptors || self.hung_up;
                input.filled(n);
                let cost = if has_descriptors { n.max(COST_OF_DESCRIPTORS) } else { n };
                *share = share.saturating_sub(cost as u64);
                service.counters.bytes_received.add(n as u64);
                true
            }
            Err(error) => {
                match error.kind() {
                    io::ErrorKind::WouldBlock => self.readable = false,
                    io::ErrorKind::Interrupted => {}
                    _ => self.conversation.not_received(service, &error),
                }
                false
            }
        }
    }
}
