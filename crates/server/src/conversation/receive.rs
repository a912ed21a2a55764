//! Receiving: input to steps to the plan of a reply.

use std::io;
use std::os::fd::AsFd;

use http1::{Head, Step};

use super::Conversation;
use super::disk::Owed;
use crate::content::Looked;
use crate::counters::Failure;
use crate::service::Service;

impl Conversation {
    /// Receives what is there. `None`: nothing, or the connection is broken.
    #[inline]
    pub(super) fn read(&mut self, service: &mut Service, room: &mut [u8]) -> Option<usize> {
        match sys::socket::recv(self.socket.as_fd(), room) {
            Ok(0) => {
                self.eof = true;
                Some(0)
            }
            Ok(n) => {
                // Less than there was room for: the socket is empty, unless the end follows.
                self.readable = n == room.len() || self.hung_up;
                service.counters.bytes_received.add(n as u64);
                Some(n)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                None
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => None,
            Err(error) => {
                self.broken(service, &error, Failure::Receive);
                None
            }
        }
    }

    /// Lets the machine use up input, answers the requests in it, and keeps what is left.
    pub(super) fn take_input(&mut self, service: &mut Service, input: &[u8], share: &mut u64) {
        let mut at = 0;
        loop {
            let received = self.machine.receive(&service.limits, service.clock.tick, &input[at..], self.eof);
            match received {
                Ok((used, step)) => {
                    at += used;
                    match step {
                        Step::Request(head) => {
                            self.begin_request(service, &head);
                            self.answer(service, &head, &input[at - used..at], Looked::default(), share);
                            if self.waiting.is_some() {
                                self.rest_unseen = at < input.len();
                                break;
                            }
                        }
                        Step::Refused(head, error) => {
                            self.begin_request(service, &head);
                            self.refuse(service, error);
                            at = input.len();
                            break;
                        }
                        Step::Body(_) | Step::EndOfRequest => {}
                        Step::NeedInput => break,
                        Step::Paused => {
                            self.rest_unseen = at < input.len();
                            break;
                        }
                        Step::Closed => {
                            at = input.len();
                            break;
                        }
                    }
                }
                Err(error) => {
                    self.refuse(service, error);
                    at = input.len();
                    break;
                }
            }
        }
        self.keep(service, &input[at..]);
    }

    /// Answers a request, for which this has been looked at, or puts it by until more has been.
    pub(super) fn answer(
        &mut self,
        service: &mut Service,
        head: &Head<'_>,
        consumed: &[u8],
        looked: Looked,
        share: &mut u64,
    ) {
        match service.answer(head, &looked) {
            Ok(plan) => {
                service.content.unkeep(looked);
                self.machine.respond(&service.limits, service.clock.tick, plan);
                self.carried_over = false;
                self.write(service, share, None);
            }
            Err(look) => {
                let mut kept = service.buffers.take();
                kept.extend_from_slice(consumed);
                self.put_by(service, Owed::Reply { consumed: kept, terms: head.terms }, looked, look);
            }
        }
    }

    /// Answers a breach of the protocol, where an answer is owed.
    pub(super) fn refuse(&mut self, service: &mut Service, error: http1::ProtocolError) {
        service.counters.refusal(error.kind);
        if self.machine.owes_answer() {
            if let Some(log) = &mut service.log
                && self.log_line.is_empty()
            {
                let mut line = service.buffers.take();
                log.begin_unreadable(&mut line, &self.peer, service.clock.unix_secs);
                self.log_line = line;
                self.request_began_ms = service.clock.ms;
            }
            self.answer_breach(service, error, Looked::default());
        }
    }

    /// Answers it, for whose page this has been looked at, or puts it by until more has been.
    pub(super) fn answer_breach(
        &mut self,
        service: &mut Service,
        error: http1::ProtocolError,
        looked: Looked,
    ) {
        match service.refuse(error, self.machine.error_terms(), &looked) {
            Ok(plan) => {
                service.content.unkeep(looked);
                self.machine.respond(&service.limits, service.clock.tick, plan);
            }
            Err(look) => self.put_by(service, Owed::Refusal(error), looked, look),
        }
    }

    /// Keeps input for later.
    pub(super) fn keep(&mut self, service: &mut Service, rest: &[u8]) {
        if rest.is_empty() {
            if self.rest.capacity() > 0 {
                service.buffers.give(std::mem::take(&mut self.rest));
            }
            return;
        }
        if self.rest.capacity() == 0 {
            self.rest = service.buffers.take();
        }
        self.rest.clear();
        self.rest.extend_from_slice(rest);
    }

    /// Whether a client whose reply was the last may have sent something behind its request after all. A
    /// reply that went out at once left hardly any time for that, and such clients are not worth another call
    /// to ask.
    pub(super) fn may_have_more(&self) -> bool {
        let suspicious = !self.rest.is_empty() || self.readable || self.carried_over || self.blocks;
        suspicious && !self.eof && self.machine.closes_after_reply()
    }

    /// Shows the machine what there is behind the last request: closing with bytes unread would reset the
    /// connection.
    pub(super) fn take_what_is_behind(&mut self, service: &mut Service, scratch: &mut [u8], share: &mut u64) {
        let mut input = self.rest.len();
        scratch[..input].copy_from_slice(&self.rest);
        if input == 0 {
            input = self.read(service, scratch).unwrap_or(0);
        }
        self.rest_unseen = false;
        self.take_input(service, &scratch[..input], share);
    }
}
