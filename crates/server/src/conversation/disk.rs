//! A conversation that would have to wait for the disk, in a worker that must not: it asks for a [`Job`], is left alone
//! until somebody has done that, and goes on.
//!
//! Meanwhile its client's time does not run, nothing is read from its socket, and a connection that breaks is noticed.

use std::os::fd::AsFd;

use http1::{Head, Terms};

use super::{Conversation, Sighting, Turn, Unsent};
use crate::content::{Fetch, Look, Looked, Patience, Pin};
use crate::counters::Reset;
use crate::helpers::Job;
use crate::service::Service;

/// What a conversation waits for.
#[derive(Debug)]
pub(super) struct Waiting {
    /// Tells this wait from others, also of other conversations.
    ticket: u64,
    /// What is to be done, until somebody has taken it on.
    job: Option<Job>,
    /// It has been done.
    is_over: bool,
    until: Until,
}

#[derive(Debug)]
enum Until {
    /// It has been looked at what a request asks for.
    Looked(PutBy),
    /// This window of the file that is being sent is in memory.
    Fetched { window: u64 },
}

/// A request that can't be answered yet.
#[derive(Debug)]
struct PutBy {
    /// What was consumed with its head.
    consumed: Vec<u8>,
    terms: Terms,
    looked: Looked,
}

impl Conversation {
    /// Whether it waits for the disk, and for which job.
    pub fn waits_for_disk(&self) -> Option<u64> {
        self.waiting.as_ref().filter(|waiting| !waiting.is_over).map(|waiting| waiting.ticket)
    }

    /// The job that it waits for has been done. What a look found is taken note of, before the table changes again.
    pub fn disk_is_done(&mut self, service: &mut Service, found: Option<(&Look<'_>, &Sighting)>) {
        let Some(waiting) = &mut self.waiting else { return };
        waiting.is_over = true;
        if let (Until::Looked(put_by), Some((look, found))) = (&mut waiting.until, found) {
            service.content.keep(&mut put_by.looked, look, found);
        }
    }

    /// An event while it waits: only that the connection broke is of interest.
    pub(super) fn keep_waiting(&mut self, service: &mut Service) -> Turn {
        if self.hung_up && sys::socket::is_broken(self.socket.as_fd()) {
            service.counters.reset(Reset::Peer);
            self.machine.send_failed();
            return Turn::Close;
        }
        Turn::Blocked
    }

    /// What is to be done so that it can go on, once for each wait.
    pub(super) fn take_job(&mut self) -> Option<Job> {
        self.waiting.as_mut()?.job.take()
    }

    /// Goes on where it had to wait.
    pub(super) fn go_on(&mut self, service: &mut Service, share: &mut u64) {
        let Some(waiting) = self.waiting.take() else { return };
        self.machine.resume(service.clock.tick);
        // Nobody has listened meanwhile.
        self.readable = true;
        match waiting.until {
            // Whatever has become of the window since then: a reply that is always overtaken would never end.
            Until::Fetched { window } => drop(self.write(service, share, Some(window))),
            Until::Looked(PutBy { consumed, terms, looked }) => {
                match Head::again(&consumed, terms) {
                    Some(head) => self.answer(service, &head, &consumed, looked, share),
                    None => self.machine.abort(),
                }
                service.buffers.give(consumed);
            }
        }
    }

    /// Puts a request by until it has been looked at what it asks for.
    pub(super) fn put_by(
        &mut self,
        service: &mut Service,
        consumed: &[u8],
        terms: Terms,
        looked: Looked,
        look: Box<Look<'static>>,
    ) {
        let mut kept = service.buffers.take();
        kept.extend_from_slice(consumed);
        self.wait(service, Job::Look(look), Until::Looked(PutBy { consumed: kept, terms, looked }));
    }

    /// Waits for a part of the file that is being sent.
    pub(super) fn await_window(&mut self, service: &mut Service, fetch: Fetch) {
        let window = fetch.window;
        self.wait(service, Job::Fetch(fetch), Until::Fetched { window });
    }

    fn wait(&mut self, service: &mut Service, job: Job, until: Until) {
        self.machine.stall(service.clock.tick);
        let ticket = service.next_ticket();
        self.waiting = Some(Box::new(Waiting { ticket, job: Some(job), is_over: false, until }));
    }

    /// Gives back what it holds while it waits.
    pub(super) fn stop_waiting(&mut self, service: &mut Service) {
        if let Some(waiting) = self.waiting.take()
            && let Until::Looked(put_by) = waiting.until
        {
            service.content.unkeep(put_by.looked);
            service.buffers.give(put_by.consumed);
        }
    }
}

/// How many of the `wanted` bytes from `offset` can be sent now: in a worker that must not wait, at most to the end of the
/// window that they begin in, if that is in memory. `resident` is the window known to be.
pub(super) fn sendable(
    service: &Service,
    pin: &Pin,
    offset: u64,
    wanted: u64,
    resident: &mut Option<u64>,
) -> Result<u64, Unsent> {
    if service.patience == Patience::Unlimited {
        return Ok(wanted);
    }
    let window = Fetch::window_of(offset);
    let wanted = wanted.min(Fetch::end_of(window) - offset);
    let now_ms = service.clock.ms;
    if *resident != Some(window) && !service.content.was_resident(pin, window, now_ms) {
        service.counters.residency_probes.add(1);
        if !service.content.is_resident(pin, window, now_ms) {
            service.counters.residency_misses.add(1);
            return Err(Unsent::Absent(service.content.fetch(pin, window)));
        }
        *resident = Some(window);
    }
    Ok(wanted)
}
