//! One client's session: bursts of calls, thinking between them, and its end.
//!
//! A session that has arrived connects, sends the first request of a burst, and when its reply is whole the
//! rest of the burst in a row. After the last reply it thinks, or waits for the time at which the log has the
//! next burst begin. Its connection stays open from burst to burst; where the server closes it, another one
//! is opened for what is left, and a request that had been sent is sent again, unless it may have had its
//! effect (RFC 9110 section 9.2.2). A call that fails, or takes longer than the client's timeout, is the end
//! of the session.
//!
//! With TLS, a connection is of use once its handshake is over. Until then its client waits for it as for a
//! connection that is not up. A client that only wants a handshake has then got it: its call is over before
//! any request is sent, and it closes the connection.
//!
//! Whatever happens (an event of the socket, a time that has come) leads to [`Session::go_on`], which does
//! all that can be done now, and leaves in [`Session::deadline`] when to look again at the latest.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;

use http1::client::{BodyLength, Event};
use sys::client;
use sys::event::{Interest, Ready};

use crate::connection::{Connection, Flight, outcome_of, outcome_of_reply};
use crate::kit::{self, Kit};
use crate::queue::Arrival;
use crate::record::{Call, Nanos, Outcome, SessionEnd, SessionOutcome, nanos};

/// The most calls in flight on a connection: httperf's `--max-piped-calls`, which is 32 there.
const MAX_PIPELINED: usize = 32;

/// A slot for a session, used by one after the other.
#[derive(Debug)]
pub(crate) struct Session {
    /// Among all of the run.
    pub(crate) number: u32,
    /// Which of the connections that are kept it has, if they are.
    pub(crate) kept: Option<u32>,
    /// When it was due to arrive.
    intended: Nanos,
    started: Nanos,
    /// When the burst that begins should, where anything but the reply before it says so.
    due: Option<Nanos>,
    state: State,
    /// The numbers of the bursts after the present one.
    bursts: Range<usize>,
    /// The present burst.
    burst: usize,
    /// Calls of the burst that were issued, and answered.
    issued: usize,
    answered: usize,
    /// How often a call was tried again since the last one was answered.
    retried: u32,
    /// Calls of the session that were issued.
    position: u32,
    replies: u32,
    connections: u32,
    /// A call failed in a way that let the session go on.
    failed: bool,
    connection: Option<Connection>,
    flights: VecDeque<Flight>,
    /// Room for input of the next connection.
    room: Vec<u8>,
    /// When [`Session::due`] has something to do.
    pub(crate) deadline: Nanos,
    /// Distinguishes this connection's events from those of the one before it in the same slot.
    pub(crate) generation: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nobody is here.
    Vacant,
    /// Until then.
    Thinking(Nanos),
    /// Calls are on their way or about to be.
    Calling,
    /// It is over.
    Over(SessionOutcome),
}

/// Who has ended a connection, or is about to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ender {
    Server,
    /// This client, which can't use it any more.
    Client,
}

impl Session {
    pub(crate) fn vacant() -> Self {
        Self {
            number: 0,
            kept: None,
            intended: 0,
            started: 0,
            due: None,
            state: State::Vacant,
            bursts: 0..0,
            burst: 0,
            issued: 0,
            answered: 0,
            retried: 0,
            position: 0,
            replies: 0,
            connections: 0,
            failed: false,
            connection: None,
            flights: VecDeque::new(),
            room: Vec::new(),
            deadline: Nanos::MAX,
            generation: 0,
        }
    }

    /// Has a session come; before it is due, it waits. It goes on with the connection that it finds here, if
    /// there is one.
    pub(crate) fn arrive(&mut self, kit: &mut Kit<'_>, arrival: Arrival, kept: Option<u32>) {
        let now = kit.now();
        let Arrival { number, intended, came } = arrival;
        self.bursts = kit.bursts(number);
        (self.number, self.kept, self.intended, self.started) = (number, kept, intended, came);
        (self.position, self.replies, self.connections, self.failed) = (0, 0, 0, false);
        self.retried = 0;
        self.due = Some(intended);
        if intended > now {
            self.burst = usize::MAX;
            self.think(intended);
        } else {
            self.begin_burst();
            self.go_on(kit);
        }
    }

