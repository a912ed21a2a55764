//! One request on its way to an application, and the reply on its way back.
//!
//! ```text
//! Body --> Queued --> Due --> Asking --> Over
//! ```
//!
//! The body is taken in (`Body`), there is room among the requests in flight (`Queued`), a server is found
//! and connected to (`Due`), the request is sent to it while its reply is received (`Asking`), and what is
//! left of the reply is for the client to take (`Over`). The first answer that is none ends it with a
//! [`Failure`]; once the client has been sent a part of a reply, all that can be done is a reset.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use fastcgi::{Output, response};
use http1::{Head, OpenReply, Plan, Status, Terms, Tick};
use sys::client;
use sys::socket::is_exhaustion;

use super::asker::Asker;
use super::course::{Course, Spent};
use super::delivery::Delivery;
use super::failure::Failure;
use super::link::Link;
use super::params;
use super::pool::{PoolPatience, Tried};
use super::queue::{Entry, Ticket};
use super::queues::now_us;
use super::spool::Spool;
use super::{Gateway, Tools};
use crate::account::Account;
use crate::content::{Call, NamedFile, Pin, SiteNumber};

/// A request for an application.
#[derive(Debug)]
pub struct Relay {
    call: Box<Call>,
    /// The request's head, as it was consumed.
    consumed: Vec<u8>,
    terms: Terms,
    asker: Asker,
    /// The number of the pool, and how long its servers may take.
    pool: usize,
    patience: PoolPatience,
    stage: Stage,
    /// Its place among the requests in flight.
    flying: Option<Ticket>,
    body: Spool,
    tried: Tried,
    /// A connection that had been kept broke, and it is sent once more.
    is_repeated: bool,
    /// The head of the reply, until it is whole.
    head: Vec<u8>,
    scan: response::Scan,
    delivery: Option<Delivery>,
    /// Bytes in memory, as the gateway has counted them.
    memory: usize,
    /// The file that is to be sent in place of a reply.
    named: Option<Box<NamedFile>>,
    /// What the application says for the error log.
    errors: Vec<u8>,
    course: Course,
    /// When the request was whole, when a server was first looked for, and when the one asked last said or
    /// took something.
    asked_at: Tick,
    due_since: Tick,
    active: Tick,
}

#[derive(Debug)]
enum Stage {
    Body,
    Queued(Ticket),
    /// Not before that, if something was tried already.
    Due(Option<Tick>),
    Asking(Link),
    Over,
}

/// The longest head of a reply.
const MOST_HEAD: usize = 64 << 10;
/// Most of what an application says for the error log that is kept, for each request.
const MOST_ERRORS: usize = 4 << 10;
/// Bodies up to this size are kept in memory, if there is enough.
const BODY_IN_MEMORY: usize = 1 << 20;
/// And up to this size in any case: a file takes more.
const SMALL_BODY: usize = 4 << 10;
/// How long until a server is tried again whose queue is full.
const PAUSE_TICKS: u32 = 10 / Tick::MS;

impl Relay {
    /// For a call, on the terms of a request whose head was consumed as said.
    ///
    /// # Errors
    ///
    /// Its pool is unknown, or its path is none of a script's.
    pub fn new(
        gateway: &Gateway,
        call: Box<Call>,
        (consumed, terms): (Vec<u8>, Terms),
        asker: Asker,
        now: Tick,
    ) -> Result<Self, Failure> {
        let pool = gateway.pool(&call.pool).ok_or(Failure::NoPool)?;
        // They name no script, and would divide what applications log.
        if [&call.name, &call.info].iter().any(|part| part.iter().any(|byte| matches!(byte, b'\r' | b'\n'))) {
            return Err(Failure::LineBreak);
        }
        Ok(Self {
            call,
            consumed,
            terms,
            asker,
            pool,
            patience: gateway.pools[pool].patience,
            stage: Stage::Body,
            flying: None,
            body: Spool::default(),
            tried: Tried::default(),
            is_repeated: false,
            head: Vec::new(),
            scan: response::Scan::default(),
            delivery: None,
            memory: 0,
            named: None,
            errors: Vec::new(),
            course: Course::new(gateway.desk.counters(pool)),
            asked_at: now,
            due_since: now,
            active: now,
        })
    }

    /// Whether the request's body is awaited.
    pub fn awaits_body(&self) -> bool {
        matches!(self.stage, Stage::Body)
    }

