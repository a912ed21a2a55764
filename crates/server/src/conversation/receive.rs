//! Receiving: from input to steps, and from a request to the plan of its reply. Nothing is sent here.
//!
//! Input lies in the worker's scratch memory while it is worked on. What is left unused in the end (half a
//! head, a pipelined request behind a reply that is to be sent first) is kept in a pooled buffer, so that an
//! idle connection holds none.

use std::io;
use std::os::fd::AsFd;

use http1::{End, Head, Plan, ProtocolError, Status, Step, Terms};
use sys::socket::{self, PeerAddress};

use super::Conversation;
use super::disk::Owed;
use super::turn::{Next, Turn};
use crate::content::{Detour, Pin, Prefetched, SiteNumber};
use crate::counters::Failure;
use crate::proxies::header;
use crate::service::Service;

/// What a read that ended at descriptors costs of a share.
const COST_OF_DESCRIPTORS: usize = 4 << 10;

/// Input at hand, in scratch memory: from here to there it is unused.
pub(super) struct Input<'a> {
    scratch: &'a mut [u8],
    from: usize,
    to: usize,
}

impl<'a> Input<'a> {
    /// None yet.
    pub(super) fn new(scratch: &'a mut [u8]) -> Self {
        Self { scratch, from: 0, to: 0 }
    }

    pub(super) fn unused(&self) -> &[u8] {
        &self.scratch[self.from..self.to]
    }

    pub(super) fn is_used_up(&self) -> bool {
        self.from == self.to
    }

    /// That many more bytes are used.
    pub(super) fn use_up(&mut self, count: usize) {
        self.from += count;
    }

    /// What is unused means nothing any more.
    fn drop_unused(&mut self) {
        self.from = self.to;
    }

    /// Takes up what was kept, if that has not been done. There is nothing unused then.
    #[inline]
    pub(super) fn take_up(&mut self, kept: &mut Vec<u8>) {
        if !kept.is_empty() {
            (self.from, self.to) = (0, kept.len());
            self.scratch[..self.to].copy_from_slice(kept);
            kept.clear();
        }
    }

    /// Where more goes: behind what is unused, which moves to the front.
    #[inline]
    fn room(&mut self) -> &mut [u8] {
        if self.from > 0 {
            if self.from < self.to {
                self.scratch.copy_within(self.from..self.to, 0);
            }
            (self.from, self.to) = (0, self.to - self.from);
        }
        &mut self.scratch[self.to..]
    }
}

impl Conversation {
    /// Receives and uses up input until there is a reply to be sent, it must wait, or its share is used.
    #[inline]
    pub(super) fn receive_on(
        &mut self,
        service: &mut Service,
        input: &mut Input<'_>,
        share: &mut u64,
    ) -> Next {
        loop {
            if self.awaits_event() {
                return self.blocked();
            }
            let wants = self.machine.wants();
            match wants.end {
                End::Open => {}
                End::Close if self.may_have_more(self.has_rest(input)) => {}
                End::Close => return Next::Turn(Turn::Close),
                End::Reset => return Next::Turn(Turn::Reset),
                End::ShutDown => {
                    if sys::socket::shutdown_write(self.socket.as_fd()).is_err() {
                        return Next::Turn(Turn::Close);
                    }
                    self.machine.write_side_shut(&service.limits, service.clock.tick);
                    continue;
                }
            }
            // What is behind the last request is shown to the machine as well: closing with bytes unread
            // would reset the connection.
            let is_behind = wants.end == End::Close;
            let is_at_hand = self.rest_unseen || self.eof || is_behind && self.has_rest(input);
            input.take_up(&mut self.rest);
            if !is_at_hand {
                if *share == 0 && !is_behind {
                    return Next::Turn(Turn::Unfinished);
                }
                if !self.read(service, input, share) && !is_behind && self.machine.wants_end() == End::Open {
                    return self.blocked();
                }
            }
            self.use_up(service, input);
            if self.machine.is_replying() {
                return Next::Send;
            }
            // With the client's end known, there is no event to wait for: go on as long as that changes
            // anything.
            if (is_behind || self.eof) && self.exchange.waiting.is_none() && self.machine.wants() == wants {
                return Next::Turn(Turn::Close);
            }
        }
    }

    /// Whether nothing can be received without an event.
    #[inline]
    pub(super) fn awaits_event(&self) -> bool {
        if self.exchange.waiting.is_some() {
            return true;
        }
        let has_input = self.rest_unseen || self.eof || self.readable && self.machine.wants_input();
        !has_input && self.machine.wants_end() == End::Open
    }

