//! A client whose request is answered by an application. Its body is received, and the reply is sent as
//! it comes.

use std::io;
use std::os::fd::AsFd as _;

use sys::ring::How;
use sys::socket::{self, Slice};

use super::Channel;
use super::by_ring::post;
use crate::conversation::{Attended, Body, Input, Passage, Passages, Turn};
use crate::line::Line;
use crate::service::Service;

impl Channel {
    /// Continues with the application, if the conversation waits for one. `None`: it is over, or the
    /// conversation waits for something else.
    #[cold]
    pub(super) fn attend_application(&mut self, service: &mut Service) -> Option<Turn> {
        if !self.conversation.has_application() {
            return None;
        }
        self.conversation.begins_turn(service);
        let mut scratch = std::mem::take(&mut service.scratch);
        let turn = self.attend(service, &mut scratch);
        service.scratch = scratch;
        turn
    }

    /// Works on both sides until something would block, the reply is sent (`None`), or the quantum is
    /// used up.
    fn attend(&mut self, service: &mut Service, scratch: &mut [u8]) -> Option<Turn> {
        let mut share = service.quantum;
        let may_be_gone = self.hung_up && !self.conversation.is_joined();
        if !self.conversation.owes_something() || may_be_gone && self.line().has_hung_up() {
            let line = Line::of(self.socket.as_fd(), self.tls.is_none(), self.blocks);
            self.conversation.client_has_left(service, line);
            return None;
        }
        if self.conversation.brings_body() {
            let is_complete = self.take_body(service, scratch, &mut share)?;
            if !is_complete {
                return Some(if self.readable { Turn::Unfinished } else { Turn::Application });
            }
        }
        let line = Line::of(self.socket.as_fd(), self.tls.is_none(), self.blocks);
        if self.conversation.begins_to_attend(service, line) == Attended::IsOver {
            return None;
        }
        loop {
            let was_writable = self.writable;
            if self.conversation.is_joined() && !self.receive_for_application(service, scratch, &mut share) {
                return None;
            }
            if self.conversation.passes_body(self.readable && share > 0) {
                self.take_body(service, scratch, &mut share)?;
            }
            let line = Line::of(self.socket.as_fd(), self.tls.is_none(), self.blocks);
            let is_full = !self.writable;
            if self.conversation.attend(service, line, scratch, &mut share, is_full) == Attended::IsOver {
                return None;
            }
            self.conversation.paces_body(service);
            let sent = self.send_passages(service);
            if self.conversation.is_attended(service) == Attended::IsOver {
                return None;
            }
            share = share.saturating_sub(sent);
            if share == 0 {
                let line = Line::of(self.socket.as_fd(), self.tls.is_none(), self.blocks);
                let attended = self.conversation.has_used_share(service, line);
                return (attended == Attended::GoesOn).then_some(Turn::Unfinished);
            }
            // Sending may have made room for more. So does noticing that the client is slow.
            let may_receive = self.readable && self.conversation.takes_input_for_application()
                || self.conversation.passes_body(self.readable);
            if sent == 0 && self.writable == was_writable && !may_receive {
                // Without events for changes only, this worker would be told of the end again and again.
                if self.hung_up && !service.hears_hang_ups && self.conversation.has_lost_client() {
                    let line = Line::of(self.socket.as_fd(), self.tls.is_none(), self.blocks);
                    self.conversation.client_has_left(service, line);
                    return None;
                }
                return Some(Turn::Application);
            }
        }
    }

    /// Receives what the client sends on a connection that is joined with the application's, as far as the
    /// application takes it. `false`: the connection is broken.
    fn receive_for_application(
        &mut self,
        service: &mut Service,
        scratch: &mut [u8],
        share: &mut u64,
    ) -> bool {
        let mut input = Input::new(scratch);
        self.conversation.take_up(&mut input);
        while self.conversation.takes_input_for_application() && self.readable && *share > 0 {
            self.read(service, &mut input, share);
            self.conversation.pass_on(service, &mut input);
        }
        self.conversation.pass_on(service, &mut input);
        if self.conversation.owes_something() {
            return true;
        }
        let line = Line::of(self.socket.as_fd(), self.tls.is_none(), self.blocks);
        self.conversation.client_has_left(service, line);
        false
    }