    /// Takes in more of the body, and is told how much is left of it, if that is known.
    ///
    /// # Errors
    ///
    /// It can't be kept.
    pub fn take_body(
        &mut self,
        gateway: &mut Gateway,
        bytes: &[u8],
        left: Option<u64>,
    ) -> Result<(), Failure> {
        let length = self.body.length() + bytes.len() as u64 + left.unwrap_or(0);
        let has_room = usize::try_from(length).is_ok_and(|length| {
            let more = length.saturating_sub(self.body.in_memory());
            length <= BODY_IN_MEMORY && (more == 0 || gateway.has_memory_for(more))
        });
        let room = if has_room { BODY_IN_MEMORY } else { SMALL_BODY };
        if has_room && let Some(left) = left {
            self.body.expect(bytes.len() + left as usize);
        }
        if let Some(file) = self.body.write(bytes, room, &gateway.spool).map_err(Failure::Spool)? {
            gateway.own(file);
        }
        self.count_memory(gateway);
        Ok(())
    }

    /// Where more of the body may be received, as much as there is room for behind it: what was asked for when
    /// its length was known.
    pub fn room_for_body(&mut self) -> Option<&mut Vec<u8>> {
        self.body.room()
    }

    /// So many bytes of the body have been received there.
    pub fn has_received(&mut self, count: usize) {
        self.body.received(count);
    }

    /// The body is complete, or there is none: the request goes to the queue.
    ///
    /// # Errors
    ///
    /// There is no room.
    pub fn end_body(&mut self, gateway: &mut Gateway, now: Tick) -> Result<(), Failure> {
        (self.asked_at, self.due_since) = (now, now);
        self.course.is_complete();
        let (worker, account) = (gateway.desk.worker, Account::of(&self.asker.client));
        let (entry, woken) = gateway.desk.queue(self.pool).enter(worker, account, now_us());
        gateway.wake(woken);
        match entry {
            Entry::Goes(ticket) => {
                self.flying = Some(ticket);
                self.course.is_in_flight();
                self.stage = Stage::Due(None);
                Ok(())
            }
            Entry::Waits(ticket) => {
                self.stage = Stage::Queued(ticket);
                gateway.begin_waiting(now);
                Ok(())
            }
            Entry::Full => Err(Failure::Full),
        }
    }

    /// Whether it waits in the queue no longer, although it did.
    pub fn may_go(&self, gateway: &Gateway) -> bool {
        match &self.stage {
            Stage::Queued(ticket) => !gateway.desk.queue(self.pool).waits(ticket),
            _ => false,
        }
    }

    /// Has it called by that name, which is not 0, when it need not wait in the queue any more.
    pub fn name(&self, gateway: &Gateway, name: u64) {
        if let Stage::Queued(ticket) = &self.stage {
            gateway.desk.queue(self.pool).name(ticket, name);
        }
    }

    /// Whether it waits in the queue.
    pub fn is_queued(&self) -> bool {
        matches!(self.stage, Stage::Queued(_))
    }

    /// Goes on as far as it can without waiting.
    ///
    /// # Errors
    ///
    /// There will be no reply, or no more of it.
    pub fn work(&mut self, gateway: &mut Gateway, tools: &mut Tools<'_>) -> Result<(), Failure> {
        if let Some(delivery) = &mut self.delivery {
            delivery.take_up(tools)?;
        }
        let worked = self.go_on(gateway, tools);
        self.count_memory(gateway);
        worked
    }

    fn go_on(&mut self, gateway: &mut Gateway, tools: &mut Tools<'_>) -> Result<(), Failure> {
        loop {
            match &mut self.stage {
                Stage::Body | Stage::Over => return Ok(()),
                Stage::Queued(ticket) => {
                    let queue = gateway.desk.queue(self.pool);
                    if queue.waits(ticket) {
                        return Ok(());
                    }
                    if !queue.goes(ticket) {
                        return Err(Failure::Full);
                    }
                    gateway.waiting -= 1;
                    if let Stage::Queued(ticket) = std::mem::replace(&mut self.stage, Stage::Due(None)) {
                        self.flying = Some(ticket);
                        self.course.is_in_flight();
                    }
                    self.due_since = tools.now;
                }
                Stage::Due(not_before) => {
                    if not_before.is_some_and(|until| !until.reached(tools.now)) {
                        return Ok(());
                    }
                    self.connect(gateway, tools)?;
                }
                Stage::Asking(link) if link.is_connecting => {
                    if !link.has_connected() {
                        return Ok(());
                    }
                    match client::outcome(&*link) {
                        Ok(()) => self.ask(gateway, tools.now)?,
                        Err(error) => {
                            let server = link.server;
                            self.let_go(gateway);
                            self.is_away(gateway, server, error, tools.now)?;
                        }
                    }
                }
                Stage::Asking(_) => match self.exchange(gateway, tools) {
                    Ok(true) => {}
                    Ok(false) => return Ok(()),
                    Err(failure) if self.may_repeat(&failure) => self.repeat(gateway, tools.now),
                    Err(failure) => return Err(failure),
                },
            }
        }
    }

