//! One client: a socket, the connection state machine, and the input that it has not used yet.
//!
//! A conversation knows how to [receive](Conversation::receive) and [send](Conversation::send) over a socket
//! until something would block or its share of the turn is used up. Where sends may block
//! ([`sends`](crate::sends)), the share is used up as well when one was broken off. It does not know who
//! calls it or what waits for events: the event-driven architectures call [`Conversation::work`], which
//! alternates between both directions; the stages of a pipeline call one of them each, and hand the
//! conversation on. Between two calls it borrows nothing, so it moves between threads by value.

mod application;
mod disk;
mod exchange;
mod receive;
mod send;
#[cfg(test)]
mod tests;
mod turn;
mod work;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use http1::{Connection, End, Limits};
use sys::socket::PeerAddress;

use self::application::LentTo;
use self::exchange::{Exchange, Pause};
pub use self::send::{Follows, Operation, Runs};
pub use self::turn::{Next, Turn};
use crate::content::{Content, Pin};
use crate::counters::{ConnectionState, Failure, Reset};
use crate::proxies::header::Announced;
use crate::service::Service;

/// A connection that was just accepted.
#[derive(Debug)]
pub struct Client {
    /// Its socket.
    pub socket: OwnedFd,
    /// Who has connected.
    pub peer: PeerAddress,
    /// It begins with a [header](crate::proxies::header) that says for whom.
    pub is_announced: bool,
    /// How many milliseconds it has waited in the accept queue at least, if that was looked at.
    pub waited_ms: Option<u32>,
}

/// A client being served.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about the socket, a byte each")]
pub struct Conversation {
    machine: Connection<Pin>,
    socket: OwnedFd,
    peer: PeerAddress,
    /// Input that has been received and not used.
    rest: Vec<u8>,
    exchange: Exchange,
    /// When it last had a turn.
    active: http1::Tick,
    /// The socket may have input: set by an event, cleared by finding it empty.
    readable: bool,
    /// The socket may have room: cleared by finding it full.
    writable: bool,
    /// The client has shut down its side, which an empty read will confirm.
    hung_up: bool,
    /// An empty read has confirmed it.
    eof: bool,
    /// What is left over of the input has not been offered to the machine since the reply before it ended.
    rest_unseen: bool,
    /// The reply under way, or the last one, took a while: it began in an earlier turn, or waited to be sent.
    carried_over: bool,
    /// Sends block while the socket is full.
    blocks: bool,
    /// A proxy has not said yet for whom it connects.
    is_announced: bool,
    /// The socket is a Unix socket, which may carry descriptors.
    is_local: bool,
    /// What it has said of its own connection.
    announced: Option<Box<Announced>>,
    /// Whom it has been lent to, if it has.
    lent_to: Option<Box<LentTo>>,
}

/// How long a connection must have been idle to be closed in favour of another client.
const IDLE_ENOUGH_TICKS: u32 = 1000 / http1::Tick::MS;

impl Conversation {
    /// A client that was just accepted.
    pub fn new(Client { socket, peer, is_announced, waited_ms }: Client, service: &Service) -> Self {
        Self {
            machine: Connection::new(service.clock.tick, &service.limits),
            is_local: peer == PeerAddress::Unix,
            socket,
            peer,
            rest: Vec::new(),
            exchange: Exchange::first(waited_ms),
            active: service.clock.tick,
            // Clients usually send at once, and the answer to trying is cheaper than the answer to asking.
            readable: true,
            writable: true,
            hung_up: false,
            eof: false,
            rest_unseen: false,
            carried_over: false,
            blocks: service.sends_block,
            is_announced,
            announced: None,
            lent_to: None,
        }
    }

    /// Whose it is: the other end's address, or the one that a PROXY header has told.
    pub fn peer(&self) -> &PeerAddress {
        &self.peer
    }

    /// Takes note of an event.
    pub fn note(&mut self, readable: bool, writable: bool, hung_up: bool) {
        self.readable |= readable || hung_up;
        self.writable |= writable || hung_up;
        self.hung_up |= hung_up;
    }

    /// Leaves it to an event to say that there is input.
    pub fn await_input(&mut self) {
        self.readable = false;
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

    /// Whether an event is needed to go on reading or writing, as the state machine wants.
    pub fn waits_for(&self) -> (bool, bool) {
        match self.exchange.waiting.as_deref() {
            None => {}
            Some(Pause::Disk(_)) => return (false, false),
            Some(Pause::Application(application)) => return self.application_waits_for(application),
        }
        let machine = &self.machine;
        (machine.wants_input() && !self.readable, machine.is_replying() && !self.writable)
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

    /// Acts on a deadline that has come, and goes on with what follows. `None`: nothing has ended, ask for
    /// the deadline again.
    pub fn timeout(&mut self, service: &mut Service) -> Option<Turn> {
        match self.expire(service)? {
            Next::Turn(turn) => Some(turn),
            Next::Receive | Next::Send => Some(self.work(service)),
        }
    }

    /// Acts on a deadline that has come: what is said to the client is planned, and not sent. `None`: nothing
    /// has ended, ask for the deadline again.
    pub fn expire(&mut self, service: &mut Service) -> Option<Next> {
        if self.waits_for_disk().is_some() {
            return self.look_after_wait(service);
        }
        let is_due =
            |deadline: Option<http1::Tick>| deadline.is_some_and(|at| at.reached(service.clock.tick));
        if !is_due(self.machine.deadline()) && is_due(self.application_deadline()) {
            return self.application_timeout(service);
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
    pub fn give_up(&mut self, service: &mut Service) {
        self.give_slow_reply_up(service);
        if let http1::Timeout::Answer(_, error) = self.machine.give_up() {
            let site = self.asked_site();
            self.stop_waiting(service);
            self.refuse(service, (site, error));
        }
    }

    /// Ends whatever the client takes its time for, since others wait for its place. It is told so where an
    /// answer is owed, and its end is not awaited.
    pub fn give_way(&mut self, service: &mut Service) -> Turn {
        self.give_up(service);
        match self.work(service) {
            Turn::Blocked if self.machine.is_lingering() => Turn::Close,
            turn => turn,
        }
    }

    /// Whether what it is about is the worker's alone that has begun it, so that no other can go on with it:
    /// a request that an application answers, or a file that is in no table.
    pub fn is_bound(&self) -> bool {
        self.has_application() || self.machine.pins().any(Content::is_apart)
    }

    /// Gives back everything that belongs to the worker, and the socket.
    pub fn end(mut self, service: &mut Service) -> OwnedFd {
        let is_in_a_reply = self.is_in_a_reply();
        if self.machine.is_replying() {
            self.machine.abort();
        }
        self.release(service);
        self.stop_waiting(service);
        service.buffers.give(std::mem::take(&mut self.rest));
        self.exchange.drop_line(service);
        self.cut_off_as(is_in_a_reply);
        self.socket
    }

    /// It is about to be dropped, before the connection to an application that has been lent it: ends it for
    /// whoever has a copy of its socket. A reply under way must not look whole to who knows the end of one by
    /// the end of the connection alone.
    pub fn cut_off(&self) {
        self.cut_off_as(self.is_in_a_reply());
    }

    fn cut_off_as(&self, is_in_a_reply: bool) {
        if self.lent_to.is_some() {
            self.end_lent();
        } else if is_in_a_reply {
            // Otherwise it is closed as any is.
            let _ = sys::socket::reset_when_closed(self.socket.as_fd());
        }
    }

    /// Whether a part of a reply may have been sent, and not all of it.
    fn is_in_a_reply(&self) -> bool {
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
}

impl AsFd for Conversation {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
