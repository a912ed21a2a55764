//! Waiting for the disk in a worker that must not block. The conversation asks for a [`Job`], is left
//! alone until that has been done, and then continues.
//!
//! Meanwhile its client's timeouts do not run, nothing is read from its socket, and a broken connection
//! is noticed. But the server does not wait forever. Otherwise a disk that hangs would hold every client
//! that asks for it. After a timeout, a request is answered without what could not be read, and a reply
//! is broken off.
//!
//! A client that has hung up is disconnected the first time that the wait is checked, because it may be
//! gone. A client that has only half-closed loses its reply then, but only if the disk is that slow. The
//! job continues by itself.

use std::io;

use http1::{Head, ProtocolError, Status, Terms, Tick};

use super::send::Unsent;
use super::turn::{Next, Turn};
use super::{Conversation, Pause};
use crate::content::{Admitted, Fetch, Lookup, Named, Prefetched, SiteNumber};
use crate::counters::{DiskWait, Reset};
use crate::handed_send::{HandedSend, Sent};
use crate::helpers::{self, Job};
use crate::line::Line;
use crate::service::Service;

/// What a conversation waits for.
#[derive(Debug)]
pub(super) struct Waiting {
    /// Distinguishes this wait from others, also of other conversations.
    ticket: u64,
    /// The job to be done, until it has been taken.
    job: Option<Job>,
    /// The job has been done, or will not be.
    is_over: bool,
    /// When to check the wait next, and when to give it up.
    look_at: Tick,
    give_up_at: Tick,
    until: Until,
}

/// What a wait that is over was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitedFor {
    /// This window of the file that is being sent. It is in memory now.
    Window(u64),
    /// Room in the client's socket, which a helper has not found.
    Room,
    /// Something else.
    Else,
}

#[derive(Debug)]
enum Until {
    /// The lookup for a request has been made.
    LookedUp(Deferred),
    /// This window of the file being sent is in memory.
    Fetched { window: u64 },
    /// A helper has sent. `None`: it is about to.
    Sent(Option<Sent>),
}

/// A request that cannot be answered yet.
#[derive(Debug)]
struct Deferred {
    owed: Owed,
    looked: Prefetched,
}

/// What a client is owed.
#[derive(Debug)]
pub(super) enum Owed {
    /// The reply to a request. `consumed` are the bytes of its head.
    Reply { consumed: Vec<u8>, terms: Terms },
    /// The answer to a breach of the protocol by a request for this site.
    Refusal((SiteNumber, ProtocolError)),
    /// What an application has named, in reply to a request. `consumed` are the bytes of its head.
    Named { consumed: Vec<u8>, terms: Terms, named: Box<Named> },
    /// An error, because an application of this site has not answered: this status, for this path.
    Error((SiteNumber, Status, Box<[u8]>), Terms),
}

impl Waiting {
    /// Whether the job is done, or will not be.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }
}

impl Conversation {
    /// The job that the conversation waits for, if it waits for the disk.
    pub fn waits_for_disk(&self) -> Option<u64> {
        self.exchange.disk().filter(|waiting| !waiting.is_over).map(|waiting| waiting.ticket)
    }