    /// Sends and receives. Says whether to come back at once.
    fn exchange(&mut self, gateway: &mut Gateway, tools: &mut Tools<'_>) -> Result<bool, Failure> {
        if let Stage::Asking(link) = &mut self.stage
            && link.send(&mut self.body, tools.share).map_err(Failure::Broken)?
        {
            self.active = tools.now;
        }
        self.receive(gateway, tools)
    }

    /// Whether the request can be sent once more: the server has closed a connection that had been kept, as
    /// it may at any time, and has said nothing. (Only requests that may be repeated are sent on those.)
    fn may_repeat(&self, failure: &Failure) -> bool {
        let is_unheard = matches!(&self.stage, Stage::Asking(link) if link.is_reused && !link.has_heard);
        is_unheard && !self.is_repeated && matches!(failure, Failure::Closed | Failure::Broken(_))
    }

    fn repeat(&mut self, gateway: &mut Gateway, now: Tick) {
        gateway.desk.counters(self.pool).retried.add_among_others(1);
        self.let_go(gateway);
        self.body.rewind();
        (self.is_repeated, self.due_since) = (true, now);
        self.stage = Stage::Due(None);
    }

    /// Takes a connection that has been kept, or finds a server and connects to it, or begins to.
    fn connect(&mut self, gateway: &mut Gateway, tools: &mut Tools<'_>) -> Result<(), Failure> {
        let now = tools.now;
        if gateway.pools[self.pool].keep > 0
            && !self.is_repeated
            && Head::again(&self.consumed, self.terms).is_some_and(|head| head.method.is_idempotent())
            && let Some(link) = gateway.take_kept(self.pool, tools.scratch)
        {
            gateway.pools[self.pool].begin(link.server);
            gateway.desk.counters(self.pool).reused.add_among_others(1);
            self.stage = Stage::Asking(link);
            return self.ask(gateway, now);
        }
        let pool = &mut gateway.pools[self.pool];
        let Some(server) = pool.choose(self.tried, now) else {
            let nobody = io::ErrorKind::ConnectionRefused.into();
            return Err(Failure::Unreachable(nobody));
        };
        self.tried.note(server);
        match pool.connect(server) {
            Ok((socket, is_up)) => {
                pool.begin(server);
                let keeps = pool.keep > 0;
                gateway.own(&socket);
                self.stage = Stage::Asking(Link::new(socket, server, is_up, keeps));
                self.active = now;
                if is_up { self.ask(gateway, now) } else { Ok(()) }
            }
            Err(error) => self.is_away(gateway, server, error, now),
        }
    }

    /// A server can't be connected to: others may be.
    fn is_away(
        &mut self,
        gateway: &mut Gateway,
        server: usize,
        error: io::Error,
        now: Tick,
    ) -> Result<(), Failure> {
        let pool = &mut gateway.pools[self.pool];
        // The queue of a Unix socket is full, or there are no descriptors: nothing tells when that changes.
        let is_busy = error.kind() == io::ErrorKind::WouldBlock || is_exhaustion(&error);
        if !is_busy {
            pool.is_away(server, now);
        }
        if pool.has_others(self.tried) {
            self.stage = Stage::Due(None);
            return Ok(());
        }
        if !is_busy {
            return Err(Failure::Unreachable(error));
        }
        if self.due_since.after(self.patience.connect).reached(now) {
            return Err(Failure::Busy);
        }
        self.tried = Tried::default();
        self.stage = Stage::Due(Some(now.after(PAUSE_TICKS)));
        Ok(())
    }