    /// What is next where nothing can be received.
    #[inline]
    pub(super) fn blocked(&self) -> Next {
        if self.exchange.waiting.is_some() {
            return Next::Turn(Turn::Blocked);
        }
        if self.machine.is_replying() && self.writable { Next::Send } else { Next::Turn(Turn::Blocked) }
    }

    /// Whether a client whose reply was the last may have sent something behind its request after all. A
    /// reply that went out at once left hardly any time for that, and such clients are not worth another call
    /// to ask.
    pub(super) fn may_have_more(&self, has_rest: bool) -> bool {
        let suspicious = has_rest || self.readable || self.carried_over || self.blocks;
        suspicious && !self.eof && self.machine.closes_after_reply()
    }

    fn has_rest(&self, input: &Input<'_>) -> bool {
        !input.is_used_up() || !self.rest.is_empty()
    }

    /// Receives what is there. `false`: nothing, or the connection is broken.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "counted: a call here costs every request 2% more instructions")]
    pub(super) fn read(&mut self, service: &mut Service, input: &mut Input<'_>, share: &mut u64) -> bool {
        let room = input.room();
        let received = if self.is_local && !service.awaits_input {
            socket::recv_without(self.socket.as_fd(), room)
        } else {
            service.receive(self.socket.as_fd(), room).map(|n| (n, false))
        };
        match received {
            Ok((0, _)) => {
                self.eof = true;
                true
            }
            Ok((n, has_descriptors)) => {
                // Less than there was room for: the socket is empty, unless the end follows. A read ends
                // behind descriptors as well, and a client that sends them with each byte has its turn.
                self.readable = n == room.len() || has_descriptors || self.hung_up;
                input.to += n;
                let cost = if has_descriptors { n.max(COST_OF_DESCRIPTORS) } else { n };
                *share = share.saturating_sub(cost as u64);
                service.counters.bytes_received.add(n as u64);
                true
            }
            Err(error) => {
                match error.kind() {
                    io::ErrorKind::WouldBlock => self.readable = false,
                    io::ErrorKind::Interrupted => {}
                    _ => self.broken(service, &error, Failure::Receive),
                }
                false
            }
        }
    }

    /// Lets the machine use up input, as far as the next request. That is answered: its reply is to be sent
    /// before more is made of the input.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "counted: a call here costs every request 2% more instructions")]
    fn use_up(&mut self, service: &mut Service, input: &mut Input<'_>) {
        self.rest_unseen = false;
        loop {
            let unused = &input.scratch[input.from..input.to];
            match self.machine.receive(&service.limits, service.clock.tick, unused, self.eof) {
                Ok((used, step)) => {
                    input.from += used;
                    match step {
                        Step::Request(head) => {
                            self.exchange.begin(service, (&self.peer, self.announced.as_deref()), &head);
                            if self.lent_to.is_none() || self.is_directed(service, &head) {
                                self.answer(service, &head, &unused[..used], None);
                            }
                            self.rest_unseen = input.from < input.to;
                            return;
                        }
                        Step::Refused(head, error) => {
                            self.exchange.begin(service, (&self.peer, self.announced.as_deref()), &head);
                            let site = service.content.site_of(&head);
                            self.refuse(service, (site, error));
                            return input.drop_unused();
                        }
                        Step::Body(_) | Step::EndOfRequest => {}
                        Step::NeedInput => return,
                        Step::Paused => {
                            self.rest_unseen = input.from < input.to;
                            return;
                        }
                        Step::Closed => return input.drop_unused(),
                    }
                }
                Err(error) => {
                    self.refuse(service, (0, error));
                    return input.drop_unused();
                }
            }
        }
    }

    /// Hears for whom a proxy connects, before anything else is made of the input. `Some`: not yet, or never.
    #[cold]
    pub(super) fn hear_announcement(&mut self, service: &mut Service) -> Option<Turn> {
        let mut scratch = std::mem::take(&mut service.scratch);
        let mut input = Input::new(&mut scratch);
        input.take_up(&mut self.rest);
        let mut share = service.quantum;
        let turn = loop {
            let found = match header::parse(input.unused()) {
                _ if !service.proxies.speaks_for_others(&self.peer) => None,
                // More may be there.
                Ok(None) if !self.eof && self.readable && self.read(service, &mut input, &mut share) => {
                    continue;
                }
                Ok(None) if !self.eof && self.machine.wants_end() == End::Open => break Some(Turn::Blocked),
                Ok(found) => found,
                Err(header::Malformed) => None,
            };
            let Some((length, announced)) = found else {
                service.counters.proxy_headers_refused.add(1);
                break Some(Turn::Close);
            };
            input.from += length;
            self.is_announced = false;
            if let Some(announced) = announced {
                self.peer = PeerAddress::Inet(announced.client);
                self.announced = Some(Box::new(announced));
            }
            break None;
        };
        self.rest_unseen = !input.is_used_up();
        self.keep(service, &input);
        service.scratch = scratch;
        turn
    }