    /// Takes notice of what happened on the socket.
    pub(crate) fn ready(&mut self, kit: &mut Kit<'_>, event: Ready) {
        let Some(connection) = &mut self.connection else { return };
        if connection.connected.is_none() {
            if let Err(error) = client::outcome(&connection.socket) {
                self.fail(kit, outcome_of(&error));
                return self.go_on(kit);
            }
            if !event.writable {
                return;
            }
            self.note_connected(kit);
        }
        if let Some(connection) = &mut self.connection {
            connection.hung_up |= event.hang_up || event.error;
            if event.writable
                && let Err(error) = connection.push()
            {
                self.failed(kit, &error);
            }
        }
        if event.readable || event.hang_up || event.error {
            self.receive(kit);
        }
        self.go_on(kit);
    }

    /// Takes notice of the time.
    pub(crate) fn due(&mut self, kit: &mut Kit<'_>) {
        let now = kit.now();
        match self.state {
            State::Thinking(until) if until <= now => {
                self.begin_burst();
                self.go_on(kit);
            }
            State::Calling if self.deadline <= now => {
                let outcome = self.connection.as_ref().map_or(Outcome::ConnectTimeout, Connection::timeout);
                self.fail(kit, outcome);
                self.go_on(kit);
            }
            _ => {}
        }
    }

    /// Until when it does nothing by itself.
    pub(crate) fn thinks_until(&self) -> Option<Nanos> {
        if let State::Thinking(until) = self.state { Some(until) } else { None }
    }

    /// Since when its first call in flight waits for a reply, and how many calls do.
    pub(crate) fn waits(&self) -> Option<(Nanos, u64)> {
        let first = self.flights.front()?;
        Some((first.call.intended, self.flights.len() as u64))
    }

    /// What it came to, once it is over.
    pub(crate) fn end(&self, now: Nanos) -> Option<SessionEnd> {
        let State::Over(outcome) = self.state else { return None };
        let Self { intended, started, replies, connections, .. } = *self;
        Some(SessionEnd { intended, started, ended: now, replies, connections, outcome })
    }

    /// Makes room for the next one.
    pub(crate) fn leave(&mut self) {
        self.state = State::Vacant;
        self.deadline = Nanos::MAX;
    }

    /// Ends it where it is, because the run has ended. One that has not arrived yet never was.
    pub(crate) fn cut_off(&mut self, kit: &mut Kit<'_>) {
        let arrived = self.connections > 0 || self.position > 0;
        match self.state {
            State::Thinking(_) | State::Calling if arrived => {
                self.give_up(kit, Outcome::Unfinished);
                self.state = State::Over(SessionOutcome::Unfinished);
            }
            State::Thinking(_) | State::Calling => self.leave(),
            // A connection may have been kept for another one.
            State::Vacant | State::Over(_) => self.close(kit),
        }
    }

    /// Does all that can be done now.
    fn go_on(&mut self, kit: &mut Kit<'_>) {
        while self.state == State::Calling {
            self.issue(kit);
            if self.flights.is_empty() {
                self.end_burst(kit);
                continue;
            }
            if self.connection.is_none() {
                self.connect(kit);
                continue;
            }
            let now = kit.now();
            if let Some(connection) = &mut self.connection
                && connection.is_ready()
                && connection.has_unsent(&self.flights)
                && let Err(error) = connection.send(&mut self.flights, kit.requests, now)
            {
                self.failed(kit, &error);
                continue;
            }
            self.deadline = self.flights.iter().map(|flight| flight.deadline).min().unwrap_or(Nanos::MAX);
            return;
        }
    }

    fn begin_burst(&mut self) {
        self.state = State::Calling;
        (self.issued, self.answered) = (0, 0);
        self.burst = self.bursts.next().unwrap_or(self.burst);
    }

    /// The burst has been answered: thinks, goes on with the next one, or is over.
    fn end_burst(&mut self, kit: &mut Kit<'_>) {
        if self.bursts.is_empty() {
            if self.kept.is_none() {
                self.close(kit);
            }
            self.state =
                State::Over(if self.failed { SessionOutcome::Failed } else { SessionOutcome::Completed });
            return;
        }
        let now = kit.now();
        self.due = kit.run.begins(self.bursts.start).map(|at| at.max(now));
        let until = self.due.unwrap_or_else(|| {
            let think = kit.run.log.burst(self.burst).think.unwrap_or(kit.timeouts(self.number).think);
            now.saturating_add(nanos(think))
        });
        if until <= now {
            self.begin_burst();
        } else {
            self.think(until);
        }
    }