    /// The connection is up: begins the request.
    fn ask(&mut self, gateway: &mut Gateway, now: Tick) -> Result<(), Failure> {
        let Stage::Asking(link) = &mut self.stage else { return Ok(()) };
        let pool = &mut gateway.pools[self.pool];
        link.is_connecting = false;
        self.course.is_connected();
        pool.is_there(link.server);
        self.active = now;
        let head = Head::again(&self.consumed, self.terms).ok_or(Failure::Unreadable)?;
        let body = Some(self.body.length()).filter(|length| *length > 0);
        link.begin(|params| params::write(params, &head, &self.call, &self.asker, body, &pool.params))?;
        Ok(())
    }

    /// Receives from the server, as far as the client takes it. Says whether to come back at once.
    fn receive(&mut self, gateway: &mut Gateway, tools: &mut Tools<'_>) -> Result<bool, Failure> {
        let wants_input = self.wants_input();
        let Stage::Asking(link) = &mut self.stage else { return Ok(false) };
        if !wants_input {
            // The client keeps the server waiting.
            self.active = tools.now;
        }
        if !link.readable || !wants_input || *tools.share == 0 {
            return Ok(false);
        }
        let room = &mut *tools.scratch;
        let Some(count) = link.receive(room).map_err(Failure::Broken)? else { return Ok(link.readable) };
        if count == 0 {
            // It has said all that it promised.
            let is_whole =
                self.delivery.as_ref().is_some_and(Delivery::has_all_promised) || self.named.is_some();
            return if is_whole {
                self.end_reply(gateway, tools).map(|()| false)
            } else {
                Err(Failure::Closed)
            };
        }
        *tools.share = tools.share.saturating_sub(count as u64);
        self.active = tools.now;
        let mut input = std::mem::take(&mut tools.scratch);
        let taken = self.take_in(gateway, &input[..count], tools);
        std::mem::swap(&mut tools.scratch, &mut input);
        taken?;
        Ok(true)
    }

    /// Makes what it means of what the server said.
    fn take_in(
        &mut self,
        gateway: &mut Gateway,
        mut input: &[u8],
        tools: &mut Tools<'_>,
    ) -> Result<(), Failure> {
        loop {
            let Stage::Asking(link) = &mut self.stage else { return Ok(()) };
            let (used, output) = link.protocol.receive(input)?;
            match output {
                Output::NeedInput => return Ok(()),
                Output::Stdout(range) => self.take_reply(gateway, &input[range], tools)?,
                Output::Stderr(range) => {
                    let room = MOST_ERRORS.saturating_sub(self.errors.len());
                    self.errors.extend(input[range].iter().take(room));
                }
                // Nobody has asked it which it knows.
                Output::Knows(_) | Output::Returned(_) | Output::Filled(_) => return Err(Failure::Unasked),
                Output::End { .. } => {
                    self.rest(gateway, &input[used..]);
                    return self.end_reply(gateway, tools);
                }
            }
            input = &input[used..];
        }
    }

    /// Keeps the server's connection for another request, if it may and can be kept. `behind` has come behind
    /// the reply.
    fn rest(&mut self, gateway: &mut Gateway, behind: &[u8]) {
        let Stage::Asking(link) = &mut self.stage else { return };
        if !gateway.may_keep(self.pool) || !link.rest(behind) {
            return;
        }
        if let Stage::Asking(link) = std::mem::replace(&mut self.stage, Stage::Over) {
            gateway.pools[self.pool].end(link.server);
            gateway.resting.push((self.pool, link));
        }
    }

    /// Takes in a piece of the CGI response: head first, then body.
    fn take_reply(
        &mut self,
        gateway: &mut Gateway,
        bytes: &[u8],
        tools: &mut Tools<'_>,
    ) -> Result<(), Failure> {
        self.course.has_reply();
        if let Some(delivery) = &mut self.delivery {
            if let Err(error) = delivery.supply(bytes, (gateway, self.pool), tools) {
                gateway.complain(now_us() / 1000, &self.request(), &Failure::Spill(error));
            }
            return Ok(());
        }
        if self.named.is_some() {
            return Ok(());
        }
        self.head.extend_from_slice(bytes);
        if let Some(end) = self.scan.find_end(&self.head, MOST_HEAD)? {
            let head = std::mem::take(&mut self.head);
            let parsed = response::parse(&head[..end])?;
            self.named = gateway.pools[self.pool].send_files.named(&parsed, self.call.site)?.map(Box::new);
            if self.named.is_some() {
                return Ok(());
            }
            let mut reply = self.open(&parsed, tools);
            reply.supply(tools.limits, tools.now, &head[end..]);
            self.delivery = Some(Delivery::new(reply, gateway));
        }
        Ok(())
    }

