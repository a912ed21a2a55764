//! A conversation whose request is answered by an application. It passes what the client sends to the
//! [relay](Relay), and what the relay produces to the client.
//!
//! The connection's state machine has announced the request and waits for its answer meanwhile. It reads
//! the body, and the relay has the reply. A client that hangs up is treated as disconnected. The server
//! cannot tell whether it only shut down its own side, and an application should not work for a client
//! that is gone.
//!
//! A client's socket may be passed to the application for the reply. Then nothing is read from it or sent
//! to it here, and it is watched only for its end. The server cannot know whether the application has
//! kept a copy of the socket. Such a copy can read and write whatever follows. This has two consequences:
//!
//! - Later requests on the connection may only be for the same site and the same application. A request
//!   for another one is told to use another connection (421, RFC 9110 section 15.5.20).
//! - To end the connection, the server shuts it down or resets it explicitly. Closing a socket that other
//!   processes have open does not end the connection.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use arrayvec::ArrayVec;
use http1::{
    Connection, End, Head, Method, OpenReply, ProtocolError, Run, Status, Step, Terms, Tick, TimerKind,
};
use sys::socket::Slice;

use super::disk::Owed;
use super::receive::Input;
use super::turn::Next;
use super::{Conversation, Pause};
use crate::content::{Call, Named, Pin, Prefetched, SiteNumber};
use crate::counters::Failure as Failed;
use crate::gateway::{Afterwards, Asker, Failure, Link, Relay};
use crate::line::Line;
use crate::service::Service;

/// Most runs of a reply in one operation: as many as come in one read of some chunks.
const GATHER: usize = 16;

/// Room for the runs of memory in one operation for an application's reply.
pub type Passages<'a> = ArrayVec<Slice<'a>, GATHER>;

/// What to send next to the client of an application's reply.
#[derive(Clone, Debug)]
pub enum Passage<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// These bytes, and then pages.
    BytesBeforePages(&'a [u8]),
    /// Runs of memory, which may be shared with the application.
    Runs,
    /// Pages that are shared with the application: this range of their file.
    Pages(BorrowedFd<'a>, Range<u64>),
}

/// The state of a request for an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attended {
    /// The available part of the reply is to be sent, as [`Conversation::next_passage`] says.
    GoesOn,
    /// No application is working on the request any more.
    IsOver,
}

/// What to do about the body of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// More of it may be available.
    GoesOn,
    /// It needs input.
    NeedsInput,
    /// No more of it is to be taken.
    IsOver,
}

/// How often to check on a client if no event would report that it disconnects, and if its turn in a
/// queue may have come.
const LOOK_TICKS: u32 = 250 / Tick::MS;

/// If less of a body than this is still to come, it is received together with what may follow it.
const WORTH_A_CALL: usize = 16 << 10;

/// How many events a client may cause while its socket is passed, before it is no longer watched. One is
/// usual: the client has the reply and sends its next request before the application has reported the
/// end.
const MOST_DISTURBANCES: u8 = 2;

/// The logged status of a request whose client disconnected before the reply. It is not a standard status.
/// Other servers invented it.
const CLIENT_LEFT: Status = Status(499);

/// A relay. `look_at`: when to check on its client, if no event would report that it disconnects.
#[derive(Debug)]
pub(super) struct Application {
    relay: Relay,
    look_at: Option<Tick>,
    /// How many events the client has caused while its socket was passed.
    disturbances: u8,
}

/// The application that a client's socket was passed to. It may have kept a copy.
#[derive(Debug)]
pub(super) struct LentTo {
    site: SiteNumber,
    pool: Arc<str>,
}

/// Why a client gets no reply from the application, or no more of it.
enum Trouble {
    /// The request's body is malformed.
    Body(ProtocolError),
    /// The application has failed.
    Application(Failure),
    /// The client gets this instead.
    Named(Box<Named>),
    /// The client has disconnected.
    Gone,
    /// The client takes the reply too slowly.
    Slow,
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Application(failure)
    }
}

