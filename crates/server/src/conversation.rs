//! One client: a socket, the connection state machine, and the input that it has not used yet.
//!
//! A conversation knows how to read, answer and write over a socket until something would block or its share
//! of the turn is used up. Where sends may block ([`sends`](crate::sends)), the share is used up as well when
//! one was broken off. It does not know who calls it or what waits for events: the event-driven architectures
//! call [`Conversation::work`], which alternates between both directions; stages of a pipeline or coroutines
//! call [`Conversation::read`] and [`Conversation::write`] themselves.
//!
//! Input is received into the worker's scratch memory and used from there. Only what is left over (half a
//! head, a pipelined request behind a reply that would block) is kept, in a pooled buffer, so that an idle
//! connection holds none.

mod disk;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use http1::{Connection, End, Head, Limits, Segment, Status, Step, Wants};
use sys::socket::{PeerAddress, Slice};

use self::disk::{Owed, Waiting};
use crate::config::Coalesce;
use crate::content::{Fetch, Found, Looked, Pin};
use crate::counters::{ConnectionState, Failure, Reset};
use crate::helpers::Job;
use crate::sends::MOST_AT_ONCE;
use crate::service::Service;

/// A client being served.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about the socket, a byte each")]
pub struct Conversation {
    machine: Connection<Pin>,
    socket: OwnedFd,
    peer: PeerAddress,
    /// Input that has been received and not used.
    rest: Vec<u8>,
    /// The first half of the access log's line for the request under way; empty when none is kept.
    log_line: Vec<u8>,
    /// When the request under way was read, on the monotonic clock.
    request_began_ms: u64,
    /// What it waits for beside its client, if it does.
    waiting: Option<Box<Waiting>>,
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
    /// `rest` has not been offered to the machine since the reply before it ended.
    rest_unseen: bool,
    /// The reply under way began in an earlier turn.
    carried_over: bool,
    /// Sends block while the socket is full.
    blocks: bool,
}

/// How a turn of a conversation ended.
#[derive(Debug)]
pub enum Turn {
    /// It waits for the socket, as [`Conversation::wants`] says.
    Blocked,
    /// It waits until somebody has done this for it. Only in a worker without [patience](Service::patience).
    Disk(Box<Job>),
    /// It has used up its share and could go on at once.
    Unfinished,
    /// It is over: close the socket.
    Close,
    /// It is over: reset the connection.
    Reset,
}

/// What a look found.
pub type Sighting = Result<Found, Status>;

/// What became of writing.
enum Written {
    All,
    Blocked,
    ShareUsed,
}

/// How long a connection must have been idle to be closed in favour of another client.
const IDLE_ENOUGH_TICKS: u32 = 1000 / http1::Tick::MS;

/// Most runs of memory in one `writev`. Replies but those of many ranges have two or three.
const GATHER: usize = 8;

