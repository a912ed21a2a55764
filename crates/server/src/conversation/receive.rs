//! Receiving: turns input into steps, and a request into the plan of its reply. Nothing is sent here.
//!
//! Input lies in the worker's scratch memory while it is processed. What is left unused in the end is
//! kept in a pooled buffer. That may be half a head, or a pipelined request behind a reply that must be
//! sent first. So an idle connection holds no buffer.

use http1::{End, Head, Plan, ProtocolError, Status, Step, Terms};
use sys::socket::PeerAddress;

use super::Conversation;
use super::disk::Owed;
use crate::content::{Detour, Pin, Prefetched, SiteNumber};
use crate::line::Line;
use crate::proxies::header;
use crate::service::Service;

/// The input available in scratch memory. It is unused from `from` to `to`.
#[derive(Debug)]
pub struct Input<'a> {
    scratch: &'a mut [u8],
    from: usize,
    to: usize,
}

impl<'a> Input<'a> {
    /// Without input.
    pub fn new(scratch: &'a mut [u8]) -> Self {
        Self { scratch, from: 0, to: 0 }
    }

    /// The input that no request has used yet.
    pub fn unused(&self) -> &[u8] {
        &self.scratch[self.from..self.to]
    }

    /// Whether there is no unused input.
    pub fn is_used_up(&self) -> bool {
        self.from == self.to
    }

    /// Marks `count` more bytes as used.
    pub(super) fn use_up(&mut self, count: usize) {
        self.from += count;
    }

    /// Drops the unused input, which has no meaning any more.
    fn drop_unused(&mut self) {
        self.from = self.to;
    }

    /// Copies the kept input, if any, into the scratch memory. Nothing may be unused then.
    #[inline]
    fn take_up(&mut self, kept: &mut Vec<u8>) {
        if !kept.is_empty() {
            (self.from, self.to) = (0, kept.len());
            self.scratch[..self.to].copy_from_slice(kept);
            kept.clear();
        }
    }

    /// The room for more input, behind the unused input, which moves to the front.
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

    /// Counts `count` bytes that have come into the [room](Self::room).
    #[inline]
    pub fn filled(&mut self, count: usize) {
        self.to += count;
    }
}

/// What a conversation wants while it is not replying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// To [take](Conversation::take) the input that is available. No receive is needed for that.
    Take(Wanted),
    /// More input, which it then [takes](Conversation::take).
    Input(Wanted),
    /// Nothing from its client.
    Nothing,
    /// That the output is shut down. Then it [continues](Conversation::output_is_shut).
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
    /// Whether this is only what the client may have sent after its last request. It is received if it is
    /// there, but not waited for.
    #[inline]
    pub fn is_behind(self) -> bool {
        self.is_behind
    }
}

impl Conversation {
    /// What the conversation wants, while it is not replying. `input` is what has been received.
    /// `has_more` returns whether the channel has a reason to believe that more has come. It is called
    /// only after the last request.
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
            // The machine also gets what follows the last request. Closing with unread bytes would reset
            // the connection.
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

    /// Whether a client that got its last reply may have sent something more after its request. If the
    /// reply went out at once, there was hardly any time for that, and another call to find out is not
    /// worthwhile.
    fn may_have_more(&self, is_suspicious: bool) -> bool {
        (is_suspicious || self.carried_over) && !self.eof && self.machine.closes_after_reply()
    }

    /// Whether the conversation does not want to end the connection.
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

    /// Copies the kept input into `input`.
    #[inline]
    pub fn take_up(&mut self, input: &mut Input<'_>) {
        input.take_up(&mut self.rest);
    }

