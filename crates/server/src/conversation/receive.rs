//! Receiving: from input to steps, and from a request to the plan of its reply. Nothing is sent here.
//!
//! Input lies in the worker's scratch memory while it is worked on. What is left unused in the end (half a
//! head, a pipelined request behind a reply that is to be sent first) is kept in a pooled buffer, so that an
//! idle connection holds none.

use http1::{End, Head, Plan, ProtocolError, Status, Step, Terms};
use sys::socket::PeerAddress;

use super::Conversation;
use super::disk::Owed;
use crate::content::{Detour, Pin, Prefetched, SiteNumber};
use crate::line::Line;
use crate::proxies::header;
use crate::service::Service;

/// Input at hand, in scratch memory: from here to there it is unused.
#[derive(Debug)]
pub struct Input<'a> {
    scratch: &'a mut [u8],
    from: usize,
    to: usize,
}

impl<'a> Input<'a> {
    /// None yet.
    pub fn new(scratch: &'a mut [u8]) -> Self {
        Self { scratch, from: 0, to: 0 }
    }

    /// What no request has used yet.
    pub fn unused(&self) -> &[u8] {
        &self.scratch[self.from..self.to]
    }

    /// Whether there is none.
    pub fn is_used_up(&self) -> bool {
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
    fn take_up(&mut self, kept: &mut Vec<u8>) {
        if !kept.is_empty() {
            (self.from, self.to) = (0, kept.len());
            self.scratch[..self.to].copy_from_slice(kept);
            kept.clear();
        }
    }

    /// Where more goes: behind what is unused, which moves to the front.
    #[inline]
    pub fn room(&mut self) -> &mut [u8] {
        if self.from > 0 {
            if self.from < self.to {
                self.scratch.copy_within(self.from..self.to, 0);
            }
            (self.from, self.to) = (0, self.to - self.from);
        }
        &mut self.scratch[self.to..]
    }

    /// That many bytes have come into the [room](Self::room).
    #[inline]
    pub fn filled(&mut self, count: usize) {
        self.to += count;
    }
}

/// What a conversation wants while it is not replying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// To [take](Conversation::take) the input that is at hand. Nothing is received for that.
    Take(Wanted),
    /// More input, which it then [takes](Conversation::take).
    Input(Wanted),
    /// Nothing of its client.
    Nothing,
    /// That the output is shut down. Then it [goes on](Conversation::output_is_shut).
    ShutDown,
    /// That the connection is closed.
    Close,
    /// That the connection is reset.
    Reset,
}

/// The input that a conversation wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    is_behind: bool,
}

impl Wanted {
    /// Whether that is only what the client may have sent behind its last request. It is received if it is
    /// there, and not waited for.
    #[inline]
    pub fn is_behind(self) -> bool {
        self.is_behind
    }
}

impl Conversation {
    /// What it wants, while it is not replying. `input` is what has been received. `has_more` says whether
    /// the channel has a reason to believe that more has come. It is asked only behind the last request.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "counted: a call here costs every request 2% more instructions")]
    pub fn wants(&self, input: &Input<'_>, has_more: impl FnOnce() -> bool) -> Want {
        if self.exchange.waiting.is_some() {
            return Want::Nothing;
        }
        let is_at_hand = self.rest_unseen || self.eof;
        match self.machine.wants_end() {
            End::Open if is_at_hand => Want::Take(Wanted { is_behind: false }),
            End::Open if self.machine.wants_input() => Want::Input(Wanted { is_behind: false }),
            End::Open => Want::Nothing,
            // What is behind the last request is shown to the machine as well: closing with bytes unread
            // would reset the connection.
            End::Close => {
                let has_rest = !input.is_used_up() || !self.rest.is_empty();
                if !self.may_have_more(has_rest || has_more()) {
                    Want::Close
                } else if is_at_hand || has_rest {
                    Want::Take(Wanted { is_behind: true })
                } else {
                    Want::Input(Wanted { is_behind: true })
                }
            }
            End::Reset => Want::Reset,
            End::ShutDown => Want::ShutDown,
        }
    }

    /// Whether a client whose reply was the last may have sent something behind its request after all. A
    /// reply that went out at once left hardly any time for that, and such clients are not worth another call
    /// to ask.
    fn may_have_more(&self, is_suspicious: bool) -> bool {
        (is_suspicious || self.carried_over) && !self.eof && self.machine.closes_after_reply()
    }