impl Conversation {
    /// A client that was just accepted.
    pub fn new(socket: OwnedFd, peer: PeerAddress, service: &Service) -> Self {
        Self {
            machine: Connection::new(service.clock.tick, &service.limits),
            socket,
            peer,
            rest: Vec::new(),
            log_line: Vec::new(),
            request_began_ms: 0,
            waiting: None,
            active: service.clock.tick,
            // Clients usually send at once, and the answer to trying is cheaper than the answer to asking.
            readable: true,
            writable: true,
            hung_up: false,
            eof: false,
            rest_unseen: false,
            carried_over: false,
            blocks: service.sends.is_some(),
        }
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

    /// Reads, answers and writes until the socket blocks, the conversation ends, or its share of the turn is
    /// used.
    pub fn work(&mut self, service: &mut Service) -> Turn {
        if self.waits_for_disk().is_some() {
            return self.keep_waiting(service);
        }
        let mut scratch = std::mem::take(&mut service.scratch);
        let mut share = service.quantum;
        self.active = service.clock.tick;
        self.go_on(service, &mut share);
        let turn = self.work_within(service, &mut scratch, &mut share);
        service.scratch = scratch;
        self.carried_over = self.machine.is_replying();
        match self.take_job() {
            Some(job) => Turn::Disk(Box::new(job)),
            None => turn,
        }
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
        if machine.is_lingering() || machine.wants().end != End::Open {
            ConnectionState::Lingering
        } else if machine.is_replying() || machine.owes_answer() {
            ConnectionState::Writing
        } else if machine.is_reading_body() {
            ConnectionState::ReadingBody
        } else if machine.is_idle() && machine.requests() > 0 {
            ConnectionState::Idle
        } else {
            ConnectionState::ReadingHead
        }
    }

    /// What it waits for.
    pub fn wants(&self) -> Wants {
        self.machine.wants()
    }

    /// The state machine, for its timers and states.
    pub fn machine(&mut self) -> &mut Connection<Pin> {
        &mut self.machine
    }

    /// Whether an event is needed to go on reading or writing, as the state machine wants.
    pub fn waits_for(&self) -> (bool, bool) {
        if self.waiting.is_some() {
            return (false, false);
        }
        let wants = self.machine.wants();
        (wants.read && !self.readable, wants.write && !self.writable)
    }

    /// When it is to be looked at, if nothing happens before: the client's deadline, or how long the disk may
    /// take.
    pub fn deadline(&self) -> Option<http1::Tick> {
        self.looks_after_wait_at().or_else(|| self.machine.deadline())
    }

    /// Acts on a deadline that has come. `None`: nothing has ended, ask for the deadline again.
    pub fn timeout(&mut self, service: &mut Service) -> Option<Turn> {
        if self.waits_for_disk().is_some() {
            return self.look_after_wait(service);
        }
        match self.machine.timeout(&service.limits, service.clock.tick) {
            http1::Timeout::NotYet => None,
            http1::Timeout::Answer(kind, error) => {
                service.counters.timeout(kind);
                self.refuse(service, error);
                Some(self.work(service))
            }
            http1::Timeout::Ended(kind) => {
                service.counters.timeout(kind);
                Some(self.work(service))
            }
        }
    }

    /// Ends whatever the client takes its time for, since others wait for its place. It is told so where an
    /// answer is owed, and its end is not awaited.
    pub fn give_way(&mut self, service: &mut Service) -> Turn {
        if let http1::Timeout::Answer(_, error) = self.machine.give_up() {
            self.refuse(service, error);
        }
        match self.work(service) {
            Turn::Blocked if self.machine.is_lingering() => Turn::Close,
            turn => turn,
        }
    }

    /// Gives back everything that belongs to the worker, and the socket.
    pub fn end(mut self, service: &mut Service) -> OwnedFd {
        if self.machine.is_replying() {
            self.machine.abort();
        }
        self.release(service);
        self.stop_waiting(service);
        service.buffers.give(std::mem::take(&mut self.rest));
        service.buffers.give(std::mem::take(&mut self.log_line));
        self.socket
    }

    /// The access log's line begun for the request under way.
    pub fn take_log_line(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.log_line)
    }

    /// When the request under way was read, in monotonic milliseconds.
    pub fn request_began_ms(&self) -> u64 {
        self.request_began_ms
    }

