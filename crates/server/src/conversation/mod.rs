//! One client's connection without its socket: the HTTP state machine, and the input that is not used yet.
//! Bytes go in and operations come out. No system call here moves a byte.
//!
//! A [`channel`](crate::channel) moves the bytes. It keeps to this order:
//!
//! 1. First it handles what [holds](Conversation::is_held) the conversation: the disk, or an application.
//!    For the disk there is a [job](Conversation::take_job) to do, and then the conversation
//!    [continues](Conversation::go_on). An application is [attended](Conversation::attend).
//! 2. It [begins a turn](Conversation::begins_turn).
//! 3. While the conversation [is replying](Conversation::is_replying),
//!    [`next_send`](Conversation::next_send) returns what to send next. The channel reports the outcome
//!    with [`sent`](Conversation::sent) or [`not_sent`](Conversation::not_sent). Until then the channel
//!    keeps the conversation, which gives back nothing that the operation names.
//! 4. It [releases](Conversation::release) what a finished reply held.
//! 5. Otherwise the conversation says what it [wants](Conversation::wants): input, which it
//!    [takes](Conversation::take), or an end of the connection.
//! 6. It [ends](Conversation::end) the conversation when the connection is over.
//!
//! Between two of these calls it borrows nothing, so it moves between threads by value.

mod application;
mod disk;
mod exchange;
mod receive;
mod send;
mod turn;

use std::io;
use std::sync::Arc;

use http1::{Connection, End, Limits};
use sys::socket::PeerAddress;

use self::application::LentTo;
pub use self::application::{Attended, Body, Passage, Passages};
pub use self::disk::WaitedFor;
use self::exchange::{Exchange, Pause};
pub use self::receive::{Input, Want, Wanted};
pub use self::send::{Follows, Operation, Runs, Unsent};
pub use self::turn::{Next, Turn};
use crate::content::{Content, Pin};
use crate::counters::{ConnectionState, Failure, Reset};
use crate::line::Line;
use crate::proxies::header::Announced;
use crate::secured::Facts;
use crate::service::Service;

/// A conversation with a client that is being served.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about the client, a byte each")]
pub struct Conversation {
    machine: Connection<Pin>,
    peer: PeerAddress,
    /// Input that has been received but not used.
    rest: Vec<u8>,
    exchange: Exchange,
    /// When it last had a turn.
    active: http1::Tick,
    /// The client sends no more.
    eof: bool,
    /// The unused input has not been offered to the machine since the reply before it ended.
    rest_unseen: bool,
    /// The reply under way, or the last one, took a while: it began in an earlier turn, or had to wait to
    /// be sent.
    carried_over: bool,
    /// A PROXY header is still to come.
    is_announced: bool,
    /// What is known of the connection before its first request.
    introduced: Option<Box<Introduced>>,
    /// Not every request may be answered here, so each is examined first.
    is_examined: bool,
    /// The application that the client's socket was passed to, if it was.
    lent_to: Option<Box<LentTo>>,
}

/// What is known of a connection before its first request.
#[derive(Debug, Default)]
struct Introduced {
    /// What the PROXY header said about the client's connection to the proxy.
    announced: Option<Announced>,
    /// What the TLS handshake has established.
    secured: Option<Arc<Facts>>,
    /// The client speaks HTTP where it should speak TLS.
    lacks_tls: bool,
}

/// How long a connection must have been idle to be closed in favour of another client.
const IDLE_ENOUGH_TICKS: u32 = 1000 / http1::Tick::MS;

