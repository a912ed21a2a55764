//! A conversation whose request an application answers: it brings the [relay](Relay) what comes of the
//! client, and sends the client what comes of the relay.
//!
//! The connection's state machine has announced the request and waits for its answer meanwhile. It reads the
//! body; the reply is the relay's own. A client that hangs up is taken to have left: whether it only shut
//! down its own side can't be told, and an application had better not work for nobody.
//!
//! A client may be lent to the application for its reply. Then nothing is read from it or sent to it, and
//! nobody watches it but for its end. Whether the application has kept a copy of the socket can't be known,
//! and such a copy can read and write whatever follows. So what follows is for that site and that application
//! alone: whoever asks for another is told to come on another connection (421, RFC 9110 section 15.5.20). And
//! where the connection ends, it is shut down or reset by name: closing a socket that others have is no end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use http1::{End, Head, Method, OpenReply, ProtocolError, Run, Status, Step, Terms, Tick, TimerKind};
use sys::socket::Slice;

use super::disk::Owed;
use super::receive::Input;
use super::turn::{Next, Turn};
use super::{Conversation, Pause};
use crate::content::{Call, Named, Pin, Prefetched, SiteNumber};
use crate::counters::Failure as Failed;
use crate::gateway::{Afterwards, Area, Asker, Failure, Lendable, Link, Relay};
use crate::service::Service;

/// Most runs of a reply in one call: as many as come in a read of some chunks.
const GATHER: usize = 16;

/// How often it is looked after a client of whose leaving nobody would tell, and whose turn in a queue may
/// have come.
const LOOK_TICKS: u32 = 250 / Tick::MS;

/// What asks for a body (RFC 9110 section 15.2.1).
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A body of which less is awaited is received with what may follow it.
const WORTH_A_CALL: usize = 16 << 10;

/// How often something may be heard of a client that is lent before it is not watched any more. Once is
/// usual: it has the reply, and asks again, before the application has said so.
const MOST_DISTURBANCES: u8 = 2;

/// What is logged of a request whose client has left before the reply: as others do, who made it up.
const CLIENT_LEFT: Status = Status(499);

/// A relay, and when it is looked after its client, if no event would tell that it has left.
#[derive(Debug)]
pub(super) struct Application {
    relay: Relay,
    look_at: Option<Tick>,
    /// What is left to be sent before the reply.
    interim: &'static [u8],
    /// How often something was heard of the client while it was lent.
    disturbances: u8,
}

/// Whom a client has been lent to, which may have kept a copy.
#[derive(Debug)]
pub(super) struct LentTo {
    site: SiteNumber,
    pool: Arc<str>,
}

/// Why a client gets no reply of the application's, or no more of it.
enum Trouble {
    /// Its body is none.
    Body(ProtocolError),
    /// The application's doing.
    Application(Failure),
    /// It is to get this instead.
    Named(Box<Named>),
    /// It is gone.
    Gone,
    /// It takes its reply too slowly.
    Slow,
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Application(failure)
    }
}

