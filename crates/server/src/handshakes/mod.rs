//! TLS handshakes as work of a worker: bounded, fair between networks, and after the clients that are served
//! already.
//!
//! The first answer of a full handshake takes as much CPU time as fifty small replies: a key exchange and a
//! signature. So it needs a place in a [queue](crate::queues) that all workers share. The queue is bounded,
//! and fair: a network of clients is charged with the time that its handshakes take. Whatever follows in the
//! handshake takes little, and is done like any other work.
//!
//! ```text
//! first message has come --> queue --> Step::Here: the worker computes at once (Budget)
//!                                  --> Step::Aside: a thread computes when the CPU is idle (Aside)
//! ```
//!
//! When the queue is full, newcomers wait until it has room (`beyond`). A burst is served like that, however
//! large. If the queue does not get shorter for a while, it is a flood, and clients of the network that has
//! the most in the queue are refused.
//!
//! A worker that serves one client at a time has no thread for this. It computes everything itself, and the
//! queue lets as many workers do so as there are CPUs.
//!
//! While a handshake waits or is computed aside, its client's [channel](crate::channel) holds it as a
//! [`Handshake`], and has a turn when the queue calls it by its name.

mod aside;
mod budget;

use std::collections::VecDeque;

use http1::Tick;
use sys::socket::PeerAddress;

use self::aside::Aside;
pub use self::aside::{Finished, Job};
use self::budget::Budget;
use crate::account::Account;
use crate::config::Settings;
use crate::counters::Counters;
use crate::queues::{Entry, Queue, QueueHandle, Ticket, Waits, now_us};

/// How many of those that wait for room are called at once. If there is less, the others wait again.
const AT_ONCE: usize = 4;

/// A worker's handshakes.
#[derive(Debug)]
pub struct Handshakes {
    queue: Queue,
    worker: QueueHandle,
    waits: Waits,
    /// Those that wait and have a place in the queue, but the thread has no room for them. They go in the
    /// order in which they got their places, which is fair.
    held: VecDeque<u64>,
    /// The number of the newest of them.
    newest: u64,
    /// The names of those that wait until the queue has room, and of those for which it has some now.
    beyond: VecDeque<u64>,
    called: Vec<u64>,
    budget: Budget,
    /// How many clients have made their first request after a handshake.
    first_requests: u64,
    /// `None`: the worker computes everything itself.
    aside: Option<Aside>,
    counters: &'static Counters,
}

/// A handshake that has begun, and its ticket. `None`: it waits until the queue has room.
#[derive(Debug)]
pub struct Handshake {
    account: Account,
    ticket: Option<Ticket>,
    since_us: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It has not waited.
    New,
    /// It waits until the queue has room.
    IsBeyond,
    /// It waits in the queue.
    Waits,
    /// It waits until the thread has room, or the worker has time. It has this number among such.
    IsHeld(u64),
    /// It may be computed.
    Goes,
    /// It is computed as the thread's job of this number.
    Aside(u64),
}

/// How a handshake goes on.
#[derive(Debug)]
pub enum Step {
    /// The worker computes it now, and then calls [`Handshakes::computed`].
    Here(Handshake),
    /// The worker gives it to the thread, with [`Handshakes::give`].
    Aside(Handshake),
    /// It waits, and is called.
    Waits(Handshake),
    /// The thread has computed it.
    Computed(Box<Finished>),
    /// The thread has not come to it. The worker computes it now from the beginning, with another session,
    /// and then calls [`Handshakes::computed`].
    Again(Handshake),
    /// There is no place for it.
    Refused,
}

impl Handshakes {
    /// A worker's handshakes. `None`: no client speaks TLS.
    pub fn new(settings: &Settings, worker: &QueueHandle, counters: &'static Counters) -> Option<Self> {
        let serves_many = settings.most_waiting_workers().is_none();
        Some(Self {
            queue: worker.of_handshakes()?,
            worker: worker.clone(),
            waits: Waits::default(),
            held: VecDeque::new(),
            newest: 0,
            beyond: VecDeque::new(),
            called: Vec::new(),
            budget: Budget::new(settings.handshakes.share),
            first_requests: 0,
            aside: serves_many.then(|| Aside::new(worker.clone())),
            counters,
        })
    }

    /// As where other programs have the CPU: handshakes that are given to the thread stay there.
    #[cfg(test)]
    pub(crate) fn get_no_time_aside(&mut self) {
        if let Some(aside) = &mut self.aside {
            aside.gets_no_time();
        }
    }

    /// A client's first message has come.
    pub fn begin(&mut self, client: &PeerAddress, now: Tick) -> Step {
        self.counters.tls_handshakes_begun.add(1);
        self.drop_results();
        let account = Account::of(client);
        self.enter(Handshake { account, ticket: None, since_us: now_us(), state: State::New }, now)
    }