impl Conversation {
    /// A conversation with a client at the address `peer`, whose connection was just accepted.
    /// `is_announced`: the connection begins with a [PROXY header](crate::proxies::header). `waited_ms`:
    /// the least number of milliseconds that it has waited in the accept queue, if that was measured.
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
            introduced: None,
            is_examined: service.redirects_to_https(),
            lent_to: None,
        }
    }

    /// The client's address: the other end's, or the one in the PROXY header.
    pub fn peer(&self) -> &PeerAddress {
        &self.peer
    }

    /// A TLS handshake is complete, and has established this.
    pub fn is_secured(&mut self, service: &Service, facts: Facts) {
        self.machine.can_begin(&service.limits, service.clock.tick);
        self.active = service.clock.tick;
        self.introduced.get_or_insert_default().secured = Some(Arc::new(facts));
        self.is_examined = true;
    }

    /// The client has to learn that it must speak TLS here.
    pub fn lacks_tls(&mut self) {
        self.introduced.get_or_insert_default().lacks_tls = true;
        self.is_examined = true;
    }

    /// What a TLS handshake has established, if there was one.
    fn secured(&self) -> Option<&Arc<Facts>> {
        self.introduced.as_ref()?.secured.as_ref()
    }

    /// What a PROXY header has said, if there was one.
    fn announced(&self) -> Option<&Announced> {
        self.introduced.as_ref()?.announced.as_ref()
    }

    /// Begins a turn. A channel calls this before it asks what the conversation [wants](Self::wants).
    #[inline]
    pub fn begins_turn(&mut self, service: &Service) {
        if self.is_announced {
            // A client counts as active once its proxy has named it.
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

    /// Whether the connection has been between requests for long enough to be closed in favour of another
    /// client.
    pub fn has_idled(&self, now: http1::Tick) -> bool {
        self.machine.is_idle() && self.active.after(IDLE_ENOUGH_TICKS).reached(now)
    }

    /// Whether the client is too slow while others wait for its slot. It has been in the same state for
    /// long: sending a request, or closing after the last reply.
    pub fn is_too_slow(&self, limits: &Limits, now: http1::Tick) -> bool {
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

    /// Whether a request, or the rest of one, is still to come from the client.
    pub fn is_asking(&self) -> bool {
        matches!(self.state(), ConnectionState::ReadingHead | ConnectionState::ReadingBody)
    }

    /// How many requests have been read.
    pub fn requests(&self) -> u32 {
        self.machine.requests()
    }

    /// The state of the connection.
    pub fn state(&self) -> ConnectionState {
        let machine = &self.machine;
        if machine.is_lingering() || machine.wants_end() != End::Open {
            ConnectionState::Lingering
        } else if machine.is_replying() || machine.owes_answer() && !self.owes_body() {
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

    /// Whether it needs input to continue, and whether it needs room for output.
    pub fn needs(&self) -> (bool, bool) {
        match self.exchange.waiting.as_deref() {
            None => (self.machine.wants_input(), self.machine.is_replying()),
            Some(Pause::Disk(_)) => (false, false),
            Some(Pause::Application(application)) => application.needs(),
        }
    }

    /// Whether there is output of a planned reply: see [`next_send`](Self::next_send).
    #[inline]
    pub fn is_replying(&self) -> bool {
        self.machine.is_replying()
    }

    /// Whether it waits for the disk or an application.
    #[inline]
    pub fn is_paused(&self) -> bool {
        self.exchange.waiting.is_some()
    }

    /// Whether the disk or an application must be handled first. A wait for the disk that is over does
    /// not hold the conversation.
    #[inline]
    pub fn is_held(&self) -> bool {
        match self.exchange.waiting.as_deref() {
            None => false,
            Some(Pause::Disk(waiting)) => !waiting.is_over(),
            Some(Pause::Application(_)) => true,
        }
    }

    /// When to call [`expire`](Self::expire), if nothing happens before: at the client's deadline, or
    /// when a wait must be checked.
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

    /// Handles a deadline that has passed. An answer to the client is planned, not sent. `None`: nothing
    /// has ended, so ask for the deadline again.
    pub fn expire(&mut self, service: &mut Service, line: Line<'_>) -> Option<Next> {
        if self.waits_for_disk().is_some() {
            return if self.awaits_send() { None } else { self.look_after_wait(service, line) };
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
                self.refuse_slow(service, error);
            }
            http1::Timeout::Ended(kind) => {
                service.counters.timeout(kind);
                self.stop_waiting(service);
            }
        }
        Some(Next::Receive)
    }

    /// Ends whatever the client is slow at, because others wait for its slot. If the client is owed an
    /// answer, the answer is planned, not sent.
    pub fn give_up(&mut self, service: &mut Service, line: Line<'_>) {
        self.give_slow_reply_up(service, line);
        if let http1::Timeout::Answer(_, error) = self.machine.give_up() {
            self.refuse_slow(service, error);
        }
    }

    /// Refuses a request that does not come in time. If the application has begun to answer it, the
    /// connection is reset.
    fn refuse_slow(&mut self, service: &mut Service, error: http1::ProtocolError) {
        let (site, is_passing_on) = (self.asked_site(), self.is_passing_on());
        self.stop_waiting(service);
        if is_passing_on {
            self.machine.abort();
        } else {
            self.refuse(service, (site, error));
        }
    }

    /// Whether the client is to get something for its request. During a pause that can change, because the
    /// connection breaks.
    pub fn owes_something(&self) -> bool {
        self.machine.owes_answer() || self.machine.is_replying()
    }

    /// Whether only this worker can continue the conversation, because of a request that an application
    /// answers, or a file that is in no table.
    pub fn is_bound(&self) -> bool {
        self.has_application() || self.machine.pins().any(Content::is_apart)
    }

    /// Gives back everything that belongs to the worker. Nothing that an operation named may be in use
    /// any more.
    pub fn end(mut self, service: &mut Service) {
        if self.machine.is_replying() {
            self.machine.abort();
        }
        self.release(service);
        self.stop_waiting(service);
        service.buffers.give(std::mem::take(&mut self.rest));
        self.exchange.drop_line(service);
    }

    /// Whether a part of a reply may have been sent, but not all of it. If the connection ends now, that
    /// must not look like the end of the reply.
    pub fn is_in_a_reply(&self) -> bool {
        self.machine.is_replying() || self.is_passing_on()
    }

    /// The connection is broken: nothing more can be received or sent.
    fn broken(&mut self, service: &mut Service, error: &io::Error, failure: Failure) {
        match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => service.counters.reset(Reset::Peer),
            _ => service.counters.error(failure),
        }
        self.machine.send_failed();
    }

    /// The client breaks the rules of what carries the conversation: nothing more is received or sent.
    #[cold]
    pub fn breaks_off(&mut self) {
        self.machine.send_failed();
    }

    /// A receive has failed: the connection is broken.
    #[cold]
    pub fn not_received(&mut self, service: &mut Service, error: &io::Error) {
        self.broken(service, error, Failure::Receive);
    }
}