    /// Begins the reply.
    fn open(&self, head: &response::Head<'_>, tools: &mut Tools<'_>) -> OpenReply<Pin> {
        let terms = if head.length.is_some() { self.terms } else { self.terms.of_unknown_length() };
        let sheet = tools.sheets.pop().unwrap_or_default();
        let mut plan = Plan::new(sheet, Status(head.status), terms, tools.stamp);
        for (name, value) in head.for_client() {
            plan.field(name, value);
        }
        plan.open(head.length, tools.limits, tools.now)
    }

    /// The server has said all.
    fn end_reply(&mut self, gateway: &mut Gateway, tools: &mut Tools<'_>) -> Result<(), Failure> {
        self.course.has_all();
        self.let_go(gateway);
        self.leave_queue(gateway);
        self.tell_errors();
        // Nobody will ask for it again, and the client may take its time.
        if let Some(file) = self.body.file() {
            gateway.leave(file);
        }
        self.body = Spool::default();
        if self.named.is_some() {
            return Ok(());
        }
        let delivery = self.delivery.as_mut().ok_or(response::Malformed::CutShort)?;
        delivery.finish(tools)
    }

    /// Ends it, be the reply complete or not: gives back the head of its request, to be used again, and what
    /// there is of a reply.
    pub fn end(mut self, gateway: &mut Gateway) -> (Vec<u8>, Option<OpenReply<Pin>>) {
        if let Stage::Asking(link) = &mut self.stage
            && !link.is_connecting
        {
            link.abort();
            // The application may work on.
            if let Some(ticket) = self.flying.take() {
                gateway.wake(gateway.desk.queue(self.pool).abandon(ticket, now_us()));
            }
        }
        self.let_go(gateway);
        self.leave_queue(gateway);
        self.tell_errors();
        let (spill, reply) = self.delivery.map(Delivery::end).unzip();
        for spool in [Some(self.body), spill].iter().flatten() {
            if let Some(file) = spool.file() {
                gateway.leave(file);
            }
        }
        gateway.memory -= self.memory;
        (self.consumed, reply)
    }