    /// A handshake without a ticket comes to the queue.
    fn enter(&mut self, mut handshake: Handshake, now: Tick) -> Step {
        let (entry, woken) = self.queue.enter(self.worker.worker(), handshake.account, now_us());
        self.wake(woken);
        match entry {
            Entry::Goes(ticket) => {
                handshake.ticket = Some(ticket);
                self.place(handshake, now)
            }
            Entry::Waits(ticket) => {
                handshake.ticket = Some(ticket);
                self.waits(handshake, State::Waits, now)
            }
            Entry::Full if self.queue.has_standing_delay() => self.refuse(handshake),
            Entry::Full => self.waits(handshake, State::IsBeyond, now),
        }
    }

    fn refuse(&mut self, handshake: Handshake) -> Step {
        self.counters.tls_handshakes_refused.add(1);
        self.waits_no_more(&handshake);
        self.leave(handshake.ticket, 0);
        Step::Refused
    }

    /// Whether a client that has just come is refused, because its network keeps the queue from getting
    /// shorter. That takes less than a small reply.
    pub fn refuses(&self, client: &PeerAddress) -> bool {
        let refuses = self.queue.is_crowded_by(Account::of(client));
        self.counters.tls_handshakes_refused.add(refuses.into());
        refuses
    }

    /// How a handshake that has waited, or is computed aside, goes on.
    pub fn go_on(&mut self, handshake: Handshake, now: Tick) -> Step {
        match (handshake.state, &handshake.ticket) {
            (State::Aside(number), _) => self.go_on_aside(handshake, number),
            (State::IsBeyond, _) | (_, None) => self.enter(handshake, now),
            (State::Waits, Some(ticket)) if self.queue.waits(ticket) => Step::Waits(handshake),
            (State::Waits, Some(ticket)) if !self.queue.goes(ticket) => self.refuse(handshake),
            (State::Waits | State::IsHeld(_) | State::New | State::Goes, _) => self.place(handshake, now),
        }
    }

    /// How a handshake goes on that is the thread's job of this number.
    fn go_on_aside(&mut self, mut handshake: Handshake, number: u64) -> Step {
        let has_time = self.has_time();
        let Some(aside) = &mut self.aside else { return Step::Waits(handshake) };
        if let Some(finished) = aside.take(number) {
            self.leave(handshake.ticket, finished.took_ns);
            return Step::Computed(Box::new(finished));
        }
        if has_time && aside.take_back(number, sys::clock::monotonic_ns()) {
            handshake.state = State::Goes;
            return Step::Again(handshake);
        }
        Step::Waits(handshake)
    }

    /// Where a handshake is computed that has a place in the queue.
    fn place(&mut self, mut handshake: Handshake, now: Tick) -> Step {
        let is_next = match handshake.state {
            State::IsHeld(number) => self.held.front() == Some(&number),
            _ => self.held.is_empty(),
        };
        // What the thread is late with had its place before.
        let is_late = self.is_late_at().is_some_and(|at| at.reached(now));
        let is_here = self.aside.is_none() || is_next && !is_late && self.has_time();
        let is_aside = !is_here && is_next && self.aside.as_ref().is_some_and(Aside::has_room);
        if !is_here && !is_aside {
            if let State::IsHeld(_) = handshake.state {
                return Step::Waits(handshake);
            }
            self.newest += 1;
            self.held.push_back(self.newest);
            return self.waits(handshake, State::IsHeld(self.newest), now);
        }
        self.waits_no_more(&handshake);
        handshake.state = State::Goes;
        if is_here { Step::Here(handshake) } else { Step::Aside(handshake) }
    }

    /// Whether the worker has time to compute a handshake now.
    fn has_time(&mut self) -> bool {
        let now_ns = sys::clock::monotonic_ns();
        let is_starved = self.aside.as_ref().is_some_and(|aside| aside.is_starved(now_ns));
        let others = self.counters.requests.get().saturating_sub(self.first_requests);
        self.budget.allows(now_ns, others, is_starved)
    }

    /// A client has made its first request after its handshake.
    pub fn has_asked(&mut self) {
        self.first_requests += 1;
    }

    /// A handshake waits from now on, or waits for something else.
    fn waits(&mut self, mut handshake: Handshake, state: State, now: Tick) -> Step {
        if handshake.state == State::New {
            self.waits.begin(now);
            self.counters.tls_handshakes_waited.add(1);
            self.counters.tls_handshakes_waiting.set(self.waits.count() as u64);
        }
        handshake.state = state;
        Step::Waits(handshake)
    }

    /// A handshake does not wait any more, if it did.
    fn waits_no_more(&mut self, handshake: &Handshake) {
        if handshake.is_waiting() {
            if let State::IsHeld(number) = handshake.state {
                self.held.retain(|other| *other != number);
            }
            self.waits.end();
            self.counters.tls_handshakes_waiting.set(self.waits.count() as u64);
            self.counters.tls_handshake_wait_us.add(now_us().saturating_sub(handshake.since_us));
        }
    }