    /// The job has been done. Records what a lookup found, before the table changes again.
    pub fn disk_is_done(&mut self, service: &mut Service, found: Option<(&Lookup<'_>, &Admitted)>) {
        let Some(waiting) = self.exchange.disk_mut() else { return };
        waiting.is_over = true;
        if let (Until::LookedUp(deferred), Some((look, found))) = (&mut waiting.until, found) {
            service.content.keep(&mut deferred.looked, look, found);
        }
    }

    /// A helper has sent a part of the reply, or has tried to.
    pub fn send_is_done(&mut self, sent: Sent) {
        let Some(waiting) = self.exchange.disk_mut() else { return };
        waiting.is_over = true;
        waiting.until = Until::Sent(Some(sent));
    }

    /// The job will not be done in time.
    pub fn disk_has_failed(&mut self, service: &mut Service) {
        let Some(waiting) = self.exchange.disk_mut() else { return };
        waiting.is_over = true;
        match &mut waiting.until {
            Until::LookedUp(deferred) => {
                service.counters.disk_wait_given_up(DiskWait::Request);
                deferred.looked.give_up();
            }
            Until::Fetched { .. } | Until::Sent(_) => {
                service.counters.disk_wait_given_up(DiskWait::Reply);
                self.machine.abort();
            }
        }
    }

    /// When to check the wait next, if the conversation waits for the disk.
    pub(super) fn looks_after_wait_at(&self) -> Option<Tick> {
        // A send has an end of its own. Until it is begun, others are ahead of it.
        let is_checked = |waiting: &&Waiting| !waiting.is_over && !matches!(waiting.until, Until::Sent(_));
        self.exchange.disk().filter(is_checked).map(|waiting| waiting.look_at)
    }

    /// Checks the wait. Gives it up if the client has hung up or if it has lasted too long.
    pub(super) fn look_after_wait(&mut self, service: &mut Service, line: Line<'_>) -> Option<Next> {
        let now = service.clock.tick;
        if line.has_hung_up() {
            service.counters.disk_wait_given_up(DiskWait::HalfClosed);
            self.machine.send_failed();
            return Some(Next::Turn(Turn::Close));
        }
        let waiting = self.exchange.disk_mut()?;
        if waiting.give_up_at.reached(now) {
            self.disk_has_failed(service);
            return Some(Next::Receive);
        }
        waiting.look_at = now.after(look_after(service)).earlier(waiting.give_up_at);
        None
    }

    /// The connection has broken during the wait.
    pub fn breaks_off_wait(&mut self, service: &mut Service) {
        service.counters.reset(Reset::Peer);
        self.machine.send_failed();
    }

    /// Takes the job of a wait. Each wait has one.
    pub fn take_job(&mut self) -> Option<Job> {
        self.exchange.disk_mut()?.job.take()
    }

    /// Continues after the wait. Returns what it was for, as far as that matters to what follows.
    pub fn go_on(&mut self, service: &mut Service, line: Line<'_>) -> WaitedFor {
        if !self.owes_something() {
            self.stop_waiting(service);
            return WaitedFor::Else;
        }
        let Some(pause) = self.exchange.waiting.take().map(|pause| *pause) else { return WaitedFor::Else };
        let Pause::Disk(waiting) = pause else { unreachable!("an application is seen to first") };
        let now = service.clock.tick;
        let waited_for_client = match &waiting.until {
            Until::Sent(Some(sent)) => sent.waited_ms / Tick::MS,
            _ => 0,
        };
        self.machine.resume(now.before(waited_for_client));
        match waiting.until {
            Until::Sent(sent) => return self.helper_has_sent(service, sent),
            // Even if the window has left memory since. Otherwise a reply that is always overtaken would
            // never end.
            Until::Fetched { window } => return WaitedFor::Window(window),
            Until::LookedUp(Deferred { owed: Owed::Refusal(breach), looked }) => {
                self.answer_breach(service, breach, Some(looked));
            }
            Until::LookedUp(Deferred { owed: Owed::Reply { consumed, terms }, looked }) => {
                match Head::again(&consumed, terms) {
                    Some(head) => self.answer_with(service, line, &head, (&consumed, looked)),
                    None => self.machine.abort(),
                }
                service.buffers.give(consumed);
            }
            Until::LookedUp(Deferred { owed: Owed::Named { consumed, terms, named }, looked }) => {
                self.answer_with_named(service, (consumed, terms), named, Some(looked));
            }
            Until::LookedUp(Deferred { owed: Owed::Error((site, status, path), terms), looked }) => {
                self.answer_error(service, (site, status, &path), terms, Some(looked));
            }
        }
        WaitedFor::Else
    }

    /// Saves what is owed until a lookup has been made.
    pub(super) fn defer(
        &mut self,
        service: &mut Service,
        owed: Owed,
        looked: Prefetched,
        look: Box<Lookup<'static>>,
    ) {
        self.wait(service, Job::Lookup(look), Until::LookedUp(Deferred { owed, looked }));
    }

    /// Waits for a part of the file being sent.
    pub(super) fn await_window(&mut self, service: &mut Service, fetch: Fetch) {
        let window = fetch.window;
        self.wait(service, Job::Fetch(fetch), Until::Fetched { window });
    }

    /// Waits for a helper that sends a part of the reply.
    pub(super) fn await_send(&mut self, service: &mut Service, send: HandedSend) {
        self.wait(service, Job::Send(send), Until::Sent(None));
    }

    /// Goes on after a helper has sent. It has not begun to if there was no time.
    fn helper_has_sent(&mut self, service: &mut Service, sent: Option<Sent>) -> WaitedFor {
        match sent.map(|sent| sent.result) {
            Some(Ok(0)) => self.not_sent(service, Unsent::Changed),
            Some(Ok(count)) => {
                self.sent(service, count);
                self.carry_over();
            }
            Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                self.carry_over();
                return WaitedFor::Room;
            }
            Some(Err(error)) => self.not_sent(service, Unsent::Broken(error)),
            None => {}
        }
        WaitedFor::Else
    }

    /// Whether a helper sends a part of the reply, or is about to.
    pub fn awaits_send(&self) -> bool {
        self.exchange.disk().is_some_and(|waiting| matches!(waiting.until, Until::Sent(None)))
    }

    fn wait(&mut self, service: &mut Service, job: Job, until: Until) {
        let now = service.clock.tick;
        self.machine.stall(now);
        let ticket = service.next_ticket();
        let (look_at, give_up_at) = (now.after(look_after(service)), now.after(service.disk_timeout_ticks));
        let job = Some(job);
        self.exchange.waiting =
            Some(Box::new(Pause::Disk(Waiting { ticket, job, is_over: false, look_at, give_up_at, until })));
    }

    /// Gives back what the conversation holds while it waits.
    pub(super) fn stop_waiting(&mut self, service: &mut Service) {
        match self.exchange.waiting.take().map(|pause| *pause) {
            Some(Pause::Disk(Waiting { until: Until::LookedUp(deferred), .. })) => {
                service.content.unkeep(deferred.looked);
                if let Owed::Reply { consumed, .. } | Owed::Named { consumed, .. } = deferred.owed {
                    service.buffers.give(consumed);
                }
            }
            Some(Pause::Application(application)) => {
                self.machine.resume(service.clock.tick);
                application.leave(service);
            }
            Some(Pause::Disk(_)) | None => {}
        }
    }
}

/// Ticks until a wait is checked.
fn look_after(service: &Service) -> u32 {
    (service.disk_timeout_ticks / helpers::LOOKS).max(1)
}
