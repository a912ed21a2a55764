//! A worker's lane: the queues into its Read and Write stages, and the connections that wait for their
//! sockets. A connection stays in its lane.

use std::collections::VecDeque;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use http1::Tick;
use sys::event::Interest;
use sys::socket;

use super::Pipeline;
use super::queue::Queue;
use super::traveller::{Boxed, Errand, Traveller};
use super::waiting::{Arrival, Number, Waiting};
use super::wakeups::{AcceptorWakeup, Poll};
use crate::architecture::common::token::{Kind, Token};
use crate::counters::{Counter, Reset};
use crate::registration::Registration;
use crate::service::{Service, Stock};

/// What the stages of one worker share.
pub(super) struct Lane {
    /// Into the Read stage.
    pub(super) reads: Queue<Boxed>,
    /// Into the Write stage. With four stages: into Write Poll.
    pub(super) writes: Queue<Boxed>,
    /// With four stages: from Write Poll to the writers. `in_turn` is how many of these connections the
    /// writers have not finished.
    pub(super) turn: Queue<Boxed>,
    pub(super) in_turn: AtomicUsize,
    pub(super) waiting: Waiting<Boxed>,
    pub(super) stock: Stock,
}

impl Lane {
    /// A lane with this many readers and writers. The queues report their lengths in these gauges.
    pub(super) fn of_five(
        (readers, writers): (usize, usize),
        bound: usize,
        now: Tick,
        [of_reads, of_writes]: [&'static Counter; 2],
    ) -> Self {
        let into_read = Queue::new(readers, bound).telling(of_reads);
        let into_write = Queue::new(writers, bound).telling(of_writes);
        Self::new(into_read, into_write, Queue::new(0, 0), now)
    }

    /// A lane for four stages, with this many writers. The poll stages themselves take from the queues into
    /// Read and Write Poll. The queues into Read, Write Poll and Write report their lengths in these
    /// gauges.
    pub(super) fn of_four(
        polls: (&Poll, &Poll),
        threads: usize,
        bound: usize,
        now: Tick,
        [of_reads, of_writes, of_turn]: [&'static Counter; 3],
    ) -> Self {
        let reads = Queue::polled(bound, polls.0.wakeup()).telling(of_reads);
        let writes = Queue::polled(bound, polls.1.wakeup()).telling(of_writes);
        Self::new(reads, writes, Queue::new(threads, bound).telling(of_turn), now)
    }

    fn new(reads: Queue<Boxed>, writes: Queue<Boxed>, turn: Queue<Boxed>, now: Tick) -> Self {
        Self {
            reads,
            writes,
            turn,
            in_turn: AtomicUsize::new(0),
            waiting: Waiting::new(now),
            stock: Stock::default(),
        }
    }
}

/// How many slots a token can name, in one lane.
const PLACES: u32 = 1 << 22;

/// The kernel's name for the connection in that slot of that lane.
pub(super) fn token(kind: Kind, lane: u16, number: Number) -> u64 {
    let index = u32::from(lane) << 22 | number.index;
    Token { kind, generation: number.generation, index }.number()
}

/// The lane and the slot in it that a token names.
pub(super) fn place(token: Token) -> (usize, Number) {
    let number = Number { index: token.index % PLACES, generation: token.generation };
    ((token.index / PLACES) as usize, number)
}

impl Pipeline {
    /// Leaves a connection to the poll stages until there are events for its sockets or its deadline
    /// passes. Returns the connection if it goes on at once (`Some`), or if its sockets cannot be
    /// registered (`Err`).
    pub(super) fn wait(&self, mut traveller: Boxed, now_ns: u64) -> Result<Option<Boxed>, Unwatched> {
        self.had_a_turn(&mut traveller);
        let lane = &self.lanes[usize::from(traveller.lane)];
        let number = self.number(&mut traveller);
        if let Err(error) = self.register(&mut traveller, number) {
            return Err(Unwatched { traveller, error });
        }
        if traveller.conversation.machine().is_idle() {
            // The time of the next request begins when the request comes.
            traveller.time_ns = now_ns;
        }
        traveller.passes(now_ns);
        let deadline = traveller.conversation.deadline();
        let mut waiting = lane.waiting.lock();
        match waiting.wait(number, traveller, deadline) {
            Arrival::Waits { is_sooner } => {
                drop(waiting);
                if is_sooner {
                    self.read_poll.wake();
                }
                Ok(None)
            }
            Arrival::GoesOn(mut traveller, told) => {
                drop(waiting);
                traveller.passes(now_ns);
                traveller.note(told);
                Ok(Some(traveller))
            }
        }
    }

    /// Registers the connection's sockets with the poll stages. Each socket is registered once, for edges.
    /// A client whose connection is lent to an application is not watched.
    fn register(&self, traveller: &mut Traveller, number: Number) -> std::io::Result<()> {
        match traveller.conversation.is_lent(true) {
            None => self.register_client(traveller, number)?,
            Some(false) => self.forget_client(traveller),
            Some(true) => {}
        }
        let name = token(Kind::Application, traveller.lane, number);
        if let Some((link, _)) = traveller.conversation.link()
            && (link.registration, link.watched_as) != (Registration::Edge, name)
        {
            if link.registration != Registration::None {
                // It is watched for the client that used it before. Removing a registered socket cannot
                // fail.
                let _ = self.read_poll.epoll.remove(&*link);
                link.registration = Registration::None;
            }
            self.read_poll.epoll.add(link.as_fd(), name, Interest::BOTH.on_edge())?;
            (link.registration, link.watched_as) = (Registration::Edge, name);
        }
        Ok(())
    }

    fn register_client(&self, traveller: &mut Traveller, number: Number) -> std::io::Result<()> {
        let (_, writable) = traveller.conversation.waits_for();
        let name = token(Kind::Client, traveller.lane, number);
        if !traveller.is_registered.0 {
            self.read_poll.epoll.add(&traveller.conversation, name, Interest::READABLE.on_edge())?;
            traveller.is_registered.0 = true;
        }
        if writable && !traveller.is_registered.1 {
            self.write_poll.epoll.add(&traveller.conversation, name, Interest::WRITABLE.on_edge())?;
            traveller.is_registered.1 = true;
        }
        Ok(())
    }

    fn forget_client(&self, traveller: &mut Traveller) {
        // Removing a registered socket cannot fail.
        let (reads, writes) = std::mem::take(&mut traveller.is_registered);
        if reads {
            let _ = self.read_poll.epoll.remove(&traveller.conversation);
        }
        if writes {
            let _ = self.write_poll.epoll.remove(&traveller.conversation);
        }
    }

    /// Sends a connection that was waiting to the Read stage: to the reader that it is bound to, or into
    /// the list of connections to offer to the stage.
    pub(super) fn line_up(&self, mut traveller: Boxed, now_ns: u64, line: &mut VecDeque<Boxed>) {
        traveller.passes(now_ns);
        match traveller.reader {
            Some(reader) => {
                let reads = &self.lanes[usize::from(traveller.lane)].reads;
                reads.give_to(reader.into(), traveller, now_ns);
            }
            None => line.push_back(traveller),
        }
    }

    /// Ends a connection.
    pub(super) fn close(&self, mut traveller: Boxed, service: &mut Service, resets: bool) {
        if traveller.conversation.was_lent() {
            // While another process has a copy of the socket, closing it does not end its registration.
            self.forget_client(&mut traveller);
        }
        let Traveller { conversation, lane, number, .. } = *traveller;
        if let Some(number) = number {
            // This happens before the socket is closed, because the slot's next user is another connection.
            self.lanes[usize::from(lane)].waiting.lock().leave(number);
        }
        let socket = conversation.end(service);
        service.counters.connections_closed.add(1);
        if resets {
            service.counters.reset(Reset::Local);
            // A socket that cannot be reset is closed when it is dropped.
            let _ = socket::reset(socket);
        } else {
            drop(socket);
        }
        let was_last = self.open.fetch_sub(1, Ordering::SeqCst) == 1;
        if was_last && self.closes.load(Ordering::SeqCst) {
            // The end of service may have waited for that.
            self.read_poll.wake();
        }
        if self.is_crowded.swap(false, Ordering::SeqCst) {
            self.acceptors.iter().for_each(AcceptorWakeup::wake);
        }
    }

    /// Asks a connection to end because other clients need its slot.
    pub(super) fn ask_to_leave(traveller: &mut Traveller) {
        traveller.errand = Errand::GiveUp;
        traveller.gives_way = true;
    }
}

/// A connection that cannot wait for its sockets.
pub(super) struct Unwatched {
    pub(super) traveller: Boxed,
    pub(super) error: std::io::Error,
}