    /// Whether no end of the connection is wanted.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.machine.wants_end() == End::Open
    }

    /// The client sends no more.
    #[inline]
    pub fn input_ends(&mut self) {
        self.eof = true;
    }

    /// The output has been shut down, as [wanted](Want::ShutDown).
    pub fn output_is_shut(&mut self, service: &Service) {
        self.machine.write_side_shut(&service.limits, service.clock.tick);
    }

    /// Takes up what was kept of the input.
    #[inline]
    pub fn take_up(&mut self, input: &mut Input<'_>) {
        input.take_up(&mut self.rest);
    }

    /// Takes the input that it wanted, as far as the next request. That is answered: its reply is to be sent
    /// before more is made of the input. `line` says what else the client's socket is good for, where a
    /// request needs to know. `false`: the connection is to be closed, since no more input is to come, and
    /// taking this has changed nothing.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "counted: a call here costs every request 2% more instructions")]
    pub fn take<'l>(
        &mut self,
        service: &mut Service,
        line: impl FnOnce() -> Line<'l>,
        input: &mut Input<'_>,
        wanted: Wanted,
    ) -> bool {
        // With the client's end known, there is no event to wait for: it goes on as long as input changes
        // anything.
        let before = (wanted.is_behind || self.eof).then(|| self.machine.wants());
        self.take_in(service, line, input);
        before.is_none_or(|before| self.is_replying() || self.is_paused() || self.machine.wants() != before)
    }

    /// Takes input as [`take`](Self::take) does, and does not say whether that has changed anything.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "counted: a call here costs every request 2% more instructions")]
    fn take_in<'l>(&mut self, service: &mut Service, line: impl FnOnce() -> Line<'l>, input: &mut Input<'_>) {
        self.rest_unseen = false;
        if self.is_announced && !self.hears_announcement(service, input) {
            return;
        }
        loop {
            let unused = &input.scratch[input.from..input.to];
            match self.machine.receive(&service.limits, service.clock.tick, unused, self.eof) {
                Ok((used, step)) => {
                    input.from += used;
                    match step {
                        Step::Request(head) => {
                            self.exchange.begin(service, (&self.peer, self.announced.as_deref()), &head);
                            if self.lent_to.is_none() || self.is_directed(service, &head) {
                                self.answer(service, line, &head, (unused, used));
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

    /// Ends the connection where a PROXY header is to come from a peer that is not trusted to send one.
    /// Nothing is received for that.
    #[cold]
    pub(super) fn judges_announcer(&mut self, service: &Service) {
        if self.is_open() && !service.proxies.speaks_for_others(&self.peer) {
            service.counters.proxy_headers_refused.add(1);
            self.machine.send_failed();
        }
    }

    /// Reads the PROXY header, before anything else is made of the input. `false`: it is not complete yet, or
    /// the connection ends for want of a good one.
    #[cold]
    fn hears_announcement(&mut self, service: &mut Service, input: &mut Input<'_>) -> bool {
        let found = match header::parse(input.unused()) {
            Ok(None) if !self.eof && self.machine.wants_end() == End::Open => return false,
            Ok(found) => found,
            Err(header::Malformed) => None,
        };
        let Some((length, announced)) = found else {
            service.counters.proxy_headers_refused.add(1);
            self.machine.send_failed();
            input.drop_unused();
            return false;
        };
        input.use_up(length);
        self.is_announced = false;
        self.active = service.clock.tick;
        if let Some(announced) = announced {
            self.peer = PeerAddress::Inet(announced.client);
            self.announced = Some(Box::new(announced));
        }
        true
    }

    /// Answers a request, with whose head so much of the input was used, or puts it by until what it asks for
    /// has been looked at.
    #[inline]
    fn answer<'l>(
        &mut self,
        service: &mut Service,
        line: impl FnOnce() -> Line<'l>,
        head: &Head<'_>,
        (input, used): (&[u8], usize),
    ) {
        match service.answer(head, None) {
            Ok(plan) => self.respond(service, plan, None),
            Err(detour) => self.take_detour((service, line()), detour, head, &input[..used], None),
        }
    }

    /// Answers a request as [`answer`](Self::answer) does, once this has been looked at.
    pub(super) fn answer_with(
        &mut self,
        service: &mut Service,
        line: Line<'_>,
        head: &Head<'_>,
        (consumed, looked): (&[u8], Prefetched),
    ) {
        match service.answer(head, Some(&looked)) {
            Ok(plan) => self.respond(service, plan, Some(looked)),
            Err(detour) => self.take_detour((service, line), detour, head, consumed, Some(looked)),
        }
    }

    /// Has done what must be before a request is answered, or instead.
    #[cold]
    fn take_detour(
        &mut self,
        (service, line): (&mut Service, Line<'_>),
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
                self.call((service, line), call, head, consumed);
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
    pub fn keep(&mut self, service: &mut Service, input: &Input<'_>) {
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
