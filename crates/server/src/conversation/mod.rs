//! One client's side of a connection, without the socket: the connection state machine, and the input that it
//! has not used yet. Bytes go in, operations come out, and no system call is made that would move any.
//!
//! Who moves the bytes is a [`channel`](crate::channel). It keeps to this order:
//!
//! 1. What [holds](Conversation::is_held) the conversation comes first. That is the disk, for which somebody
//!    takes on a [job](Conversation::take_job), or an application, which it [attends](Conversation::attend).
//!    Behind a wait for the disk it [goes on](Conversation::go_on).
//! 2. While it [is replying](Conversation::is_replying), [`next_send`](Conversation::next_send) says what is
//!    to be sent. What came of that is for [`sent`](Conversation::sent) or
//!    [`not_sent`](Conversation::not_sent). Until then the conversation lives, and nothing of what it named
//!    is given back.
//! 3. A reply that is over is [released](Conversation::release).
//! 4. Otherwise it says what it [wants](Conversation::wants): input, which it [takes](Conversation::take),
//!    or an end of the connection.
//! 5. When the connection is over, it is [concluded](Conversation::end).
//!
//! Between two of these calls it borrows nothing, so it moves between threads by value.

mod application;
mod disk;
mod exchange;
mod receive;
mod send;
mod turn;

use std::io;

use http1::{Connection, End, Limits};
use sys::socket::PeerAddress;

use self::application::LentTo;
pub use self::application::{Attended, Body, Passage, Passages};
use self::exchange::{Exchange, Pause};
pub use self::receive::{Input, Want, Wanted};
pub use self::send::{Follows, Operation, Runs, Unsent};
pub use self::turn::{Next, Turn};
use crate::content::{Content, Pin};
use crate::counters::{ConnectionState, Failure, Reset};
use crate::line::Line;
use crate::proxies::header::Announced;
use crate::service::Service;

/// A client being served.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about the client, a byte each")]
pub struct Conversation {
    machine: Connection<Pin>,
    peer: PeerAddress,
    /// Input that has been received and not used.
    rest: Vec<u8>,
    exchange: Exchange,
    /// When it last had a turn.
    active: http1::Tick,
    /// The client sends no more.
    eof: bool,
    /// What is left over of the input has not been offered to the machine since the reply before it ended.
    rest_unseen: bool,
    /// The reply under way, or the last one, took a while: it began in an earlier turn, or waited to be sent.
    carried_over: bool,
    /// A proxy has not said yet for whom it connects.
    is_announced: bool,
    /// What it has said of its own connection.
    announced: Option<Box<Announced>>,
    /// Whom it has been lent to, if it has.
    lent_to: Option<Box<LentTo>>,
}

/// How long a connection must have been idle to be closed in favour of another client.
const IDLE_ENOUGH_TICKS: u32 = 1000 / http1::Tick::MS;

impl Conversation {
    /// With a client of that address that has just come. `is_announced`: it begins with a
    /// [header](crate::proxies::header) that says for whom. `waited_ms`: how many milliseconds it has waited
    /// in the accept queue at least, if that was looked at.
    pub fn new(peer: PeerAddress, is_announced: bool, waited_ms: Option<u32>, service: &Service) -> Self {
        Self {
            machine: Connection::new(service.clock.tick, &service.limits),
            peer,
            rest: Vec::new(),
            exchange: Exchange::first(waited_ms),
            active: service.clock.tick,
            eof: false,
            rest_unseen: false,
            carried_over: false,
            is_announced,
            announced: None,
            lent_to: None,
        }
    }

    /// Whose it is: the other end's address, or the one that a PROXY header has told.
    pub fn peer(&self) -> &PeerAddress {
        &self.peer
    }

    /// Begins a turn. A channel calls this before it asks what the conversation [wants](Self::wants).
    #[inline]
    pub fn begins_turn(&mut self, service: &Service) {
        if self.is_announced {
            // A client counts as active once its proxy has said who it is.
            self.judges_announcer(service);
        } else {
            self.active = service.clock.tick;
        }
    }

    /// Begins a turn that sends a reply. The reply may have been planned in an earlier turn.
    #[inline]
    pub fn begins_to_send(&mut self, service: &Service) {
        self.carried_over |= self.active != service.clock.tick;
    }

    /// Whether it has been between requests for long enough to be closed in favour of another client.
    pub fn has_idled(&self, now: http1::Tick) -> bool {
        self.machine.is_idle() && self.active.after(IDLE_ENOUGH_TICKS).reached(now)
    }

    /// Whether it has been about the same for longer than it may where others wait for its place: to bring a
    /// request, or to close behind the last reply.
    pub fn dawdles(&self, limits: &Limits, now: http1::Tick) -> bool {
        let timeouts = &limits.timeouts;
        let allowed = match self.state() {
            ConnectionState::ReadingHead => timeouts.header,
            ConnectionState::ReadingBody => timeouts.body,
            ConnectionState::Lingering => timeouts.linger,
            ConnectionState::Writing | ConnectionState::Idle => return false,
        };
        let left = self.machine.deadline().map(|deadline| deadline.remaining(now));
        left.is_some_and(|left| allowed.saturating_sub(left) >= IDLE_ENOUGH_TICKS)
    }

    /// Whether a request is awaited, or the rest of one.
    pub fn is_asking(&self) -> bool {
        matches!(self.state(), ConnectionState::ReadingHead | ConnectionState::ReadingBody)
    }

