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

use http1::{Head, ProtocolError, Status, Terms, Tick};

use super::turn::{Next, Turn};
use super::{Conversation, Pause};
use crate::content::{Admitted, Fetch, Lookup, Named, Prefetched, SiteNumber};
use crate::counters::{DiskWait, Reset};
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

#[derive(Debug)]
enum Until {
    /// The lookup for a request has been made.
    LookedUp(Deferred),
    /// This window of the file being sent is in memory.
    Fetched { window: u64 },
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

    /// The job will not be done in time.
    pub fn disk_has_failed(&mut self, service: &mut Service) {
        let Some(waiting) = self.exchange.disk_mut() else { return };
        waiting.is_over = true;
        match &mut waiting.until {
            Until::LookedUp(deferred) => {
                service.counters.disk_wait_given_up(DiskWait::Request);
                deferred.looked.give_up();
            }
            Until::Fetched { .. } => {
                service.counters.disk_wait_given_up(DiskWait::Reply);
                self.machine.abort();
            }
        }
    }

    /// When to check the wait next, if the conversation waits for the disk.
    pub(super) fn looks_after_wait_at(&self) -> Option<Tick> {
        self.exchange.disk().filter(|waiting| !waiting.is_over).map(|waiting| waiting.look_at)
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

    /// Continues after the wait. Returns the window of the file that is now in memory, if the wait was
    /// for one.
    pub fn go_on(&mut self, service: &mut Service, line: Line<'_>) -> Option<u64> {
        let pause = *self.exchange.waiting.take()?;
        let Pause::Disk(waiting) = pause else { unreachable!("an application is seen to first") };
        self.machine.resume(service.clock.tick);
        match waiting.until {
            // Even if the window has left memory since. Otherwise a reply that is always overtaken would
            // never end.
            Until::Fetched { window } => return Some(window),
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
        None
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
            Some(Pause::Application(application)) => application.leave(service),
            Some(Pause::Disk(_)) | None => {}
        }
    }
}

/// Ticks until a wait is checked.
fn look_after(service: &Service) -> u32 {
    (service.disk_timeout_ticks / helpers::LOOKS).max(1)
}