    fn work_within(&mut self, service: &mut Service, scratch: &mut [u8], share: &mut u64) -> Turn {
        loop {
            if self.waiting.is_some() {
                return Turn::Blocked;
            }
            if self.machine.is_replying() {
                match self.write(service, share, None) {
                    Written::ShareUsed => return Turn::Unfinished,
                    // A body may still be read behind a reply that would block.
                    Written::Blocked if !self.machine.is_reading_body() => return Turn::Blocked,
                    Written::All | Written::Blocked => {}
                }
            }
            match self.machine.wants().end {
                End::Open => {}
                End::Close if self.may_have_more() => {
                    self.take_what_is_behind(service, scratch, share);
                    if self.machine.wants().end == End::Close {
                        return Turn::Close;
                    }
                    continue;
                }
                End::Close => return Turn::Close,
                End::Reset => return Turn::Reset,
                End::ShutDown => {
                    if sys::socket::shutdown_write(self.socket.as_fd()).is_err() {
                        return Turn::Close;
                    }
                    self.machine.write_side_shut(&service.limits, service.clock.tick);
                    continue;
                }
            }
            let kept = self.rest.len();
            if self.rest_unseen || self.eof {
                scratch[..kept].copy_from_slice(&self.rest);
                self.rest_unseen = false;
                let was = self.machine.wants();
                self.take_input(service, &scratch[..kept], share);
                // With the client's end known, there is no event to wait for: go on as long as that changes
                // anything.
                if self.eof
                    && self.machine.wants() == was
                    && !self.machine.is_replying()
                    && self.waiting.is_none()
                {
                    return Turn::Close;
                }
            } else if self.readable && self.machine.wants().read {
                if *share == 0 {
                    return Turn::Unfinished;
                }
                scratch[..kept].copy_from_slice(&self.rest);
                match self.read(service, &mut scratch[kept..]) {
                    Some(n) => {
                        *share = share.saturating_sub(n as u64);
                        self.take_input(service, &scratch[..kept + n], share);
                    }
                    None if self.machine.wants().end == End::Open => return Turn::Blocked,
                    None => {}
                }
            } else {
                return Turn::Blocked;
            }
        }
    }

    /// Whether a client whose reply was the last may have sent something behind its request after all. A
    /// reply that went out at once left hardly any time for that, and such clients are not worth another call
    /// to ask.
    fn may_have_more(&self) -> bool {
        let suspicious = !self.rest.is_empty() || self.readable || self.carried_over || self.blocks;
        suspicious && !self.eof && self.machine.closes_after_reply()
    }

    /// Shows the machine what there is behind the last request: closing with bytes unread would reset the
    /// connection.
    fn take_what_is_behind(&mut self, service: &mut Service, scratch: &mut [u8], share: &mut u64) {
        let mut input = self.rest.len();
        scratch[..input].copy_from_slice(&self.rest);
        if input == 0 {
            input = self.read(service, scratch).unwrap_or(0);
        }
        self.rest_unseen = false;
        self.take_input(service, &scratch[..input], share);
    }