    /// How many requests have been read.
    pub fn requests(&self) -> u32 {
        self.machine.requests()
    }

    /// What it is doing.
    pub fn state(&self) -> ConnectionState {
        let machine = &self.machine;
        if machine.is_lingering() || machine.wants_end() != End::Open {
            ConnectionState::Lingering
        } else if machine.is_replying() || machine.owes_answer() && !self.brings_body() {
            ConnectionState::Writing
        } else if machine.is_reading_body() {
            ConnectionState::ReadingBody
        } else if machine.is_idle() && machine.requests() > 0 {
            ConnectionState::Idle
        } else {
            ConnectionState::ReadingHead
        }
    }

    /// The state machine, for its timers and states.
    pub fn machine(&mut self) -> &mut Connection<Pin> {
        &mut self.machine
    }

    /// What it needs of the client to go on: input, and room for output.
    pub fn needs(&self) -> (bool, bool) {
        match self.exchange.waiting.as_deref() {
            None => (self.machine.wants_input(), self.machine.is_replying()),
            Some(Pause::Disk(_)) => (false, false),
            Some(Pause::Application(application)) => application.needs(),
        }
    }

    /// Whether there is output of a reply that is planned: see [`next_send`](Self::next_send).
    #[inline]
    pub fn is_replying(&self) -> bool {
        self.machine.is_replying()
    }

    /// Whether it waits for something else than its client.
    #[inline]
    pub fn is_paused(&self) -> bool {
        self.exchange.waiting.is_some()
    }

    /// Whether something else than its client has to be seen to first.
    #[inline]
    pub fn is_held(&self) -> bool {
        match self.exchange.waiting.as_deref() {
            None => false,
            Some(Pause::Disk(waiting)) => !waiting.is_over(),
            Some(Pause::Application(_)) => true,
        }
    }

    /// When it is to be looked at, if nothing happens before: the client's deadline, or how long the disk may
    /// take.
    #[inline]
    pub fn deadline(&self) -> Option<http1::Tick> {
        let machine = self.machine.deadline();
        if self.exchange.waiting.is_some() { self.deadline_of_pause(machine) } else { machine }
    }

    #[cold]
    fn deadline_of_pause(&self, machine: Option<http1::Tick>) -> Option<http1::Tick> {
        let earlier =
            [self.application_deadline(), machine].into_iter().flatten().reduce(http1::Tick::earlier);
        self.looks_after_wait_at().or(earlier)
    }

    /// Acts on a deadline that has come: what is said to the client is planned, and not sent. `None`: nothing
    /// has ended, ask for the deadline again.
    pub fn expire(&mut self, service: &mut Service, line: Line<'_>) -> Option<Next> {
        if self.waits_for_disk().is_some() {
            return self.look_after_wait(service, line);
        }
        let is_due =
            |deadline: Option<http1::Tick>| deadline.is_some_and(|at| at.reached(service.clock.tick));
        if !is_due(self.machine.deadline()) && is_due(self.application_deadline()) {
            return self.application_timeout(service, line);
        }
        match self.machine.timeout(&service.limits, service.clock.tick) {
            http1::Timeout::NotYet => return None,
            http1::Timeout::Answer(kind, error) => {
                service.counters.timeout(kind);
                let site = self.asked_site();
                self.stop_waiting(service);
                self.refuse(service, (site, error));
            }
            http1::Timeout::Ended(kind) => {
                service.counters.timeout(kind);
                self.stop_waiting(service);
            }
        }
        Some(Next::Receive)
    }

    /// Ends whatever the client takes its time for, since others wait for its place. It is told so where an
    /// answer is owed: that is planned, and not sent.
    pub fn give_up(&mut self, service: &mut Service, line: Line<'_>) {
        self.give_slow_reply_up(service, line);
        if let http1::Timeout::Answer(_, error) = self.machine.give_up() {
            let site = self.asked_site();
            self.stop_waiting(service);
            self.refuse(service, (site, error));
        }
    }

    /// Whether what it is about is the worker's alone that has begun it, so that no other can go on with it:
    /// a request that an application answers, or a file that is in no table.
    pub fn is_bound(&self) -> bool {
        self.has_application() || self.machine.pins().any(Content::is_apart)
    }

    /// Gives back everything that belongs to the worker. Nothing that it named may be in use any more.
    pub fn end(mut self, service: &mut Service) {
        if self.machine.is_replying() {
            self.machine.abort();
        }
        self.release(service);
        self.stop_waiting(service);
        service.buffers.give(std::mem::take(&mut self.rest));
        self.exchange.drop_line(service);
    }

    /// Whether a part of a reply may have been sent, and not all of it: its end must not look like one.
    pub fn is_in_a_reply(&self) -> bool {
        self.machine.is_replying() || self.is_passing_on()
    }

    /// The client is gone, or as good as gone.
    fn broken(&mut self, service: &mut Service, error: &io::Error, failure: Failure) {
        match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => service.counters.reset(Reset::Peer),
            _ => service.counters.error(failure),
        }
        self.machine.send_failed();
    }

    /// What was to be received could not be.
    #[cold]
    pub fn not_received(&mut self, service: &mut Service, error: &io::Error) {
        self.broken(service, error, Failure::Receive);
    }
}