impl Conversation {
    /// Has an application answer the request that was announced with this head.
    #[cold]
    pub(super) fn call(&mut self, service: &mut Service, call: Box<Call>, head: &Head<'_>, consumed: &[u8]) {
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
            origin: service.proxies.origin(&self.peer, self.announced.as_deref(), head.fields),
            local: sys::socket::local_address(self.socket.as_fd()).ok(),
        };
        let mut kept = service.buffers.take();
        kept.extend_from_slice(consumed);
        let owed = (call.site, head.terms);
        match Relay::new(&service.gateway, call, (kept, head), asker, now) {
            Ok(relay) => {
                let look_at = (!service.hears_hang_ups).then(|| now.after(LOOK_TICKS));
                let application = Application { relay, look_at, interim: b"", disturbances: 0 };
                self.exchange.waiting = Some(Box::new(Pause::Application(Box::new(application))));
            }
            Err(failure) => {
                let request = String::from_utf8_lossy(head.target).into_owned();
                self.answer_failure(service, &failure, &request, owed, head.path);
            }
        }
    }

    /// Whether a request may be answered on a connection that has been lent. If not, it is refused.
    #[cold]
    pub(super) fn is_directed(&mut self, service: &mut Service, head: &Head<'_>) -> bool {
        let site = service.content.site_of(head);
        let is_directed = self.lent_to.as_ref().is_none_or(|lent_to| lent_to.site == site);
        if !is_directed {
            self.misdirect(service, site, head);
        }
        is_directed
    }

    fn misdirect(&mut self, service: &mut Service, site: SiteNumber, head: &Head<'_>) {
        let terms = Terms { persistent: false, ..head.terms };
        self.answer_error(service, (site, Status::MISDIRECTED_REQUEST, head.path), terms, None);
    }

    /// Goes on with the application, if that is what it waits for. `None`: it is over, or something else is.
    #[cold]
    pub(super) fn attend_application(&mut self, service: &mut Service) -> Option<Turn> {
        let mut application = self.take_application()?;
        self.active = service.clock.tick;
        let mut scratch = std::mem::take(&mut service.scratch);
        let turn = self.attend(service, &mut application, &mut scratch);
        service.scratch = scratch;
        match turn {
            Ok(None) => {
                self.end_application(service, *application);
                None
            }
            Ok(Some(turn)) => {
                self.exchange.waiting = Some(Box::new(Pause::Application(application)));
                Some(turn)
            }
            Err(trouble) => {
                self.give_application_up(service, *application, trouble);
                None
            }
        }
    }

    /// The application, if that is what it waits for.
    fn take_application(&mut self) -> Option<Box<Application>> {
        match *self.exchange.waiting.take()? {
            Pause::Application(application) => Some(application),
            other @ Pause::Disk(_) => {
                self.exchange.waiting = Some(Box::new(other));
                None
            }
        }
    }

    /// Works on both sides until something would block, the reply is sent (`None`), or its share is used.
    fn attend(
        &mut self,
        service: &mut Service,
        application: &mut Application,
        scratch: &mut [u8],
    ) -> Result<Option<Turn>, Trouble> {
        let mut share = service.quantum;
        if self.hung_up && sys::socket::has_hung_up(self.socket.as_fd()) {
            return Err(Trouble::Gone);
        }
        if application.relay.awaits_body() && !self.take_body(service, application, scratch, &mut share)? {
            return Ok(Some(if self.readable { Turn::Unfinished } else { Turn::Application }));
        }
        // Not everybody hears of it who waits for others.
        if application.relay.may_go(&service.gateway) && sys::socket::has_hung_up(self.socket.as_fd()) {
            return Err(Trouble::Gone);
        }
        if application.relay.is_lent() && !application.relay.has_input() {
            application.disturbances = application.disturbances.saturating_add(1);
        }
        loop {
            let client = Some(self.lendable()).filter(|_| application.interim.is_empty());
            let (gateway, mut tools) = service.gateway_and_tools(scratch, &mut share, client);
            application.relay.note_client(!self.writable);
            let was_writable = self.writable;
            let worked = application.relay.work(gateway, &mut tools);
            if application.relay.has_lent() {
                self.note_lent(&application.relay, worked.is_err())?;
                // Who is lent may not be watched.
                application.look_at.get_or_insert(service.clock.tick.after(LOOK_TICKS));
            }
            worked?;
            if application.relay.returned().is_some() {
                return Ok(None);
            }
            if let Some(named) = application.relay.take_named() {
                return Err(Trouble::Named(named));
            }
            let sent = self.send_reply(service, application)?;
            if application.relay.reply().is_some_and(|reply| reply.is_complete()) {
                return Ok(None);
            }
            share = share.saturating_sub(sent);
            if share == 0 {
                // One that always has more to do may never come to where deadlines are looked at.
                let now = service.clock.tick;
                if application.deadline().is_some_and(|deadline| deadline.reached(now)) {
                    self.look_after_application(service, application)?;
                }
                return Ok(Some(Turn::Unfinished));
            }
            // What was sent may have made room for more, and so may a client that turns out to be slow.
            if sent == 0 && self.writable == was_writable {
                return Ok(Some(Turn::Application));
            }
        }
    }

    fn lendable(&self) -> Lendable<'_> {
        Lendable { socket: self.socket.as_fd(), blocks: self.blocks }
    }

    /// Takes note of having been lent. What goes wrong then may be its own end.
    fn note_lent(&mut self, relay: &Relay, has_failed: bool) -> Result<(), Trouble> {
        if self.lent_to.is_none() {
            let (site, _) = relay.owed();
            self.lent_to = Some(Box::new(LentTo { site, pool: Arc::clone(relay.pool()) }));
        }
        if has_failed && sys::socket::has_hung_up(self.socket.as_fd()) {
            return Err(Trouble::Gone);
        }
        Ok(())
    }

    /// Takes the request's body in; says whether it is complete.
    fn take_body(
        &mut self,
        service: &mut Service,
        application: &mut Application,
        scratch: &mut [u8],
        share: &mut u64,
    ) -> Result<bool, Trouble> {
        if let Some(is_persistent) = self.machine.invite_body() {
            application.relay.set_persistent(is_persistent);
            application.interim = CONTINUE;
        }
        self.send_interim(service, application)?;
        let mut input = Input::new(scratch);
        input.take_up(&mut self.rest);
        let taken = loop {
            if input.is_used_up() && self.receive_body(service, application, share) {
                continue;
            }
            if !self.machine.is_reading_body() {
                break match application.relay.end_body(&mut service.gateway, service.clock.tick) {
                    Ok(()) => Ok(true),
                    Err(failure) => Err(failure.into()),
                };
            }
            let unused = input.unused();
            match self.machine.receive(&service.limits, service.clock.tick, unused, self.eof) {
                Ok((used, step)) => {
                    let needs_input = matches!(step, Step::NeedInput);
                    let taken = match step {
                        Step::Body(range) => {
                            let left = self.machine.body_left();
                            application.relay.take_body(&mut service.gateway, &unused[range], left)
                        }
                        _ => Ok(()),
                    };
                    input.use_up(used);
                    if let Err(failure) = taken {
                        break Err(failure.into());
                    }
                    if needs_input
                        && (*share == 0 || !self.readable || !self.read(service, &mut input, share))
                    {
                        break Ok(false);
                    }
                }
                Err(error) => break Err(Trouble::Body(error)),
            }
        };
        self.rest_unseen = !input.is_used_up();
        self.keep(service, &input);
        if self.machine.wants_end() != http1::End::Open {
            return Err(Trouble::Gone);
        }
        taken
    }

    /// Receives what can only be body where it is kept. `false`: there is no room there, or nothing to be
    /// had.
    fn receive_body(
        &mut self,
        service: &mut Service,
        application: &mut Application,
        share: &mut u64,
    ) -> bool {
        if !self.readable || *share == 0 || !self.machine.is_reading_body() {
            return false;
        }
        let left = self.machine.body_left().unwrap_or(0).min(*share);
        let Some(body) = application.relay.room_for_body() else { return false };
        let have = body.len();
        let room = (body.capacity() - have).min(usize::try_from(left).unwrap_or(usize::MAX));
        if room < WORTH_A_CALL {
            return false;
        }
        // An end or a fault is met again by who takes it up.
        let Ok(count @ 1..) = sys::socket::recv_behind(self.socket.as_fd(), body, room) else { return false };
        let (mut used, eof) = (have, self.eof);
        while used < body.len() {
            match self.machine.receive(&service.limits, service.clock.tick, &body[used..], eof) {
                Ok((more, _)) if more > 0 => used += more,
                // It is body to its last byte.
                _ => return false,
            }
        }
        application.relay.has_received(count);
        // Behind descriptors there may be more.
        self.readable = count == room || self.is_local || self.hung_up;
        *share -= count as u64;
        service.counters.bytes_received.add(count as u64);
        true
    }

    fn send_interim(&mut self, service: &mut Service, application: &mut Application) -> Result<(), Trouble> {
        while self.writable && !application.interim.is_empty() {
            let sent = self.send_now(service, application.interim)?;
            application.interim = &application.interim[sent..];
        }
        Ok(())
    }

    /// Sends what there is of the reply, and says how many bytes are gone.
    fn send_reply(&mut self, service: &mut Service, application: &mut Application) -> Result<u64, Trouble> {
        self.send_interim(service, application)?;
        let mut gone = 0;
        while self.writable && application.interim.is_empty() {
            let Some((reply, area)) = application.relay.outgoing().filter(|(reply, _)| reply.left() > 0)
            else {
                break;
            };
            let sent = match area {
                None => self.send_now(service, reply.unsent())?,
                Some(area) => self.send_from_area(service, reply, area)?,
            };
            if let Some(reply) = application.relay.reply() {
                reply.sent(sent as u64);
            }
            gone += sent as u64;
        }
        Ok(gone)
    }

    /// Sends what there is room for of a reply of which a part lies in memory that is shared.
    fn send_from_area(
        &mut self,
        service: &mut Service,
        reply: &OpenReply<Pin>,
        area: &Area,
    ) -> Result<usize, Trouble> {
        let sent = match area.pages() {
            None => {
                let (mut slices, mut count) = ([Slice::EMPTY; GATHER], 0);
                for run in reply.runs().take(GATHER) {
                    slices[count] = match run {
                        Run::Own(bytes) => Slice::new(bytes),
                        Run::Elsewhere(range) => area.slice(&range),
                    };
                    count += 1;
                }
                sys::socket::send_slices_at_once(self.socket.as_fd(), &slices[..count])
            }
            Some(pages) => self.send_pages(reply, pages),
        };
        self.take_in_sent(service, sent)
    }

    /// Sends the next run: bytes, or pages that the kernel sends themselves, for which the socket must not
    /// block.
    fn send_pages(&mut self, reply: &OpenReply<Pin>, pages: BorrowedFd<'_>) -> io::Result<usize> {
        if std::mem::take(&mut self.blocks) {
            sys::socket::set_nonblocking(self.socket.as_fd(), true)?;
        }
        let mut runs = reply.runs();
        match runs.next() {
            None => Ok(0),
            Some(Run::Own(bytes)) if runs.next().is_some() => {
                sys::socket::send_more(self.socket.as_fd(), &[Slice::new(bytes)])
            }
            Some(Run::Own(bytes)) => sys::socket::send_at_once(self.socket.as_fd(), bytes),
            Some(Run::Elsewhere(range)) => {
                let (mut offset, count) = (range.start, (range.end - range.start) as usize);
                sys::socket::send_file(self.socket.as_fd(), pages, &mut offset, count)
            }
        }
    }

    /// Sends what there is room for, also where sends block.
    fn send_now(&mut self, service: &mut Service, bytes: &[u8]) -> Result<usize, Trouble> {
        let sent = sys::socket::send_at_once(self.socket.as_fd(), bytes);
        self.take_in_sent(service, sent)
    }

    fn take_in_sent(&mut self, service: &mut Service, sent: io::Result<usize>) -> Result<usize, Trouble> {
        match sent {
            Ok(sent) => {
                service.counters.bytes_sent.add(sent as u64);
                Ok(sent)
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => {
                    self.writable = false;
                    Ok(0)
                }
                io::ErrorKind::Interrupted => Ok(0),
                _ => {
                    self.broken(service, &error, Failed::Send);
                    Err(Trouble::Gone)
                }
            },
        }
    }

    /// The reply is sent: the connection goes on, or ends.
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

    /// There will be no reply of the application's, or no more of it.
    fn give_application_up(&mut self, service: &mut Service, mut application: Application, trouble: Trouble) {
        let (request, mut owed) = (application.relay.request(), application.relay.owed());
        let mut spoilt = None;
        if let Trouble::Application(failure) = &trouble {
            match application.relay.afterwards(self.lendable(), failure, &service.gateway) {
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
        // Of a reply that nobody has seen any of, nothing has to be kept.
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
            (Trouble::Body(error), _) => self.refuse(service, (owed.0, error)),
            (Trouble::Application(failure), None) => {
                // Without its head it is answered all the same.
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

    /// Answers with what the application has named, which has been looked at as told, or puts the answer by
    /// until more has been. The request is one of which this was consumed with its head.
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

    /// Answers a request for that path that the application has not.
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

    /// When it is to be looked at that has an application at work.
    pub(super) fn application_deadline(&self) -> Option<Tick> {
        self.exchange.application()?.deadline()
    }

    /// A deadline has come while an application is at work. `None`: ask for the deadline again.
    pub(super) fn application_timeout(&mut self, service: &mut Service) -> Option<Next> {
        let mut application = self.take_application()?;
        match self.look_after_application(service, &mut application) {
            Ok(()) => self.exchange.waiting = Some(Box::new(Pause::Application(application))),
            Err(trouble) => self.give_application_up(service, *application, trouble),
        }
        // Another server may be due.
        Some(Next::Receive)
    }

    fn look_after_application(
        &mut self,
        service: &mut Service,
        application: &mut Application,
    ) -> Result<(), Trouble> {
        let now = service.clock.tick;
        let is_slow = application.relay.look_after_loan(self.lendable(), &service.limits, now);
        application.relay.expire(&mut service.gateway, now)?;
        if let Some(look_at) = &mut application.look_at {
            *look_at = now.after(LOOK_TICKS);
            if sys::socket::has_hung_up(self.socket.as_fd()) {
                return Err(Trouble::Gone);
            }
        }
        if is_slow || application.relay.reply().is_some_and(|reply| reply.is_too_slow(&service.limits, now)) {
            service.counters.timeout(TimerKind::Write);
            return Err(Trouble::Slow);
        }
        Ok(())
    }

    /// The site that is asked, as far as that is known: what an application is asked for, and otherwise the
    /// default one.
    pub(super) fn asked_site(&self) -> SiteNumber {
        self.exchange.application().map_or(0, |application| application.relay.owed().0)
    }

    /// Whether the client brings the body of a request for an application.
    pub(super) fn brings_body(&self) -> bool {
        self.exchange.application().is_some_and(|application| application.relay.awaits_body())
    }

    /// Ends an application's reply that the client takes its time for.
    pub(super) fn give_slow_reply_up(&mut self, service: &mut Service) {
        if self.exchange.application().is_some_and(|application| application.relay.has_output())
            && let Some(application) = self.take_application()
        {
            self.give_application_up(service, *application, Trouble::Slow);
        }
    }

    /// What the client's socket is waited for while an application is at work: input, and room.
    pub(super) fn application_waits_for(&self, application: &Application) -> (bool, bool) {
        if application.relay.is_lent() {
            return (false, false);
        }
        let has_output = !application.interim.is_empty() || application.relay.has_output();
        (application.relay.awaits_body() && !self.readable, has_output && !self.writable)
    }

    /// Whether its request is with an application, or on its way there.
    pub fn has_application(&self) -> bool {
        self.exchange.application().is_some()
    }

    /// Whether an application is at work, which is none of the client's doing.
    pub fn waits_for_application(&self) -> bool {
        let is_due = |relay: &Relay| !relay.awaits_body() && !relay.has_output();
        self.exchange.application().is_some_and(|application| is_due(&application.relay))
    }

    /// Whether the client is lent, and nothing but its end concerns anybody here. Who watches sockets need
    /// not watch it, and must not if they are told of what lasts, or more than once of it nevertheless.
    pub fn is_lent(&self, told_of_changes: bool) -> Option<bool> {
        let application = self.exchange.application().filter(|application| application.relay.is_lent())?;
        Some(told_of_changes && application.disturbances < MOST_DISTURBANCES)
    }

    /// Whether the client has been lent: somebody may have a copy of its socket.
    pub fn was_lent(&self) -> bool {
        self.lent_to.is_some()
    }

    /// Ends a connection of whose socket somebody may have a copy.
    #[cold]
    pub(super) fn end_lent(&self) {
        let is_cut_short = self.machine.wants_end() == End::Reset || self.machine.owes_answer();
        // Its client may have ended it.
        let _ = if is_cut_short {
            sys::socket::disconnect(self.socket.as_fd())
        } else {
            sys::socket::shut_down(self.socket.as_fd())
        };
    }

    /// Whether a part of an application's reply has been sent, of which there may be more.
    pub(super) fn is_passing_on(&self) -> bool {
        let outgoing = self.exchange.application().and_then(|application| application.relay.outgoing());
        outgoing.is_some_and(|(reply, _)| reply.has_begun())
    }

    /// Whether its request waits in a pool's queue.
    pub fn is_queued(&self) -> bool {
        self.exchange.application().is_some_and(|application| application.relay.is_queued())
    }

    /// Has its request called by that name, which is not 0, if it waits in a pool's queue and when it need
    /// not any more ([`Gateway::called`](crate::gateway::Gateway::called)).
    pub fn name_queued(&self, service: &Service, name: u64) {
        if let Some(application) = self.exchange.application() {
            application.relay.name(&service.gateway, name);
        }
    }

    /// The socket of that connection alone, if it waits for anything: that a server has closed would be told
    /// again and again.
    pub fn link_fd(&self) -> Option<(BorrowedFd<'_>, (bool, bool))> {
        let relay = &self.exchange.application()?.relay;
        let waits = relay.link_waits_for();
        Some((relay.link_fd().filter(|_| waits != (false, false))?, waits))
    }

    /// The connection to an application's server that is to be watched too, and for what: input, and room.
    pub fn link(&mut self) -> Option<(&mut Link, (bool, bool))> {
        let relay = &mut self.exchange.application_mut()?.relay;
        let waits = relay.link_waits_for();
        Some((relay.link()?, waits))
    }
}

impl Application {
    /// When it is to be looked at.
    fn deadline(&self) -> Option<Tick> {
        [self.relay.deadline(), self.look_at].into_iter().flatten().reduce(Tick::earlier)
    }

    /// Ends it, and gives back what there is of a reply.
    fn end(self, service: &mut Service) -> Option<OpenReply<Pin>> {
        let (consumed, reply) = self.relay.end(&mut service.gateway);
        service.buffers.give(consumed);
        reply
    }

    /// Gives up what was asked, as the connection ends.
    pub(super) fn leave(self, service: &mut Service) {
        if let Some(reply) = self.end(service) {
            service.take_sheet(reply.into_sheet());
        }
    }
}
