//! A conversation whose request an application answers: it brings the [relay](Relay) what comes of the
//! client, and sends the client what comes of the relay.
//!
//! The connection's state machine has announced the request and waits for its answer meanwhile. It reads the
//! body; the reply is the relay's own. A client that hangs up is taken to have left: whether it only shut
//! down its own side can't be told, and an application had better not work for nobody.

use std::os::fd::{AsFd, BorrowedFd};

use http1::{Head, OpenReply, ProtocolError, Status, Step, Terms, Tick, TimerKind};

use super::disk::Owed;
use super::receive::Input;
use super::turn::{Next, Turn};
use super::{Conversation, Pause};
use crate::content::{Call, NamedFile, Pin, Prefetched, SiteNumber};
use crate::counters::Failure as Failed;
use crate::gateway::{Asker, Failure, Link, Relay};
use crate::service::Service;

/// How often it is looked whether a client is still there that nothing else is heard of.
const LOOK_TICKS: u32 = 250 / Tick::MS;

/// What asks for a body (RFC 9110 section 15.2.1).
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// What is logged of a request whose client has left before the reply: as others do, who made it up.
const CLIENT_LEFT: Status = Status(499);

/// A relay, and when it is looked after its client.
#[derive(Debug)]
pub(super) struct Application {
    relay: Relay,
    look_at: Tick,
    /// What is left to be sent before the reply.
    interim: &'static [u8],
}

/// Why a client gets no reply of the application's, or no more of it.
enum Trouble {
    /// Its body is none.
    Body(ProtocolError),
    /// The application's doing.
    Application(Failure),
    /// It is to get this file instead.
    Named(Box<NamedFile>),
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
        let now = service.clock.tick;
        let client = service.proxies.client(&self.peer, head.fields).unwrap_or(self.peer);
        let asker = Asker {
            client,
            local: sys::socket::local_address(self.socket.as_fd()).ok(),
            is_trusted: service.proxies.speaks_for_others(&self.peer),
        };
        let mut kept = service.buffers.take();
        kept.extend_from_slice(consumed);
        let owed = (call.site, head.terms);
        match Relay::new(&service.gateway, call, (kept, head.terms), asker, now) {
            Ok(relay) => {
                let application = Application { relay, look_at: now.after(LOOK_TICKS), interim: b"" };
                self.exchange.waiting = Some(Box::new(Pause::Application(Box::new(application))));
            }
            Err(failure) => {
                let request = String::from_utf8_lossy(head.target).into_owned();
                self.answer_failure(service, &failure, &request, owed);
            }
        }
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
        loop {
            let (gateway, mut tools) = service.gateway_and_tools(scratch, &mut share);
            application.relay.note_client(!self.writable);
            let was_writable = self.writable;
            application.relay.work(gateway, &mut tools)?;
            if let Some(file) = application.relay.take_named() {
                return Err(Trouble::Named(file));
            }
            let sent = self.send_reply(service, application)?;
            if application.relay.reply().is_some_and(|reply| reply.is_complete()) {
                return Ok(None);
            }
            share = share.saturating_sub(sent);
            if share == 0 {
                return Ok(Some(Turn::Unfinished));
            }
            // What was sent may have made room for more, and so may a client that turns out to be slow.
            if sent == 0 && self.writable == was_writable {
                return Ok(Some(Turn::Application));
            }
        }
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
            if !self.machine.is_reading_body() {
                break match application.relay.end_body(&service.gateway, service.clock.tick) {
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
            let Some(reply) = application.relay.reply().filter(|reply| !reply.unsent().is_empty()) else {
                break;
            };
            let sent = self.send_now(service, reply.unsent())?;
            reply.sent(sent);
            gone += sent as u64;
        }
        Ok(gone)
    }

    /// Sends what there is room for, also where sends block.
    fn send_now(&mut self, service: &mut Service, bytes: &[u8]) -> Result<usize, Trouble> {
        match sys::socket::send_at_once(self.socket.as_fd(), bytes) {
            Ok(sent) => {
                service.counters.bytes_sent.add(sent as u64);
                Ok(sent)
            }
            Err(error) => match error.kind() {
                std::io::ErrorKind::WouldBlock => {
                    self.writable = false;
                    Ok(0)
                }
                std::io::ErrorKind::Interrupted => Ok(0),
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
        let Some(reply) = application.end(service) else { return };
        let (status, sent) = (reply.status(), reply.body_sent());
        self.machine.returned(&service.limits, service.clock.tick, reply.is_persistent());
        self.exchange.end(service, status, sent);
        service.counters.reply(status.0);
        service.take_sheet(reply.into_sheet());
        self.carried_over = true;
    }

    /// There will be no reply of the application's, or no more of it.
    fn give_application_up(&mut self, service: &mut Service, application: Application, trouble: Trouble) {
        let (request, owed) = (application.relay.request(), application.relay.owed());
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
        match (trouble, begun) {
            (Trouble::Named(file), _) => {
                return self.answer_with_file(service, (consumed, owed.1), file, None);
            }
            (Trouble::Body(error), _) => self.refuse(service, (owed.0, error)),
            (Trouble::Application(failure), None) => self.answer_failure(service, &failure, &request, owed),
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

    /// Answers with a file that the application has named, which has been looked at as told, or puts the
    /// answer by until more has been. The request is one of which this was consumed with its head.
    pub(super) fn answer_with_file(
        &mut self,
        service: &mut Service,
        (consumed, terms): (Vec<u8>, Terms),
        file: Box<NamedFile>,
        looked: Option<Prefetched>,
    ) {
        let Some(head) = Head::again(&consumed, terms) else { return self.machine.abort() };
        match service.answer_with_file(&head, &file, looked.as_ref()) {
            Ok(plan) => {
                self.respond(service, plan, looked);
                service.buffers.give(consumed);
            }
            Err(look) => {
                let owed = Owed::File { consumed, terms, file };
                self.defer(service, owed, looked.unwrap_or_default(), look);
            }
        }
    }

    /// Answers a request that the application has not.
    fn answer_failure(
        &mut self,
        service: &mut Service,
        failure: &Failure,
        request: &str,
        (site, terms): (SiteNumber, Terms),
    ) {
        service.gateway.complain(service.clock.ms, request, failure);
        self.answer_error(service, (site, failure.status()), terms, None);
    }

    /// When it is to be looked at that has an application at work.
    pub(super) fn application_deadline(&self) -> Option<Tick> {
        let application = self.exchange.application()?;
        let deadline = application.relay.deadline().unwrap_or(application.look_at);
        Some(deadline.earlier(application.look_at))
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
        application.look_at = now.after(LOOK_TICKS);
        application.relay.expire(&mut service.gateway, now)?;
        if sys::socket::has_hung_up(self.socket.as_fd()) {
            return Err(Trouble::Gone);
        }
        if application.relay.reply().is_some_and(|reply| reply.is_too_slow(&service.limits, now)) {
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

    /// Whether its request waits in a pool's queue, and whether it has come to go.
    pub fn queued(&self, service: &Service) -> Option<bool> {
        let relay = &self.exchange.application()?.relay;
        relay.is_queued().then(|| relay.may_go(&service.gateway))
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