    /// Gives the server's connection up, if there is one.
    fn let_go(&mut self, gateway: &mut Gateway) {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Asking(link) => {
                gateway.pools[self.pool].end(link.server);
                gateway.retire(link);
            }
            other => self.stage = other,
        }
    }

    /// Gives its place in the queue to another.
    fn leave_queue(&mut self, gateway: &mut Gateway) {
        let waiting = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Queued(ticket) => {
                gateway.waiting -= 1;
                Some(ticket)
            }
            _ => None,
        };
        for ticket in [self.flying.take(), waiting].into_iter().flatten() {
            gateway.wake(gateway.desk.queue(self.pool).leave(ticket, now_us()));
        }
    }

    /// Writes what the application said for it to the error log.
    fn tell_errors(&mut self) {
        let errors = std::mem::take(&mut self.errors);
        let text = String::from_utf8_lossy(errors.trim_ascii());
        if !text.is_empty() {
            tracing::error!("{}, {}: {text}", self.call.pool, self.request());
        }
    }

    /// The request, for people.
    pub fn request(&self) -> String {
        let head = Head::again(&self.consumed, self.terms);
        let line =
            head.map(|head| format!("{} {}", head.method.name(), String::from_utf8_lossy(head.target)));
        line.unwrap_or_default()
    }

    /// The pool's name, and how long the request was where by now.
    pub fn spent(&self) -> (&str, Spent) {
        (&self.call.pool, self.course.spent())
    }

    /// Counts for its pool that there will be no reply, or no more of it.
    pub fn count_failure(&self, gateway: &Gateway, failure: &Failure) {
        let counters = gateway.desk.counters(self.pool);
        counters.failures.add_among_others(1);
        match failure {
            Failure::Full => counters.refused.add_among_others(1),
            Failure::Late => counters.expired.add_among_others(1),
            _ => {}
        }
    }

    /// Counts for its pool that its client has left.
    pub fn count_client_left(&self, gateway: &Gateway) {
        gateway.desk.counters(self.pool).clients_left.add_among_others(1);
    }

    /// The site that was asked, and the terms that the reply must respect.
    pub fn owed(&self) -> (SiteNumber, Terms) {
        (self.call.site, self.terms)
    }

    /// The connection may go on after the reply, or not, which was not known before.
    pub fn set_persistent(&mut self, is_persistent: bool) {
        self.terms.persistent = is_persistent;
    }

    /// Whether there is something for the client to take.
    pub fn has_output(&self) -> bool {
        self.delivery.as_ref().is_some_and(|delivery| !delivery.reply().unsent().is_empty())
    }

    /// The reply, once its head is there.
    pub fn reply(&mut self) -> Option<&mut OpenReply<Pin>> {
        self.delivery.as_mut().map(Delivery::reply_mut)
    }

    /// The file that is to be sent in place of a reply, once the server has said all.
    pub fn take_named(&mut self) -> Option<Box<NamedFile>> {
        if matches!(self.stage, Stage::Over) { self.named.take() } else { None }
    }

    /// The server's connection, if there is one.
    pub fn link(&mut self) -> Option<&mut Link> {
        match &mut self.stage {
            Stage::Asking(link) => Some(link),
            _ => None,
        }
    }

    /// The socket of the server's connection, if there is one.
    pub fn link_fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.stage {
            Stage::Asking(link) => Some(link.as_fd()),
            _ => None,
        }
    }

    /// What the server's connection waits for: input, and room.
    pub fn link_waits_for(&self) -> (bool, bool) {
        match &self.stage {
            Stage::Asking(link) => link.waits_for(self.wants_input()),
            _ => (false, false),
        }
    }

    /// Whether more of the reply may be received.
    fn wants_input(&self) -> bool {
        self.delivery.as_ref().is_none_or(Delivery::wants_more)
    }

    /// Takes note of whether the client has left no room for more of the reply.
    pub fn note_client(&mut self, is_slow: bool) {
        if let Some(delivery) = &mut self.delivery {
            delivery.note_client(is_slow);
        }
    }

    /// Has the gateway know what it keeps in memory.
    fn count_memory(&mut self, gateway: &mut Gateway) {
        let memory = self.body.in_memory() + self.delivery.as_ref().map_or(0, Delivery::in_memory);
        gateway.memory = gateway.memory - self.memory + memory;
        self.memory = memory;
        if let Some(delivery) = &mut self.delivery {
            delivery.note_memory(!gateway.has_memory_for(0));
        }
    }

    /// When to call [`expire`](Self::expire), unless something happens before.
    pub fn deadline(&self) -> Option<Tick> {
        let reply = self.delivery.as_ref().and_then(|delivery| delivery.reply().deadline());
        [self.server_deadline(), reply].into_iter().flatten().reduce(Tick::earlier)
    }

    fn server_deadline(&self) -> Option<Tick> {
        let stage = match &self.stage {
            Stage::Body | Stage::Over => return None,
            Stage::Queued(_) => return Some(self.asked_at.after(self.patience.queue)),
            Stage::Due(not_before) => *not_before,
            Stage::Asking(link) if link.is_connecting => Some(self.active.after(self.patience.connect)),
            // The client keeps the server waiting.
            Stage::Asking(_) if !self.wants_input() => None,
            Stage::Asking(_) => Some(self.active.after(self.patience.quiet)),
        };
        [stage, self.total_deadline()].into_iter().flatten().reduce(Tick::earlier)
    }

    fn total_deadline(&self) -> Option<Tick> {
        self.patience.total.map(|ticks| self.asked_at.after(ticks))
    }

    /// Judges the server's deadlines that have come by `now`.
    ///
    /// # Errors
    ///
    /// It has taken too long.
    pub fn expire(&mut self, gateway: &mut Gateway, now: Tick) -> Result<(), Failure> {
        let is_over = self.total_deadline().is_some_and(|total| total.reached(now));
        if is_over && matches!(self.stage, Stage::Due(_) | Stage::Asking(_)) {
            return Err(Failure::TimedOut);
        }
        if matches!(self.stage, Stage::Queued(_)) {
            gateway.wake(gateway.desk.queue(self.pool).look(now_us()));
        }
        let is_overdue = self.server_deadline().is_some_and(|deadline| deadline.reached(now));
        let server = match &self.stage {
            _ if !is_overdue => return Ok(()),
            Stage::Asking(link) if link.is_connecting => link.server,
            Stage::Queued(_) => return Err(Failure::Late),
            // Another try is due; or all of it takes too long.
            Stage::Due(Some(until)) if until.reached(now) => return Ok(()),
            _ => return Err(Failure::TimedOut),
        };
        self.let_go(gateway);
        self.is_away(gateway, server, io::ErrorKind::TimedOut.into(), now)
    }
}