impl Conversation {
    /// Calls an application for the request that was announced with this head.
    #[cold]
    pub(super) fn call(
        &mut self,
        (service, line): (&mut Service, Line<'_>),
        call: Box<Call>,
        head: &Head<'_>,
        consumed: &[u8],
    ) {
        if self.lent_to.as_ref().is_some_and(|lent_to| lent_to.pool != call.pool) {
            return self.misdirect(service, call.site, head);
        }
        if head.method == Method::Trace && !service.gateway.takes_trace(&call.pool) {
            let error = (call.site, Status::METHOD_NOT_ALLOWED, head.path);
            return self.answer_error(service, error, head.terms, None);
        }
        let now = service.clock.tick;
        let asks_for = service.proxies.asks_for(&self.peer, head.fields);
        let asker = Asker {
            client: asks_for.client().unwrap_or(self.peer),
            asks_for,
            origin: service.proxies.origin(&self.peer, self.announced(), head.fields),
            secured: self.secured().cloned(),
            local: service.gateway.tells_local_address(&call.pool).then(|| line.local_address()).flatten(),
        };
        let mut kept = service.buffers.take();
        kept.extend_from_slice(consumed);
        let owed = (call.site, head.terms);
        let relay = Relay::new(&service.gateway, call, (kept, head), asker, now);
        let begun = relay.and_then(|mut relay| {
            if self.machine.is_reading_body() {
                relay.begin_body(&mut service.gateway, self.machine.body_left(), now)?;
            }
            Ok(relay)
        });
        match begun {
            Ok(relay) => {
                let look_at = (!service.hears_hang_ups).then(|| now.after(LOOK_TICKS));
                let application = Application { relay, look_at, disturbances: 0 };
                self.exchange.waiting = Some(Box::new(Pause::Application(Box::new(application))));
            }
            Err(failure) => {
                let request = String::from_utf8_lossy(head.target).into_owned();
                self.answer_failure(service, &failure, &request, owed, head.path);
            }
        }
    }

    /// Whether a request may be answered on this connection. If not, answers otherwise: the socket was passed
    /// for another site, the handshake of TLS named another site (RFC 9110 section 7.4), or there is no TLS
    /// where it is wanted.
    #[cold]
    pub(super) fn may_be_answered(&mut self, service: &mut Service, head: &Head<'_>) -> bool {
        if self.introduced.as_ref().is_some_and(|introduced| introduced.lacks_tls) {
            let plan = service.demand_tls(head);
            self.respond(service, plan, None);
            return false;
        }
        let wants_tls = service.redirects_to_https() && self.secured().is_none();
        if wants_tls
            // A proxy in front of this server may have spoken TLS with the client.
            && service.proxies.origin(&self.peer, self.announced(), head.fields).is_https != Some(true)
            && let Some(plan) = service.redirect_to_https(head)
        {
            self.respond(service, plan, None);
            return false;
        }
        let site = service.content.site_of(head);
        let was_named = self.secured().and_then(|facts| facts.server_name.as_deref());
        let is_directed = self.lent_to.as_ref().is_none_or(|lent_to| lent_to.site == site)
            && was_named.is_none_or(|name| service.content.site_named(name.as_bytes()) == site);
        if !is_directed {
            self.misdirect(service, site, head);
        }
        is_directed
    }

    pub(super) fn misdirect(&mut self, service: &mut Service, site: SiteNumber, head: &Head<'_>) {
        let terms = Terms { persistent: false, ..head.terms };
        self.answer_error(service, (site, Status::MISDIRECTED_REQUEST, head.path), terms, None);
    }

    /// Takes the application, if the conversation waits for one. From now on, the client's time runs.
    fn take_application(&mut self, service: &Service) -> Option<Box<Application>> {
        match *self.exchange.waiting.take()? {
            Pause::Application(application) => {
                self.machine.resume(service.clock.tick);
                Some(application)
            }
            other @ Pause::Disk(_) => {
                self.exchange.waiting = Some(Box::new(other));
                None
            }
        }
    }

    /// Gives the application up if `result` is a trouble.
    fn settles<T>(
        &mut self,
        service: &mut Service,
        line: Line<'_>,
        result: Result<T, Trouble>,
        given_up: T,
    ) -> T {
        match result {
            Ok(done) => done,
            Err(trouble) => {
                if let Some(application) = self.take_application(service) {
                    self.give_application_up(service, line, *application, trouble);
                }
                given_up
            }
        }
    }

    /// The client of a request for an application has disconnected.
    #[cold]
    pub fn client_has_left(&mut self, service: &mut Service, line: Line<'_>) {
        self.settles(service, line, Err(Trouble::Gone), ());
    }

    /// Begins to take the rest of a request's body. The client may have to be asked for it: that is the
    /// next [passage](Self::next_passage).
    pub fn begins_body(&mut self, input: &mut Input<'_>) {
        let Self { machine, exchange, .. } = self;
        if let Some(application) = exchange.application_mut().filter(|it| !it.relay.streams_body()) {
            application.invite(machine);
        }
        self.take_up(input);
    }

    /// Takes a piece of the request's body.
    pub fn take_body(&mut self, service: &mut Service, line: Line<'_>, input: &mut Input<'_>) -> Body {
        let taken = self.take_piece(service, input);
        self.settles(service, line, taken, Body::IsOver)
    }

    fn take_piece(&mut self, service: &mut Service, input: &mut Input<'_>) -> Result<Body, Trouble> {
        let Self { machine, exchange, eof, .. } = self;
        let Some(application) = exchange.application_mut() else { return Ok(Body::IsOver) };
        if !machine.is_reading_body() {
            application.relay.end_body(&mut service.gateway, service.clock.tick)?;
            return Ok(Body::IsOver);
        }
        // The end of a body takes no room. The application may have seen it in the length.
        let is_full = application.relay.streams_body() && !application.relay.takes_input();
        if is_full && machine.body_left() != Some(0) {
            return Ok(Body::IsOver);
        }
        let unused = input.unused();
        let (used, step) =
            machine.receive(&service.limits, service.clock.tick, unused, *eof).map_err(Trouble::Body)?;
        let next = if matches!(step, Step::NeedInput) { Body::NeedsInput } else { Body::GoesOn };
        let taken = match step {
            Step::Body(range) => {
                let left = machine.body_left();
                application.relay.take_body(&mut service.gateway, &unused[range], left)
            }
            _ => Ok(()),
        };
        input.use_up(used);
        taken?;
        Ok(next)
    }

    /// The buffer for the next bytes behind what is there, and how many of them may be received, at most
    /// `share`. `None` unless the bytes can only be body and are worth their own operation.
    pub fn room_for_body(&mut self, share: u64) -> Option<(&mut Vec<u8>, usize)> {
        let Self { machine, exchange, .. } = self;
        if !machine.is_reading_body() {
            return None;
        }
        let left = machine.body_left().unwrap_or(0).min(share);
        let body = exchange.application_mut()?.relay.room_for_body()?;
        let room = (body.capacity() - body.len()).min(usize::try_from(left).unwrap_or(usize::MAX));
        (room >= WORTH_A_CALL).then_some((body, room))
    }

    /// Takes `count` bytes that were received in the [room](Self::room_for_body) for them. `false`: they
    /// were not part of the body.
    pub fn take_received_body(&mut self, service: &mut Service, count: usize) -> bool {
        let Self { machine, exchange, eof, .. } = self;
        let Some(application) = exchange.application_mut() else { return false };
        let Some(body) = application.relay.room_for_body() else { return false };
        let mut used = body.len() - count;
        while used < body.len() {
            match machine.receive(&service.limits, service.clock.tick, &body[used..], *eof) {
                Ok((more, _)) if more > 0 => used += more,
                // All of them must be body.
                _ => return false,
            }
        }
        application.relay.has_received(count);
        true
    }

    /// Whether more of the body is to be passed to the application as it comes, and can be now: there is
    /// input, or may be.
    pub fn passes_body(&self, may_receive: bool) -> bool {
        let relay = self.exchange.application().map(|application| &application.relay);
        relay.is_some_and(|relay| relay.streams_body() && relay.takes_input())
            && (may_receive || self.rest_unseen || self.eof || !self.machine.is_reading_body())
    }

    /// Asks the client for a body that the application takes as it comes, if it must be asked. The client's
    /// time for the body runs only while the application takes more of it.
    pub fn paces_body(&mut self, service: &Service) {
        let Self { machine, exchange, .. } = self;
        let Some(application) = exchange.application_mut().filter(|it| it.relay.streams_body()) else {
            return;
        };
        let now = service.clock.tick;
        if !application.relay.takes_input() {
            return machine.stall(now);
        }
        machine.resume(now);
        // An application that has answered wants no body.
        if application.relay.reply().is_none() {
            application.invite(machine);
        }
    }

    /// Whether the client's connection is joined with the application's.
    pub fn is_joined(&self) -> bool {
        self.exchange.application().is_some_and(|application| application.relay.is_joined())
    }

    /// Whether it is joined, and the client has ended it.
    pub fn has_lost_client(&self) -> bool {
        self.exchange.application().is_some_and(|application| application.relay.has_lost_client())
    }

    /// Whether it is joined, and the application takes bytes from the client.
    pub fn takes_input_for_application(&self) -> bool {
        self.exchange.application().is_some_and(|application| application.relay.takes_input())
    }

    /// Passes all that the client has sent, and its end, to the application that its connection is joined
    /// with.
    pub fn pass_on(&mut self, service: &Service, input: &mut Input<'_>) {
        let eof = self.eof;
        let Some(application) = self.exchange.application_mut() else { return };
        let unused = input.unused();
        let count = unused.len();
        application.relay.pass_on(unused, service.clock.tick);
        input.use_up(count);
        self.rest_unseen = false;
        if eof {
            application.relay.client_ends();
        }
    }

    /// Leaves the body for now, and keeps the unused input. Returns the state of the request.
    pub fn leaves_body(&mut self, service: &mut Service, line: Line<'_>, input: &Input<'_>) -> Attended {
        self.rest_unseen = !input.is_used_up();
        self.keep(service, input);
        if self.exchange.application().is_none() {
            return Attended::IsOver;
        }
        if self.machine.wants_end() != End::Open {
            self.client_has_left(service, line);
            return Attended::IsOver;
        }
        Attended::GoesOn
    }

    /// Begins a turn of a request whose body is complete. Checks whether its client is still there, if
    /// that matters now.
    pub fn begins_to_attend(&mut self, service: &mut Service, line: Line<'_>) -> Attended {
        let Some(application) = self.exchange.application_mut() else { return Attended::IsOver };
        // A worker that waits for other events may not notice that this client has hung up.
        if application.relay.may_go(&service.gateway) && line.has_hung_up() {
            self.client_has_left(service, line);
            return Attended::IsOver;
        }
        if application.relay.is_lent() && !application.relay.has_input() {
            application.disturbances = application.disturbances.saturating_add(1);
        }
        Attended::GoesOn
    }

    /// Exchanges data with the application, up to the quantum (`share`). `is_full` means that the
    /// client's side has no room for a reply.
    pub fn attend(
        &mut self,
        service: &mut Service,
        line: Line<'_>,
        scratch: &mut [u8],
        share: &mut u64,
        is_full: bool,
    ) -> Attended {
        let attended = self.exchange_with_application(service, line, scratch, share, is_full);
        let attended = self.settles(service, line, attended, Attended::IsOver);
        if attended == Attended::IsOver
            && let Some(application) = self.take_application(service)
        {
            self.end_application(service, *application);
        }
        attended
    }

    fn exchange_with_application(
        &mut self,
        service: &mut Service,
        line: Line<'_>,
        scratch: &mut [u8],
        share: &mut u64,
        is_full: bool,
    ) -> Result<Attended, Trouble> {
        let Self { exchange, lent_to, is_examined, .. } = self;
        let Some(application) = exchange.application_mut() else { return Ok(Attended::IsOver) };
        let client = line.lendable().filter(|_| application.relay.interims.is_empty());
        let (gateway, mut tools) = service.gateway_and_tools(scratch, share, client);
        application.relay.note_client(is_full);
        let worked = application.relay.work(gateway, &mut tools);
        if application.relay.has_lent() {
            *is_examined = true;
            lent_to.get_or_insert_with(|| {
                let (site, _) = application.relay.owed();
                Box::new(LentTo { site, pool: Arc::clone(application.relay.pool()) })
            });
            // This failure may be caused by the client's own end.
            if worked.is_err() && line.has_hung_up() {
                return Err(Trouble::Gone);
            }
            // A client whose socket is passed may not be watched.
            application.look_at.get_or_insert(service.clock.tick.after(LOOK_TICKS));
        }
        worked?;
        if application.relay.returned().is_some() {
            return Ok(Attended::IsOver);
        }
        if let Some(named) = application.relay.take_named() {
            return Err(Trouble::Named(named));
        }
        Ok(Attended::GoesOn)
    }

    /// What to send next to the client of an application. This changes only `runs`, which receives runs
    /// of memory.
    pub fn next_passage<'a>(&'a self, runs: &mut Passages<'a>) -> Option<Passage<'a>> {
        let relay = &self.exchange.application()?.relay;
        if !relay.interims.is_empty() {
            return Some(Passage::Bytes(relay.interims.unsent()));
        }
        let (reply, area) = relay.outgoing().filter(|(reply, _)| reply.left() > 0)?;
        let Some(area) = area else { return Some(Passage::Bytes(reply.unsent())) };
        let Some(pages) = area.pages() else {
            runs.extend(reply.runs().take(GATHER).map(|run| match run {
                Run::Own(bytes) => Slice::new(bytes),
                Run::Elsewhere(range) => area.slice(&range),
            }));
            return Some(Passage::Runs);
        };
        let mut left = reply.runs();
        Some(match left.next()? {
            Run::Own(bytes) if left.next().is_some() => Passage::BytesBeforePages(bytes),
            Run::Own(bytes) => Passage::Bytes(bytes),
            Run::Elsewhere(range) => Passage::Pages(pages, range),
        })
    }

    /// `count` bytes of the passage were sent.
    pub fn passed(&mut self, service: &mut Service, count: usize) {
        service.counters.bytes_sent.add(count as u64);
        let Some(application) = self.exchange.application_mut() else { return };
        if !application.relay.interims.is_empty() {
            application.relay.interims.sent(count);
        } else if let Some(reply) = application.relay.reply() {
            reply.sent(count as u64);
        }
    }

    /// Nothing more can be sent.
    #[cold]
    pub fn not_passed(&mut self, service: &mut Service, line: Line<'_>, error: &io::Error) {
        self.broken(service, error, Failed::Send);
        self.client_has_left(service, line);
    }

    /// Whether the application is still working on the request, after the available part of the reply has
    /// been sent.
    pub fn is_attended(&mut self, service: &mut Service) -> Attended {
        let Some(application) = self.exchange.application_mut() else { return Attended::IsOver };
        if application.relay.reply().is_none_or(|reply| !reply.is_complete()) {
            return Attended::GoesOn;
        }
        if let Some(application) = self.take_application(service) {
            self.end_application(service, *application);
        }
        Attended::IsOver
    }

    /// A turn has used up its quantum. A conversation that always has more to do may never reach the
    /// point where deadlines are checked, so this checks them.
    pub fn has_used_share(&mut self, service: &mut Service, line: Line<'_>) -> Attended {
        if self.application_deadline().is_some_and(|deadline| deadline.reached(service.clock.tick)) {
            self.look_after_application(service, line);
        }
        if self.has_application() { Attended::GoesOn } else { Attended::IsOver }
    }

    /// The reply is sent. The connection continues, or ends.
    fn end_application(&mut self, service: &mut Service, application: Application) {
        self.exchange.note_application(service, &application.relay);
        let returned = application.relay.returned();
        let reply = application.end(service);
        if let Some(returned) = returned {
            service.counters.bytes_sent.add(returned.sent);
            self.machine.returned(&service.limits, service.clock.tick, returned.is_persistent);
            self.exchange.end(service, Status(returned.status), returned.body);
            service.counters.reply(returned.status);
            self.carried_over = true;
            return;
        }
        let Some(reply) = reply else { return };
        let (status, sent) = (reply.status(), reply.body_sent());
        self.machine.returned(&service.limits, service.clock.tick, reply.is_persistent());
        self.exchange.end(service, status, sent);
        service.counters.reply(status.0);
        service.take_sheet(reply.into_sheet());
        self.carried_over = true;
    }

    /// The client gets no reply from the application, or no more of it.
    fn give_application_up(
        &mut self,
        service: &mut Service,
        line: Line<'_>,
        mut application: Application,
        trouble: Trouble,
    ) {
        let (request, mut owed) = (application.relay.request(), application.relay.owed());
        // Nothing but the rest can follow a part of an interim reply.
        let mut spoilt = application.relay.interims.is_cut().then_some((CLIENT_LEFT, 0));
        if let Trouble::Application(failure) = &trouble {
            match application.relay.afterwards(line.lendable(), failure, &service.gateway) {
                Afterwards::Answerable => {}
                Afterwards::AnswerableOnce => owed.1.persistent = false,
                Afterwards::Spoilt(sent) => spoilt = Some((failure.status(), sent)),
            }
        }
        self.exchange.note_application(service, &application.relay);
        match &trouble {
            Trouble::Application(failure) => application.relay.count_failure(&service.gateway, failure),
            Trouble::Gone => application.relay.count_client_left(&service.gateway),
            Trouble::Named(_) | Trouble::Body(_) | Trouble::Slow => {}
        }
        // If no part of a reply has been seen, nothing of it must be kept.
        let (consumed, reply) = application.relay.end(&mut service.gateway);
        let begun = reply.and_then(|reply| {
            let begun = reply.has_begun().then(|| (reply.status(), reply.body_sent()));
            service.take_sheet(reply.into_sheet());
            begun
        });
        let begun = begun.or(spoilt);
        match (trouble, begun) {
            (Trouble::Named(named), _) => {
                return self.answer_with_named(service, (consumed, owed.1), named, None);
            }
            (Trouble::Body(error), None) => self.refuse(service, (owed.0, error)),
            (Trouble::Body(_), Some((status, sent))) => {
                self.machine.abort();
                self.exchange.end(service, status, sent);
            }
            (Trouble::Application(failure), None) => {
                // The request can be answered even without its head.
                let path = Head::again(&consumed, owed.1).map_or(&[][..], |head| head.path);
                self.answer_failure(service, &failure, &request, owed, path);
            }
            (Trouble::Application(failure), Some((status, sent))) => {
                service.gateway.complain(service.clock.ms, &request, &failure);
                self.machine.abort();
                self.exchange.end(service, status, sent);
            }
            (Trouble::Slow, begun) => {
                self.machine.abort();
                let (status, sent) = begun.unwrap_or((CLIENT_LEFT, 0));
                self.exchange.end(service, status, sent);
            }
            (Trouble::Gone, begun) => {
                self.machine.send_failed();
                self.exchange.end(service, CLIENT_LEFT, begun.map_or(0, |(_, sent)| sent));
            }
        }
        service.buffers.give(consumed);
    }

    /// Answers with what the application has named, or saves the answer until another lookup has been
    /// made. `looked` has the lookups made so far. `consumed` are the bytes of the request's head.
    pub(super) fn answer_with_named(
        &mut self,
        service: &mut Service,
        (consumed, terms): (Vec<u8>, Terms),
        named: Box<Named>,
        looked: Option<Prefetched>,
    ) {
        let Some(head) = Head::again(&consumed, terms) else { return self.machine.abort() };
        match service.answer_with_named(&head, &named, looked.as_ref()) {
            Ok(plan) => {
                self.respond(service, plan, looked);
                service.buffers.give(consumed);
            }
            Err(look) => {
                let owed = Owed::Named { consumed, terms, named };
                self.defer(service, owed, looked.unwrap_or_default(), look);
            }
        }
    }

    /// Answers a request that the application has not answered. `path` is the request's path.
    fn answer_failure(
        &mut self,
        service: &mut Service,
        failure: &Failure,
        request: &str,
        (site, terms): (SiteNumber, Terms),
        path: &[u8],
    ) {
        service.gateway.complain(service.clock.ms, request, failure);
        self.answer_error(service, (site, failure.status(), path), terms, None);
    }

    /// When to check on the conversation, if it waits for an application.
    pub(super) fn application_deadline(&self) -> Option<Tick> {
        self.exchange.application()?.deadline()
    }

    /// A deadline has passed while the conversation waits for an application.
    pub(super) fn application_timeout(&mut self, service: &mut Service, line: Line<'_>) -> Option<Next> {
        self.exchange.application()?;
        self.look_after_application(service, line);
        // Another server may be due.
        Some(Next::Receive)
    }

    fn look_after_application(&mut self, service: &mut Service, line: Line<'_>) {
        let looked = self.exchange.application_mut().map_or(Ok(()), |it| it.look_after(service, line));
        self.settles(service, line, looked, ());
    }

    /// The site of the request, as far as it is known: the application's, or otherwise the default site.
    pub(super) fn asked_site(&self) -> SiteNumber {
        self.exchange.application().map_or(0, |application| application.relay.owed().0)
    }

    /// Whether the client is sending the body of a request for an application.
    pub fn brings_body(&self) -> bool {
        self.exchange.application().is_some_and(|application| application.relay.awaits_body())
    }

    /// Ends an application's reply that the client takes too slowly.
    pub(super) fn give_slow_reply_up(&mut self, service: &mut Service, line: Line<'_>) {
        if self.exchange.application().is_some_and(|application| application.relay.has_output())
            && let Some(application) = self.take_application(service)
        {
            self.give_application_up(service, line, *application, Trouble::Slow);
        }
    }

    /// Whether the client is to send more of a body now, to be kept or passed on.
    pub(super) fn owes_body(&self) -> bool {
        let owes = |relay: &Relay| relay.awaits_body() || relay.streams_body() && relay.takes_input();
        self.exchange.application().is_some_and(|application| owes(&application.relay))
    }

    /// Whether the request is with an application, or on its way to one.
    pub fn has_application(&self) -> bool {
        self.exchange.application().is_some()
    }

    /// Whether the conversation waits for an application, not for its client.
    pub fn waits_for_application(&self) -> bool {
        let is_due = |application: &Application| !application.relay.has_output();
        !self.owes_body() && self.exchange.application().is_some_and(is_due)
    }

    /// `None` unless the client's socket need not be watched: it is passed, when only the connection's end
    /// matters here, or it is joined with a server's, and the client has ended it. Then returns whether the
    /// socket may be watched. It must not be watched if events report a lasting state (`told_of_changes` is
    /// false), or if there have been too many events already.
    pub fn is_lent(&self, told_of_changes: bool) -> Option<bool> {
        let is_left = |relay: &Relay| relay.is_lent() || relay.has_lost_client();
        let application = self.exchange.application().filter(|application| is_left(&application.relay))?;
        Some(told_of_changes && application.disturbances < MOST_DISTURBANCES)
    }

    /// Whether the client's socket has been passed. Another process may have a copy of it.
    pub fn was_lent(&self) -> bool {
        self.lent_to.is_some()
    }

    /// Whether the client would miss something that it is owed if the connection ended now.
    pub fn is_cut_short(&self) -> bool {
        let machine = &self.machine;
        machine.is_replying() || machine.wants_end() == End::Reset || machine.owes_answer()
    }

    /// Whether a part of an application's reply has been sent, and there may be more.
    pub(super) fn is_passing_on(&self) -> bool {
        let Some(application) = self.exchange.application() else { return false };
        let relay = &application.relay;
        relay.interims.is_cut() || relay.outgoing().is_some_and(|(reply, _)| reply.has_begun())
    }

    /// Whether the request waits in a pool's queue.
    pub fn is_queued(&self) -> bool {
        self.exchange.application().is_some_and(|application| application.relay.is_queued())
    }

    /// If the request waits in a pool's queue, names it.
    /// [`Service::called`] returns the name when the request need not
    /// wait any more. The name must not be 0.
    pub fn name_queued(&self, service: &Service, name: u64) {
        if let Some(application) = self.exchange.application() {
            application.relay.name(&service.gateway, name);
        }
    }

    /// The socket of the server's connection alone, if it waits for anything. Otherwise a connection
    /// closed by the server would be reported again and again.
    pub fn link_fd(&self) -> Option<(BorrowedFd<'_>, (bool, bool))> {
        let relay = &self.exchange.application()?.relay;
        let waits = relay.link_waits_for();
        Some((relay.link_fd().filter(|_| waits != (false, false))?, waits))
    }

    /// The connection to an application's server that must be watched, too, and for what: input, and
    /// room.
    pub fn link(&mut self) -> Option<(&mut Link, (bool, bool))> {
        let relay = &mut self.exchange.application_mut()?.relay;
        let waits = relay.link_waits_for();
        Some((relay.link()?, waits))
    }
}

impl Application {
    /// Asks the client for the request's body, if it waits to be asked.
    fn invite(&mut self, machine: &mut Connection<Pin>) {
        if let Some(is_persistent) = machine.invite_body() {
            self.relay.set_persistent(is_persistent);
            self.relay.interims.ask_for_body();
        }
    }