    /// Takes the request's body, and returns whether it is complete. `None`: the application was given
    /// up.
    fn take_body(&mut self, service: &mut Service, scratch: &mut [u8], share: &mut u64) -> Option<bool> {
        let mut input = Input::new(scratch);
        self.conversation.begins_body(&mut input);
        self.send_passages(service);
        let is_complete = loop {
            if !self.conversation.has_application() {
                break false;
            }
            if input.is_used_up() && self.receive_body(service, share) {
                continue;
            }
            let line = Line::of(self.socket.as_fd(), self.tls.is_none(), self.blocks);
            match self.conversation.take_body(service, line, &mut input) {
                Body::GoesOn => {}
                Body::IsOver => break true,
                Body::NeedsInput => {
                    if *share == 0 || !self.readable || !self.read(service, &mut input, share) {
                        break false;
                    }
                }
            }
        };
        let line = Line::of(self.socket.as_fd(), self.tls.is_none(), self.blocks);
        let attended = self.conversation.leaves_body(service, line, &input);
        (attended == Attended::GoesOn).then_some(is_complete)
    }

    /// Receives bytes that can only be body directly into the body's buffer. `false`: there is no room
    /// there, or nothing to receive.
    fn receive_body(&mut self, service: &mut Service, share: &mut u64) -> bool {
        if !self.readable || *share == 0 || self.tls.is_some() {
            return false;
        }
        let Some((body, room)) = self.conversation.room_for_body(*share) else { return false };
        // The next caller that reads meets an end or an error again.
        let Ok(count @ 1..) = socket::recv_behind(self.socket.as_fd(), body, room) else { return false };
        if !self.conversation.take_received_body(service, count) {
            return false;
        }
        // More bytes may follow after descriptors.
        self.readable = count == room || self.is_local || self.hung_up;
        *share -= count as u64;
        service.counters.bytes_received.add(count as u64);
        true
    }

    /// Sends as much of an application's reply as there is room for, even if sends block. Returns how
    /// many bytes were sent.
    fn send_passages(&mut self, service: &mut Service) -> u64 {
        if self.tls.is_some() {
            return self.send_sealed_passages(service);
        }
        let mut gone = 0;
        while self.writable {
            let mut runs = Passages::new();
            let Some(passage) = self.conversation.next_passage(&mut runs) else { break };
            if let Some(outbox) = &mut service.outbox {
                let how = How { more_follows: false, zero_copy: !self.is_local };
                let posted = match passage {
                    Passage::Bytes(bytes) => {
                        post(outbox, &mut service.buffers, &[Slice::new(bytes)], || None, how)
                    }
                    Passage::Runs => post(outbox, &mut service.buffers, &runs, || None, how),
                    Passage::BytesBeforePages(_) | Passage::Pages(..) => None,
                };
                if let Some(posted) = posted {
                    drop(runs);
                    self.is_posted(service);
                    self.conversation.passed(service, posted as usize);
                    gone += posted;
                    continue;
                }
            }
            let sends_pages = matches!(passage, Passage::BytesBeforePages(_) | Passage::Pages(..));
            let client = self.socket.as_fd();
            let sent = if sends_pages && std::mem::take(&mut self.blocks) {
                // Pages are sent with a call that would block if the socket does.
                socket::set_nonblocking(client, true)
            } else {
                Ok(())
            };
            let sent = sent.and_then(|()| match passage {
                Passage::Bytes(bytes) => socket::send_at_once(client, bytes),
                Passage::BytesBeforePages(bytes) => socket::send_more(client, &[Slice::new(bytes)]),
                Passage::Runs => socket::send_slices_at_once(client, &runs),
                Passage::Pages(pages, range) => {
                    let (mut offset, count) = (range.start, (range.end - range.start) as usize);
                    socket::send_file(client, pages, &mut offset, count)
                }
            });
            drop(runs);
            match sent {
                Ok(sent) => {
                    self.conversation.passed(service, sent);
                    gone += sent as u64;
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => self.writable = false,
                    io::ErrorKind::Interrupted => {}
                    _ => {
                        let line = Line::of(self.socket.as_fd(), self.tls.is_none(), self.blocks);
                        self.conversation.not_passed(service, line, &error);
                        break;
                    }
                },
            }
        }
        gone
    }
}