    fn think(&mut self, until: Nanos) {
        self.state = State::Thinking(until);
        self.deadline = until;
    }

    /// Issues calls of the burst: the first alone, the rest in a row.
    fn issue(&mut self, kit: &mut Kit<'_>) {
        let calls = kit.run.log.burst(self.burst).calls;
        let room = if self.answered == 0 { 1 } else { MAX_PIPELINED };
        if self.issued == calls.len() || self.flights.len() >= room {
            return;
        }
        let now = kit.now();
        while self.issued < calls.len() && self.flights.len() < room {
            if !kit.may_ask() {
                // The session ends with what is in flight.
                (self.issued, self.bursts.start) = (calls.len(), self.bursts.end);
                return;
            }
            let request = calls[self.issued];
            let intended = self.due.take().unwrap_or(now);
            let deadline = now + kit.reply_timeout(self.number, request);
            let is_handshake = kit.wants_handshake(self.number);
            let call = Call { is_handshake, ..Call::new(request, self.number, self.position, intended, now) };
            self.flights.push_back(Flight::new(call, deadline));
            kit.recorder.issue(&call);
            self.issued += 1;
            self.position += 1;
        }
    }

    fn connect(&mut self, kit: &mut Kit<'_>) {
        let now = kit.now();
        self.connections += 1;
        if kit.may_open == 0 {
            return self.fail(kit, Outcome::NoDescriptor);
        }
        let (source, target) = kit.way(self.number, self.kept);
        self.generation = self.generation.wrapping_add(1);
        let token = u64::from(self.generation) << 32 | u64::from(kit.slot);
        let connected = target.connect(source).and_then(|(socket, up)| {
            kit.epoll.add(&socket, token, Interest::BOTH.on_edge())?;
            Ok((socket, up))
        });
        match connected {
            Ok((socket, up)) => {
                kit.may_open -= 1;
                let number = kit.number_connection();
                self.connection = Some(Connection::new(socket, number, now, std::mem::take(&mut self.room)));
                if let Some(first) = self.flights.front_mut() {
                    first.deadline = now + kit.connect_timeout(self.number);
                }
                if up {
                    self.note_connected(kit);
                }
            }
            Err(error) => self.fail(kit, outcome_of(&error)),
        }
    }

    fn note_connected(&mut self, kit: &mut Kit<'_>) {
        let now = kit.now();
        let Some(connection) = &mut self.connection else { return };
        connection.connected = Some(now);
        if kit.wants_ports {
            connection.port = kit::local_port(&connection.socket);
        }
        if let Some(first) = self.flights.front_mut() {
            first.call.connected = Some(now);
        }
        match kit.tls(self.number, self.kept) {
            None => self.await_replies(kit, now),
            Some(client) => {
                // Not before: while many wait to be connected, they need no memory for it.
                let begun = client.begin().and_then(|tls| {
                    connection.tls = Some(Box::new(tls));
                    connection.push()
                });
                if let Err(error) = begun {
                    self.failed(kit, &error);
                }
            }
        }
    }

    /// Takes notice of the end of the handshake.
    fn note_established(&mut self, kit: &mut Kit<'_>) {
        let now = kit.now();
        if let Some(connection) = &mut self.connection
            && connection.note_established(now)
        {
            if kit.wants_handshake(self.number) {
                self.end_handshake(kit, now);
            } else {
                self.await_replies(kit, now);
            }
        }
    }

    /// The client has the handshake, which is all that it wants.
    fn end_handshake(&mut self, kit: &mut Kit<'_>, now: Nanos) {
        if let Some(flight) = self.flights.pop_front() {
            kit.recorder.call(&self.call(&flight, Outcome::Handshake, now));
        }
        self.close(kit);
        self.state =
            State::Over(if self.failed { SessionOutcome::Failed } else { SessionOutcome::Completed });
    }

    /// The client has its connection, and gives the server as long for its replies.
    fn await_replies(&mut self, kit: &Kit<'_>, now: Nanos) {
        for flight in &mut self.flights {
            flight.deadline = now + kit.reply_timeout(self.number, flight.call.request);
        }
    }