    /// Answers a request, for which this has been looked at, or puts it by until more has been.
    #[inline]
    pub(super) fn answer(
        &mut self,
        service: &mut Service,
        head: &Head<'_>,
        consumed: &[u8],
        looked: Option<Prefetched>,
    ) {
        match service.answer(head, looked.as_ref()) {
            Ok(plan) => self.respond(service, plan, looked),
            Err(detour) => self.take_detour(service, detour, head, consumed, looked),
        }
    }

    /// Has done what must be before a request is answered, or instead.
    #[cold]
    fn take_detour(
        &mut self,
        service: &mut Service,
        detour: Detour,
        head: &Head<'_>,
        consumed: &[u8],
        looked: Option<Prefetched>,
    ) {
        match detour {
            Detour::Lookup(look) => {
                let mut kept = service.buffers.take();
                kept.extend_from_slice(consumed);
                let owed = Owed::Reply { consumed: kept, terms: head.terms };
                self.defer(service, owed, looked.unwrap_or_default(), look);
            }
            Detour::Call(call, sheet) => {
                service.take_sheet(sheet);
                if let Some(looked) = looked {
                    service.content.unkeep(looked);
                }
                self.call(service, call, head, consumed);
            }
        }
    }

    /// Answers a request for that path with an error of a site that is neither content's nor a breach of the
    /// protocol, for whose page this has been looked at, or puts it by until more has been.
    pub(super) fn answer_error(
        &mut self,
        service: &mut Service,
        (site, status, path): (SiteNumber, Status, &[u8]),
        terms: Terms,
        looked: Option<Prefetched>,
    ) {
        match service.error((site, status, Some(path)), terms, looked.as_ref()) {
            Ok(plan) => self.respond(service, plan, looked),
            Err(look) => {
                let owed = Owed::Error((site, status, path.into()), terms);
                self.defer(service, owed, looked.unwrap_or_default(), look);
            }
        }
    }

    /// Answers a breach of the protocol by a request for a site, where an answer is owed. That is the default
    /// one, 0, if the head could not be read.
    pub(super) fn refuse(&mut self, service: &mut Service, breach: (SiteNumber, ProtocolError)) {
        service.counters.refusal(breach.1.kind);
        if self.machine.owes_answer() {
            self.exchange.begin_unreadable(service, &self.peer, breach.0);
            self.answer_breach(service, breach, None);
        }
    }

    /// Answers it, for whose page this has been looked at, or puts it by until more has been.
    pub(super) fn answer_breach(
        &mut self,
        service: &mut Service,
        breach: (SiteNumber, ProtocolError),
        looked: Option<Prefetched>,
    ) {
        match service.refuse(breach, self.machine.error_terms(), looked.as_ref()) {
            Ok(plan) => self.respond(service, plan, looked),
            Err(look) => self.defer(service, Owed::Refusal(breach), looked.unwrap_or_default(), look),
        }
    }

    /// Replies, and gives back what has been looked up for it.
    #[inline]
    pub(super) fn respond(&mut self, service: &mut Service, plan: Plan<Pin>, looked: Option<Prefetched>) {
        if let Some(looked) = looked {
            service.content.unkeep(looked);
        }
        self.carried_over = false;
        self.machine.respond(&service.limits, service.clock.tick, plan);
    }

    /// Keeps for later what is unused.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "counted: a call here costs every request 2% more instructions")]
    pub(super) fn keep(&mut self, service: &mut Service, input: &Input<'_>) {
        if !input.is_used_up() {
            if self.rest.capacity() == 0 {
                self.rest = service.buffers.take();
            }
            self.rest.extend_from_slice(input.unused());
        } else if self.rest.is_empty() && self.rest.capacity() > 0 {
            service.buffers.give(std::mem::take(&mut self.rest));
        }
    }
}