    /// Receives what is there. `None`: nothing, or the connection is broken.
    #[inline]
    fn read(&mut self, service: &mut Service, room: &mut [u8]) -> Option<usize> {
        match service.receive(self.socket.as_fd(), room) {
            Ok(0) => {
                self.eof = true;
                Some(0)
            }
            Ok(n) => {
                // Less than there was room for: the socket is empty, unless the end follows.
                self.readable = n == room.len() || self.hung_up;
                service.counters.bytes_received.add(n as u64);
                Some(n)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                None
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => None,
            Err(error) => {
                self.broken(service, &error, Failure::Receive);
                None
            }
        }
    }

    /// Lets the machine use up input, answers the requests in it, and keeps what is left.
    fn take_input(&mut self, service: &mut Service, input: &[u8], share: &mut u64) {
        let mut at = 0;
        loop {
            let received = self.machine.receive(&service.limits, service.clock.tick, &input[at..], self.eof);
            match received {
                Ok((used, step)) => {
                    at += used;
                    match step {
                        Step::Request(head) => {
                            self.begin_request(service, &head);
                            self.answer(service, &head, &input[at - used..at], Looked::default(), share);
                            if self.waiting.is_some() {
                                self.rest_unseen = at < input.len();
                                break;
                            }
                        }
                        Step::Refused(head, error) => {
                            self.begin_request(service, &head);
                            self.refuse(service, error);
                            at = input.len();
                            break;
                        }
                        Step::Body(_) | Step::EndOfRequest => {}
                        Step::NeedInput => break,
                        Step::Paused => {
                            self.rest_unseen = at < input.len();
                            break;
                        }
                        Step::Closed => {
                            at = input.len();
                            break;
                        }
                    }
                }
                Err(error) => {
                    self.refuse(service, error);
                    at = input.len();
                    break;
                }
            }
        }
        self.keep(service, &input[at..]);
    }

    /// Counts a request that was read, and begins its line of the access log.
    #[inline]
    fn begin_request(&mut self, service: &mut Service, head: &Head<'_>) {
        service.counters.requests.add(1);
        if let Some(log) = &mut service.log {
            let mut line = service.buffers.take();
            log.begin(&mut line, &self.peer, head, service.clock.unix_secs);
            self.log_line = line;
            self.request_began_ms = service.clock.ms;
        }
    }

    /// Answers a request, for which this has been looked at, or puts it by until more has been.
    fn answer(
        &mut self,
        service: &mut Service,
        head: &Head<'_>,
        consumed: &[u8],
        looked: Looked,
        share: &mut u64,
    ) {
        match service.answer(head, &looked) {
            Ok(plan) => {
                service.content.unkeep(looked);
                self.machine.respond(&service.limits, service.clock.tick, plan);
                self.carried_over = false;
                self.write(service, share, None);
            }
            Err(look) => {
                let mut kept = service.buffers.take();
                kept.extend_from_slice(consumed);
                self.put_by(service, Owed::Reply { consumed: kept, terms: head.terms }, looked, look);
            }
        }
    }

    /// Answers a breach of the protocol, where an answer is owed.
    fn refuse(&mut self, service: &mut Service, error: http1::ProtocolError) {
        service.counters.refusal(error.kind);
        if self.machine.owes_answer() {
            if let Some(log) = &mut service.log
                && self.log_line.is_empty()
            {
                let mut line = service.buffers.take();
                log.begin_unreadable(&mut line, &self.peer, service.clock.unix_secs);
                self.log_line = line;
                self.request_began_ms = service.clock.ms;
            }
            self.answer_breach(service, error, Looked::default());
        }
    }

    /// Answers it, for whose page this has been looked at, or puts it by until more has been.
    fn answer_breach(&mut self, service: &mut Service, error: http1::ProtocolError, looked: Looked) {
        match service.refuse(error, self.machine.error_terms(), &looked) {
            Ok(plan) => {
                service.content.unkeep(looked);
                self.machine.respond(&service.limits, service.clock.tick, plan);
            }
            Err(look) => self.put_by(service, Owed::Refusal(error), looked, look),
        }
    }

    /// Keeps input for later.
    fn keep(&mut self, service: &mut Service, rest: &[u8]) {
        if rest.is_empty() {
            if self.rest.capacity() > 0 {
                service.buffers.give(std::mem::take(&mut self.rest));
            }
            return;
        }
        if self.rest.capacity() == 0 {
            self.rest = service.buffers.take();
        }
        self.rest.clear();
        self.rest.extend_from_slice(rest);
    }

    /// Sends the reply until it is over, the socket is full, the disk has to be waited for, or the share is
    /// used. `resident` is the window of the file that is known to be in memory.
    fn write(&mut self, service: &mut Service, share: &mut u64, mut resident: Option<u64>) -> Written {
        while self.machine.is_replying() {
            if *share == 0 {
                return Written::ShareUsed;
            }
            if !self.writable {
                return Written::Blocked;
            }
            let sent = if self.blocks {
                self.send_blocking(service, *share, &mut resident)
            } else {
                self.send(service, *share, &mut resident)
            };
            let broken_off = self.blocks && service.alarm_has_rung();
            match sent {
                Ok(n) => {
                    *share = share.saturating_sub(n);
                    service.counters.bytes_sent.add(n);
                    self.machine.sent(&service.limits, service.clock.tick, n);
                }
                Err(Unsent::Full) => self.writable = false,
                Err(Unsent::Interrupted) => {}
                Err(Unsent::Absent(fetch)) => {
                    self.await_window(service, fetch);
                    return Written::Blocked;
                }
                Err(Unsent::Changed) => {
                    service.counters.reset(Reset::FileChanged);
                    self.machine.abort();
                }
                Err(Unsent::Broken(error)) => self.broken(service, &error, Failure::Send),
            }
            if broken_off && self.machine.is_replying() {
                service.held();
                self.carried_over = true;
                *share = 0;
            }
        }
        self.release(service);
        Written::All
    }

    /// The same as [`send`](Self::send) on a socket that blocks, unless too much time has gone by with such
    /// sends: then this client's block no more.
    fn send_blocking(
        &mut self,
        service: &mut Service,
        share: u64,
        resident: &mut Option<u64>,
    ) -> Result<u64, Unsent> {
        if service.may_block() {
            return self.send(service, MOST_AT_ONCE, resident);
        }
        sys::socket::set_nonblocking(self.socket.as_fd(), true)?;
        self.blocks = false;
        self.send(service, share, resident)
    }

    /// Makes one system call's worth of progress and says how many bytes it sent.
    fn send(&self, service: &Service, share: u64, resident: &mut Option<u64>) -> Result<u64, Unsent> {
        let mut slices = [Slice::EMPTY; GATHER];
        let mut count = 0;
        let mut file = None;
        let mut more = false;
        for segment in self.machine.output() {
            if file.is_some() || count == GATHER {
                more = true;
                break;
            }
            match segment {
                Segment::Own(bytes) => {
                    slices[count] = Slice::new(bytes);
                    count += 1;
                }
                Segment::Memory(pin, range) => {
                    slices[count] = service.content.memory(pin, range).ok_or(Unsent::Changed)?;
                    count += 1;
                }
                Segment::File(pin, offset, len) => file = Some((pin, offset, len)),
            }
        }
        let socket = self.socket.as_fd();
        let slices = &slices[..count];
        match file {
            // Nothing follows but the end, which takes these bytes along in one packet.
            None if !more && self.machine.closes_after_reply() => {
                Ok(sys::socket::send_more(socket, slices)? as u64)
            }
            None => Ok(sys::socket::write_vectored(socket, slices)? as u64),
            Some(_) if count > 0 => match service.coalesce {
                Coalesce::More | Coalesce::Auto => Ok(sys::socket::send_more(socket, slices)? as u64),
                Coalesce::None => Ok(sys::socket::write_vectored(socket, slices)? as u64),
                Coalesce::Cork => {
                    sys::socket::set_cork(socket, true)?;
                    Ok(sys::socket::write_vectored(socket, slices)? as u64)
                }
            },
            Some((pin, offset, len)) => {
                let mut from = offset;
                let wanted = disk::sendable(service, pin, offset, len.min(share), resident)? as usize;
                let last = !more && wanted as u64 == len;
                // A reply that took a while may have been overtaken by a change of the file: better to break
                // off than to complete something that the file never was.
                if last && self.carried_over && !service.content.intact(pin) {
                    return Err(Unsent::Changed);
                }
                let began_ms = if self.blocks { sys::clock::monotonic_ms() } else { 0 };
                let file = service.content.file(pin).ok_or(Unsent::Changed)?;
                let sent = sys::socket::send_file(socket, file, &mut from, wanted)?;
                if sent == 0 {
                    return Err(Unsent::Changed);
                }
                // The same after a call that blocked for a while: it may have been overtaken as well.
                if self.blocks
                    && sent as u64 == len
                    && sys::clock::monotonic_ms() != began_ms
                    && !service.content.intact(pin)
                {
                    return Err(Unsent::Changed);
                }
                if service.coalesce == Coalesce::Cork && last && sent as u64 == len {
                    sys::socket::set_cork(socket, false)?;
                }
                Ok(sent as u64)
            }
        }
    }

    /// Gives back what a finished reply held.
    fn release(&mut self, service: &mut Service) {
        if let Some(ended) = self.machine.release() {
            service.release(ended, self);
        }
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

/// Why nothing was sent.
enum Unsent {
    Full,
    Interrupted,
    /// These bytes of the file are not in memory, and here nobody waits for the disk.
    Absent(Fetch),
    Changed,
    Broken(io::Error),
}

impl From<io::Error> for Unsent {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock => Self::Full,
            io::ErrorKind::Interrupted => Self::Interrupted,
            _ => Self::Broken(error),
        }
    }
}