    /// Takes the input that it wanted, up to the next request, and answers that. The reply must be sent
    /// before more input is processed. `line` gives what else the client's socket can do, if a request
    /// needs to know. `false`: close the connection, because no more input is to come, and taking this
    /// has changed nothing.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "counted: a call here costs every request 2% more instructions")]
    pub fn take<'l>(
        &mut self,
        service: &mut Service,
        line: impl FnOnce() -> Line<'l>,
        input: &mut Input<'_>,
        wanted: Wanted,
    ) -> bool {
        // When the client's end is known, there is no event to wait for. The loop continues as long as
        // input changes anything.
        let before = (wanted.is_behind || self.eof).then(|| self.machine.wants());
        self.take_in(service, line, input);
        before.is_none_or(|before| self.is_replying() || self.is_paused() || self.machine.wants() != before)
    }

    /// Takes input as [`take`](Self::take) does, but does not return whether that has changed anything.
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
                            self.exchange.begin(service, (&self.peer, self.introduced.as_deref()), &head);
                            if !self.is_examined || self.may_be_answered(service, &head) {
                                self.answer(service, line, &head, (unused, used));
                            }
                            self.rest_unseen = input.from < input.to;
                            return;
                        }
                        Step::Refused(head, error) => {
                            self.exchange.begin(service, (&self.peer, self.introduced.as_deref()), &head);
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

    /// Ends the connection if a PROXY header is to come from a peer that is not trusted to send one.
    /// Nothing is received for that.
    #[cold]
    pub(super) fn judges_announcer(&mut self, service: &Service) {
        if self.is_open() && !service.proxies.speaks_for_others(&self.peer) {
            service.counters.proxy_headers_refused.add(1);
            self.machine.send_failed();
        }
    }

    /// Reads the PROXY header before any other input. `false`: it is not complete yet, or the connection
    /// ends because there is no valid one.
    #[cold]
    fn hears_announcement(&mut self, service: &mut Service, input: &mut Input<'_>) -> bool {
        match self.hear_announcement(service, input.unused()) {
            Some(length) => input.use_up(length),
            None if self.is_open() => return false,
            None => input.drop_unused(),
        }
        !self.is_announced
    }

    /// Whether a PROXY header is still to come.
    pub fn awaits_announcement(&self) -> bool {
        self.is_announced
    }

    /// Reads the PROXY header, which comes before anything else, and returns its length. `None`: it is not
    /// complete yet, or the connection ends because there is no valid one.
    pub fn hear_announcement(&mut self, service: &mut Service, input: &[u8]) -> Option<usize> {
        let found = match header::parse(input) {
            Ok(None) if !self.eof && self.machine.wants_end() == End::Open => return None,
            Ok(found) => found,
            Err(header::Malformed) => None,
        };
        let Some((length, announced)) = found else {
            service.counters.proxy_headers_refused.add(1);
            self.machine.send_failed();
            return None;
        };
        self.is_announced = false;
        self.active = service.clock.tick;
        if let Some(announced) = announced {
            self.peer = PeerAddress::Inet(announced.client);
            self.introduced.get_or_insert_default().announced = Some(announced);
        }
        Some(length)
    }

    /// Answers a request, whose head used `used` bytes of the input. If a lookup is needed first, saves
    /// the answer until then.
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

    /// Answers a request as [`answer`](Self::answer) does, after the lookups in `looked`.
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

    /// Does what is needed before a request is answered, or instead of answering it.
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

    /// Answers a request for `path` with an error of a site that comes neither from its content nor from
    /// a breach of the protocol. `looked` has the lookups made for the error page. If another one is
    /// needed, saves the answer until then.
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

    /// Answers a breach of the protocol by a request for a site, if an answer is owed. The site is the
    /// default one, 0, if the head could not be read.
    pub(super) fn refuse(&mut self, service: &mut Service, breach: (SiteNumber, ProtocolError)) {
        service.counters.refusal(breach.1.kind);
        if self.machine.owes_answer() {
            self.exchange.begin_unreadable(service, &self.peer, breach.0);
            self.answer_breach(service, breach, None);
        }
    }

    /// Answers a breach. `looked` has the lookups made for the error page. If another one is needed,
    /// saves the answer until then.
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

    /// Replies, and gives back the lookups made for the reply.
    #[inline]
    pub(super) fn respond(&mut self, service: &mut Service, plan: Plan<Pin>, looked: Option<Prefetched>) {
        if let Some(looked) = looked {
            service.content.unkeep(looked);
        }
        self.carried_over = false;
        self.machine.respond(&service.limits, service.clock.tick, plan);
    }

    /// Keeps input that has come by itself, behind what is kept already. Then it wants to
    /// [take](Want::Take) it.
    #[inline]
    pub fn keep_more(&mut self, service: &mut Service, bytes: &[u8]) {
        if self.rest.capacity() == 0 {
            self.rest = service.buffers.take();
        }
        self.rest.extend_from_slice(bytes);
        self.rest_unseen = true;
    }

    /// How many bytes [`keep_more`](Self::keep_more) may keep.
    #[inline]
    pub fn room_for_more(&self, service: &Service) -> usize {
        service.scratch.len().saturating_sub(self.rest.len())
    }

    /// Keeps the unused input for later.
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