    /// Reads what there is.
    fn receive(&mut self, kit: &mut Kit<'_>) {
        let mut room = std::mem::take(&mut kit.room);
        while let Some(connection) = &mut self.connection {
            let has_tls = connection.tls.is_some();
            let droppable = kit.drops_in_kernel && !has_tls;
            let skippable = if droppable { connection.http.skip_body_hint() } else { 0 };
            // A body without a known end is read to see the end.
            let skip = skippable > 0 && skippable < u64::MAX && connection.rest.is_empty();
            let received = if skip {
                connection.discard(skippable)
            } else {
                connection.receive(&mut room, kit.at_a_time, &mut kit.records)
            };
            let received = match received {
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => {
                    self.failed(kit, &error);
                    break;
                }
            };
            if has_tls {
                self.note_established(kit);
            }
            let input = if skip {
                if let Some(first) = self.flights.front_mut() {
                    first.call.body_bytes += received.count as u64;
                }
                &[]
            } else {
                &room[..received.count]
            };
            self.understand(kit, input, received.end);
            if received.drained || received.end {
                break;
            }
        }
        kit.room = room;
    }

    /// Goes through input.
    fn understand(&mut self, kit: &mut Kit<'_>, input: &[u8], end: bool) {
        let now = kit.now();
        let mut at = 0;
        while let Some(connection) = &mut self.connection {
            if end && at == input.len() && connection.is_truncated() {
                return self.broken(kit, Outcome::CutShort);
            }
            let (used, event) = match connection.http.receive(&input[at..], end) {
                Ok(understood) => understood,
                Err(error) => {
                    if let Some(first) = self.flights.front_mut()
                        && at < input.len()
                    {
                        first.call.first_byte.get_or_insert(now);
                    }
                    return self.broken(kit, outcome_of_reply(error));
                }
            };
            let piece = &input[at..at + used];
            let Some(first) = self.flights.front_mut() else {
                match event {
                    // Nothing is awaited, so this is the server's end.
                    Event::NeedInput => return,
                    _ => return self.move_on(kit, Outcome::Closed, Ender::Server),
                }
            };
            if at < input.len() {
                first.call.first_byte.get_or_insert(now);
            }
            at += used;
            match event {
                Event::NeedInput => {
                    connection.rest.extend_from_slice(&input[at..]);
                    return;
                }
                // It counts as part of the head that follows it.
                Event::Interim(_) => first.call.head_bytes += used as u32,
                Event::Head(head) => {
                    first.call.status = head.status.0;
                    first.call.head_bytes += used as u32;
                    if let BodyLength::Bytes(length) = head.body {
                        first.call.promised = Some(length);
                    }
                    if head.status.0 == 200
                        && let Some(files) = &kit.files
                    {
                        first.comparison = files.begin(first.call.request);
                    }
                }
                Event::Body(range) => {
                    if let (Some(files), Some(comparison)) = (&mut kit.files, &mut first.comparison) {
                        files.compare(comparison, first.call.body_bytes, &piece[range.clone()]);
                    }
                    first.call.body_bytes += range.len() as u64;
                }
                Event::EndOfReply { keep_alive } => {
                    // What is left of a request that was answered early would be taken for the next one.
                    let ender = if keep_alive { Ender::Client } else { Ender::Server };
                    let keep_alive = keep_alive && connection.has_sent_first();
                    let more = at < input.len() && (connection.http.awaited() == 0 || !keep_alive);
                    let outcome = match &first.comparison {
                        _ if more => Outcome::WrongLength,
                        Some(comparison) => comparison.end(first.call.body_bytes).unwrap_or(Outcome::Reply),
                        None => Outcome::Reply,
                    };
                    self.answer(kit, outcome, now);
                    if more || !keep_alive {
                        return self.move_on(kit, Outcome::Closed, ender);
                    }
                }
                Event::Closed => return self.broken(kit, Outcome::Closed),
            }
        }
    }

    /// The first call in flight is over, with a whole reply.
    fn answer(&mut self, kit: &mut Kit<'_>, outcome: Outcome, now: Nanos) {
        let (Some(connection), Some(flight)) = (&mut self.connection, self.flights.pop_front()) else {
            return;
        };
        let right = outcome == Outcome::Reply;
        connection.answered(right);
        self.answered += 1;
        self.retried = 0;
        self.replies += u32::from(right);
        self.failed |= !right;
        let compared = flight.comparison.is_some();
        kit.recorder.call(&Call { compared, ..self.call(&flight, outcome, now) });
    }

    /// The connection is of no more use, because a call on it failed.
    fn failed(&mut self, kit: &mut Kit<'_>, error: &io::Error) {
        let outcome = outcome_of(error);
        if outcome == Outcome::TlsError
            && let Some(connection) = &self.connection
        {
            kit.recorder.tls_error(connection.started, &error.to_string());
        }
        self.broken(kit, outcome);
    }