    /// The worker has computed a handshake. That took so many nanoseconds, and so many of CPU time.
    pub fn computed(&mut self, handshake: Handshake, took_ns: u64, cpu_ns: u64) {
        self.budget.took(took_ns);
        self.leave(handshake.ticket, cpu_ns);
    }

    /// Gives a handshake to the thread.
    ///
    /// # Errors
    ///
    /// There is no thread. The worker computes it.
    pub fn give(&mut self, mut handshake: Handshake, job: Job) -> Result<Handshake, Box<(Handshake, Job)>> {
        let Some(aside) = &mut self.aside else { return Err(Box::new((handshake, job))) };
        // In a pipeline another thread counts what is opened. There the table is shared from the start.
        let (opened, closed) = (&self.counters.connections_opened, &self.counters.connections_closed);
        let open = opened.get().saturating_sub(closed.get());
        match aside.give(job, open, sys::clock::monotonic_ns()) {
            Ok(number) => {
                self.counters.tls_handshakes_aside.add(1);
                handshake.state = State::Aside(number);
                Ok(handshake)
            }
            Err(job) => Err(Box::new((handshake, *job))),
        }
    }

    /// The client of a handshake has gone.
    pub fn give_up(&mut self, handshake: Handshake) {
        self.counters.tls_handshakes_given_up.add(1);
        self.waits_no_more(&handshake);
        match (handshake.state, &mut self.aside, handshake.ticket) {
            (State::Aside(number), Some(aside), Some(ticket)) => aside.let_go(number, ticket),
            (_, _, ticket) => self.leave(ticket, 0),
        }
    }

    /// Names a handshake that waits or is computed aside. [`QueueHandle::called`] returns the name when it
    /// goes on. The name must not be 0.
    pub fn name(&mut self, handshake: &Handshake, name: u64) {
        match &handshake.ticket {
            Some(ticket) => self.queue.name(ticket, name),
            None => self.beyond.push_back(name),
        }
    }

    /// The names of handshakes that waited until the queue had room.
    pub fn take_called(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.called)
    }

    /// Whether some wait, so that [`look`](Self::look) should be called between turns.
    #[inline]
    pub fn has_some(&self) -> bool {
        self.waits.has_some() || self.aside.as_ref().is_some_and(Aside::is_used)
    }

    /// Looks whether some go on without a wake-up, because this worker has time for them.
    pub fn look(&mut self, now: Tick) {
        self.drop_results();
        if !self.beyond.is_empty() && self.queue.has_room() {
            let count = self.beyond.len().min(AT_ONCE);
            self.called.extend(self.beyond.drain(..count));
            self.waits.some_may_go(true);
        }
        if !self.held.is_empty() {
            let has_time = self.has_time();
            self.waits.some_may_go(has_time || self.aside.as_ref().is_some_and(Aside::has_room));
        }
        if self.is_late_at().is_some_and(|at| at.reached(now)) {
            let has_time = self.has_time();
            self.waits.some_may_go(has_time);
        }
        if self.waits.look_is_due(now) {
            let woken = self.queue.look(now_us());
            self.wake(woken);
            // What another generation has let go is not called by it.
            self.waits.some_may_go(true);
        }
    }

    /// When to call [`look`](Self::look), if nothing happens before.
    pub fn deadline(&self, now: Tick) -> Option<Tick> {
        if !self.held.is_empty() || !self.beyond.is_empty() {
            return Some(now.after(1));
        }
        // What is late already waits for time.
        let is_late_at = self.is_late_at().map(|at| if at.reached(now) { now.after(1) } else { at });
        [is_late_at, self.waits.deadline()].into_iter().flatten().reduce(Tick::earlier)
    }

    /// When the thread is late with a job that can be taken back.
    fn is_late_at(&self) -> Option<Tick> {
        let at_ns = self.aside.as_ref()?.is_late_at_ns()?;
        Some(Tick::from_ms(at_ns / 1_000_000).after(1))
    }

    /// Whether some go on without a wake-up. Resets that.
    pub fn some_may_go(&mut self) -> bool {
        self.waits.take_some_may_go()
    }

    /// Drops the results of handshakes whose clients have gone, or were answered otherwise.
    fn drop_results(&mut self) {
        while let Some((ticket, took_ns)) = self.aside.as_mut().and_then(Aside::drop_one) {
            self.leave(ticket, took_ns);
        }
    }

    /// A handshake leaves the queue, after so many nanoseconds of CPU time.
    fn leave(&mut self, ticket: Option<Ticket>, cpu_ns: u64) {
        let us = cpu_ns / 1000;
        self.counters.tls_handshake_cpu_us.add(us);
        let woken = ticket.and_then(|ticket| self.queue.leave_after(ticket, us, now_us()));
        self.wake(woken);
    }

    fn wake(&mut self, worker: Option<u32>) {
        let may_go = self.worker.wake(worker);
        self.waits.some_may_go(may_go);
    }
}

impl Handshake {
    /// Whether it waits until it may be computed.
    pub fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waits | State::IsHeld(_) | State::IsBeyond)
    }
}