    /// When to check on the application.
    fn deadline(&self) -> Option<Tick> {
        [self.relay.deadline(), self.look_at].into_iter().flatten().reduce(Tick::earlier)
    }

    /// What the application needs from the client: input, and room for output.
    pub(super) fn needs(&self) -> (bool, bool) {
        let relay = &self.relay;
        let wants_input = relay.awaits_body() || relay.takes_input();
        if relay.is_lent() { (false, false) } else { (wants_input, relay.has_output()) }
    }

    /// Checks whether the application or the client takes too long.
    fn look_after(&mut self, service: &mut Service, line: Line<'_>) -> Result<(), Trouble> {
        let now = service.clock.tick;
        let client = line.lendable();
        let is_slow =
            client.is_some_and(|client| self.relay.check_lent_connection(client, &service.limits, now));
        self.relay.expire(&mut service.gateway, now)?;
        if let Some(look_at) = &mut self.look_at {
            *look_at = now.after(LOOK_TICKS);
            // What a client of a joined connection has sent before its end is still to be passed on.
            if !self.relay.is_joined() && line.has_hung_up() {
                return Err(Trouble::Gone);
            }
        }
        if is_slow || self.relay.reply().is_some_and(|reply| reply.is_too_slow(&service.limits, now)) {
            service.counters.timeout(TimerKind::Write);
            return Err(Trouble::Slow);
        }
        Ok(())
    }

    /// Ends the relay, and returns the reply as far as there is one.
    fn end(self, service: &mut Service) -> Option<OpenReply<Pin>> {
        let (consumed, reply) = self.relay.end(&mut service.gateway);
        service.buffers.give(consumed);
        reply
    }

    /// Gives up the request, because the connection ends.
    pub(super) fn leave(self, service: &mut Service) {
        if let Some(reply) = self.end(service) {
            service.take_sheet(reply.into_sheet());
        }
    }
}