    /// The connection is of no more use, for this reason.
    fn broken(&mut self, kit: &mut Kit<'_>, outcome: Outcome) {
        let Some(first) = self.flights.front() else { return self.move_on(kit, outcome, Ender::Server) };
        let served = self.connection.as_ref().is_some_and(|connection| connection.served);
        let untouched = first.call.first_byte.is_none();
        if served && untouched && matches!(outcome, Outcome::Closed | Outcome::Reset) {
            // The server may end a connection between replies at any time (RFC 9112 section 9.3.1).
            self.move_on(kit, outcome, Ender::Server);
        } else {
            self.fail(kit, outcome);
        }
    }

    /// The connection is at its end, and calls in flight are unanswered: they go to the next one, or fail
    /// like this.
    fn move_on(&mut self, kit: &mut Kit<'_>, outcome: Outcome, ender: Ender) {
        if let Some(place) = self.unrepeatable(kit)
            && let Some(flight) = self.flights.remove(place)
        {
            self.flights.push_front(flight);
            return self.fail(kit, outcome);
        }
        let burst = kit.run.log.burst(self.burst).calls.len();
        let more =
            self.kept.is_some() || !self.flights.is_empty() || self.issued < burst || !self.bursts.is_empty();
        if let Some(connection) = &mut self.connection {
            connection.lost = more && ender == Ender::Server;
        }
        self.close(kit);
    }

    /// The first call in flight that may have had its effect already, and might have another if it were sent
    /// again.
    fn unrepeatable(&self, kit: &Kit<'_>) -> Option<usize> {
        let repeatable = |flight: &Flight| kit.requests[flight.call.request as usize].is_idempotent;
        self.flights.iter().position(|flight| flight.has_begun() && !repeatable(flight))
    }

    /// The first call in flight has failed.
    fn fail(&mut self, kit: &mut Kit<'_>, outcome: Outcome) {
        if outcome.is_timeout()
            && self.retried < kit.timeouts(self.number).retries
            && let Some(flight) = self.flights.pop_front()
        {
            let now = kit.now();
            self.failed = true;
            self.retried += 1;
            let call = self.call(&flight, outcome, now);
            kit.recorder.call(&call);
            if self.unrepeatable(kit).is_none() {
                // Another attempt is another call, which nobody intended earlier: the client asks for it,
                // whatever the method.
                let Call { request, session, position, is_handshake, .. } = flight.call;
                let call = Call { is_handshake, ..Call::new(request, session, position, now, now) };
                self.flights.push_front(Flight::new(call, now));
                kit.recorder.issue(&call);
                return self.close(kit);
            }
            // What was sent behind it can't be asked again, and goes down with it.
            self.give_up(kit, Outcome::Abandoned);
        } else {
            self.give_up(kit, outcome);
        }
        self.state = State::Over(SessionOutcome::Failed);
    }

    /// Records all calls in flight as failed, and closes the connection.
    fn give_up(&mut self, kit: &mut Kit<'_>, outcome: Outcome) {
        let now = kit.now();
        let mut outcome = outcome;
        if outcome == Outcome::Unfinished
            && let Some(connection) = &mut self.connection
        {
            connection.cut_off();
        }
        while let Some(flight) = self.flights.pop_front() {
            let call = self.call(&flight, outcome, now);
            kit.recorder.call(&call);
            if outcome != Outcome::Unfinished {
                outcome = Outcome::Abandoned;
            }
        }
        self.close(kit);
    }

    /// Closes the connection, if there is one. Calls in flight wait for the next.
    fn close(&mut self, kit: &mut Kit<'_>) {
        let Some(mut connection) = self.connection.take() else { return };
        let now = kit.now();
        kit.may_open += 1;
        kit.recorder.connection(&connection.end(now));
        connection.rest.clear();
        self.room = connection.rest;
        for flight in &mut self.flights {
            let deadline = now + kit.reply_timeout(self.number, flight.call.request);
            flight.send_again(deadline);
        }
    }

    fn call(&self, flight: &Flight, outcome: Outcome, now: Nanos) -> Call {
        let (connection, client_port) =
            self.connection.as_ref().map_or((u32::MAX, 0), |connection| (connection.number, connection.port));
        Call { connection, client_port, ended: now, outcome, gives_up: flight.deadline, ..flight.call }
    }
}
