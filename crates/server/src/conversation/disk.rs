//! A conversation that would have to wait for the disk, in a worker that must not: it asks for a [`Job`], is
//! left alone until somebody has done that, and goes on.
//!
//! Meanwhile its client's time does not run, nothing is read from its socket, and a connection that breaks is
//! noticed. But the server's own patience has an end, or a disk that hangs would hold whoever asks for it: a
//! request is answered without what is not to be had, and a reply is broken off. A client that has hung up is
//! let go the first time that the wait is looked at: it may be gone, and whoever only half-closed pays for it
//! where the disk is as slow as that. The job is left to itself.

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
    /// Tells this wait from others, also of other conversations.
    ticket: u64,
    /// What is to be done, until somebody has taken it on.
    job: Option<Job>,
    /// It has been done, or will not be.
    is_over: bool,
    /// When it is to be looked at next, and when given up.
    look_at: Tick,
    give_up_at: Tick,
    until: Until,
}

#[derive(Debug)]
enum Until {
    /// It has been looked at what a request asks for.
    LookedUp(Deferred),
    /// This window of the file that is being sent is in memory.
    Fetched { window: u64 },
}

/// A request that can't be answered yet.
#[derive(Debug)]
struct Deferred {
    owed: Owed,
    looked: Prefetched,
}

/// What a client is owed.
#[derive(Debug)]
pub(super) enum Owed {
    /// The reply to a request, of which this was consumed with its head.
    Reply { consumed: Vec<u8>, terms: Terms },
    /// The answer to a breach of the protocol, by a request for that site.
    Refusal((SiteNumber, ProtocolError)),
    /// What an application has named, in reply to a request of which this was consumed with its head.
    Named { consumed: Vec<u8>, terms: Terms, named: Box<Named> },
    /// What an application of that site has not answered: this status, for that path.
    Error((SiteNumber, Status, Box<[u8]>), Terms),
}

impl Waiting {
    /// Whether what is waited for is done, or won't be.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }
}

impl Conversation {
    /// Whether it waits for the disk, and for which job.
    pub fn waits_for_disk(&self) -> Option<u64> {
        self.exchange.disk().filter(|waiting| !waiting.is_over).map(|waiting| waiting.ticket)
    }

    /// The job that it waits for has been done. What a look found is taken note of, before the table changes
    /// again.
    pub fn disk_is_done(&mut self, service: &mut Service, found: Option<(&Lookup<'_>, &Admitted)>) {
        let Some(waiting) = self.exchange.disk_mut() else { return };
        waiting.is_over = true;
        if let (Until::LookedUp(deferred), Some((look, found))) = (&mut waiting.until, found) {
            service.content.keep(&mut deferred.looked, look, found);
        }
    }

    /// The job that it waits for won't be done in time.
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

    /// When its wait is to be looked at, if it waits for the disk.
    pub(super) fn looks_after_wait_at(&self) -> Option<Tick> {
        self.exchange.disk().filter(|waiting| !waiting.is_over).map(|waiting| waiting.look_at)
    }

    /// It has waited for a while, or for too long.
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

    /// The connection is broken that waits for the disk.
    pub fn breaks_off_wait(&mut self, service: &mut Service) {
        service.counters.reset(Reset::Peer);
        self.machine.send_failed();
    }

    /// What is to be done so that it can go on, once for each wait.
    pub fn take_job(&mut self) -> Option<Job> {
        self.exchange.disk_mut()?.job.take()
    }

    /// Goes on where it had to wait. Says which window of the file that is being sent is in memory, if that
    /// was waited for.
    pub fn go_on(&mut self, service: &mut Service, line: Line<'_>) -> Option<u64> {
        let pause = *self.exchange.waiting.take()?;
        let Pause::Disk(waiting) = pause else { unreachable!("an application is seen to first") };
        self.machine.resume(service.clock.tick);
        match waiting.until {
            // Whatever has become of the window since then: a reply that is always overtaken would never end.
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

    /// Puts by what is owed until it has been looked at what it takes.
    pub(super) fn defer(
        &mut self,
        service: &mut Service,
        owed: Owed,
        looked: Prefetched,
        look: Box<Lookup<'static>>,
    ) {
        self.wait(service, Job::Lookup(look), Until::LookedUp(Deferred { owed, looked }));
    }

    /// Waits for a part of the file that is being sent.
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

    /// Gives back what it holds while it waits.
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

/// Ticks until a wait is looked at.
fn look_after(service: &Service) -> u32 {
    (service.disk_timeout_ticks / helpers::LOOKS).max(1)
}
