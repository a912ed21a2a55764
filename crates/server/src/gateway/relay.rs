//! One request on its way to an application, and the reply on its way back.
//!
//! ```text
//! Body --> Queued --> Due --> Asking --> Over
//!                               `--> Emptying --'
//! ```
//!
//! The body is taken in (`Body`), there is room among the requests in flight (`Queued`), a server is found
//! and connected to (`Due`), the request is sent to it while its reply is received (`Asking`), and what is
//! left of the reply is for the client to take (`Over`); where some of that lies in memory that is shared
//! over a connection that is to be kept, that waits until it is sent (`Emptying`). The first answer that is
//! none ends it with a [`Failure`]; once the client has been sent a part of a reply, all that can be done is
//! a reset.
//!
//! How a server is found is in `setup`, what becomes of a client that is lent in `lending`, and of memory
//! that is shared in `sharing`; `patience` has the deadlines.
//!
//! While the client is [lent](super::loan) there is no reply here, and what the server says is that the
//! client comes back.

mod lending;
mod patience;
mod setup;
mod sharing;

use std::os::fd::{AsFd, BorrowedFd};

use fastcgi::transport::Returned;
use fastcgi::{Output, response};
use http1::{Head, OpenReply, Plan, Status, Terms, Tick};
use sys::client;

pub use self::lending::Afterwards;
use self::setup::is_too_many_passed;
use super::area::Area;
use super::asker::Asker;
use super::composing::Composing;
use super::course::{Course, Spent};
use super::delivery::Delivery;
use super::failure::Failure;
use super::link::{Link, Setup};
use super::loan::Loan;
use super::pool::{PoolPatience, Tried};
use super::queue::{Entry, Ticket};
use super::queues::now_us;
use super::spool::Spool;
use super::{Gateway, Tools};
use crate::account::Account;
use crate::config::Transport;
use crate::content::{Call, Named, Pin, SiteNumber};

/// A request for an application.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a request, a byte each")]
pub struct Relay {
    call: Box<Call>,
    /// The request's head, as it was consumed.
    consumed: Vec<u8>,
    terms: Terms,
    /// Its method is one that may be sent twice.
    is_repeatable: bool,
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
    /// The client is lent; or it was, and this is what the server says that it has sent.
    loan: Option<Loan>,
    returned: Option<Returned>,
    has_lent: bool,
    /// Descriptors could not be passed: it goes by the stream.
    is_by_stream: bool,
    /// The pool's transport has been used.
    has_used: bool,
    /// What is left to be sent from memory that was shared, of a connection that is gone.
    area: Option<Box<Area>>,
    /// Bytes in memory, as the gateway has counted them.
    memory: usize,
    /// A reply that names files, until all of it has come; and what is to be sent in its place.
    composing: Option<Box<Composing>>,
    named: Option<Box<Named>>,
    /// What the application says for the error log.
    errors: Vec<u8>,
    course: Course,
    /// The server says no more that the client is waiting for, and has had its time.
    is_overdue: bool,
    /// When the request was whole, when a server was first looked for, and when the one asked last took some
    /// of the request or said something that is more than before. Records that nothing comes of are none.
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
    Emptying(Link),
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

impl Relay {
    /// For a call by a request with this head, which was consumed as said.
    ///
    /// # Errors
    ///
    /// Its pool is unknown, or its path is none of a script's.
    pub fn new(
        gateway: &Gateway,
        call: Box<Call>,
        (consumed, head): (Vec<u8>, &Head<'_>),
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
            terms: head.terms,
            is_repeatable: head.method.is_idempotent(),
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
            loan: None,
            returned: None,
            has_lent: false,
            is_by_stream: false,
            has_used: false,
            area: None,
            memory: 0,
            composing: None,
            named: None,
            errors: Vec::new(),
            course: Course::new(gateway.desk.counters(pool)),
            is_overdue: false,
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

    /// Where more of the body may be received, as much as there is room for behind it: what was asked for
    /// when its length was known.
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
        self.take_from_area(gateway, false, tools)?;
        let worked = self.go_on(gateway, tools);
        self.count_memory(gateway);
        worked
    }

    fn go_on(&mut self, gateway: &mut Gateway, tools: &mut Tools<'_>) -> Result<(), Failure> {
        loop {
            match &mut self.stage {
                Stage::Body | Stage::Over => return Ok(()),
                Stage::Emptying(_) => {
                    self.end_emptying(gateway);
                    return Ok(());
                }
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
                Stage::Asking(link) if link.setup == Setup::Negotiating => {
                    if !self.negotiate(gateway, tools)? {
                        return Ok(());
                    }
                }
                Stage::Asking(link) if link.setup == Setup::Connecting => {
                    if !link.has_connected() {
                        return Ok(());
                    }
                    match client::outcome(&*link) {
                        Ok(()) => {
                            link.is_up();
                            self.active = tools.now;
                            if link.setup == Setup::Ready {
                                self.ask(gateway, tools)?;
                            }
                        }
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
                    Err(failure) if self.may_repeat(&failure, tools) => self.repeat(gateway, tools.now),
                    Err(failure) => return Err(failure),
                },
            }
        }
    }

    /// Sends and receives. Says whether to come back at once.
    fn exchange(&mut self, gateway: &mut Gateway, tools: &mut Tools<'_>) -> Result<bool, Failure> {
        if let Stage::Asking(link) = &mut self.stage {
            match link.send(&mut self.body, tools.client, tools.share) {
                Ok(true) => self.active = tools.now,
                Ok(false) => {}
                Err(error) if is_too_many_passed(&error) => {
                    self.pass_nothing(gateway, tools.now);
                    return Ok(true);
                }
                Err(error) => return Err(Failure::Broken(error)),
            }
        }
        self.receive(gateway, tools)
    }

    /// Whether all is there that the client was promised, although the server has not said so.
    fn has_whole_reply(&self) -> bool {
        let waiting = match &self.stage {
            Stage::Asking(link) => link.area.as_ref().map_or(0, |area| area.waiting()),
            _ => 0,
        };
        self.delivery.as_ref().is_some_and(|delivery| delivery.has_all_promised(waiting))
            || self.composing.as_ref().is_some_and(|composing| composing.has_all_promised())
            || self.named.is_some()
            || self.returned.is_some()
    }

    /// Receives from the server, as far as the client takes it. Says whether to come back at once.
    fn receive(&mut self, gateway: &mut Gateway, tools: &mut Tools<'_>) -> Result<bool, Failure> {
        if std::mem::take(&mut self.is_overdue) && self.has_whole_reply() {
            self.take_from_area(gateway, true, tools)?;
            return self.end_reply(gateway, tools).map(|()| false);
        }
        let wants_input = self.wants_input();
        let Stage::Asking(link) = &mut self.stage else { return Ok(false) };
        if !wants_input {
            // The client keeps the server waiting.
            self.active = tools.now;
        }
        if !link.readable || !wants_input || *tools.share == 0 {
            return Ok(false);
        }
        let received = link.receive(tools.scratch, tools.share).map_err(Failure::Broken)?;
        let Some(count) = received else { return Ok(link.readable) };
        if count == 0 {
            if !self.has_whole_reply() {
                return Err(Failure::Closed);
            }
            self.take_from_area(gateway, true, tools)?;
            return self.end_reply(gateway, tools).map(|()| false);
        }
        let mut input = std::mem::take(&mut tools.scratch);
        let taken = self.take_in(gateway, &input[..count], tools);
        std::mem::swap(&mut tools.scratch, &mut input);
        if let Some(Err(error)) = self.delivery.as_mut().map(|delivery| delivery.put_by((gateway, self.pool)))
        {
            gateway.complain(now_us() / 1000, &self.request(), &Failure::Spill(error));
        }
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
                Output::Stdout(_) if self.loan.is_some() => return Err(Failure::TwoReplies),
                // Behind the whole of it.
                Output::Stdout(_) if self.returned.is_some() => {}
                Output::Stdout(range) => {
                    self.take_from_area(gateway, true, tools)?;
                    self.take_reply(gateway, &input[range], tools)?;
                }
                Output::Stderr(range) => {
                    let room = MOST_ERRORS.saturating_sub(self.errors.len());
                    self.errors.extend(input[range].iter().take(room));
                    if room > 0 {
                        self.active = tools.now;
                    }
                }
                Output::Returned(returned) => {
                    self.active = tools.now;
                    self.take_back(gateway, returned, tools)?;
                }
                Output::Filled(filled) => self.take_filled(gateway, filled, tools)?,
                // Nobody has asked it, or it is not the time for it.
                Output::Knows(_) | Output::Waits => return Err(Failure::Unasked),
                Output::End { .. } if self.loan.is_some() => return Err(Failure::NotReturned),
                Output::End { .. } => {
                    self.take_from_area(gateway, true, tools)?;
                    self.rest(gateway, &input[used..], tools.now);
                    return self.end_reply(gateway, tools);
                }
            }
            input = &input[used..];
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
            let bytes = delivery.wanted(bytes, 0);
            if bytes.is_empty() {
                return Ok(());
            }
            self.active = tools.now;
            delivery.supply(bytes, tools);
            return Ok(());
        }
        if let Some(composing) = &mut self.composing {
            if composing.take(bytes)? {
                self.active = tools.now;
            }
            return Ok(());
        }
        if self.named.is_some() {
            return Ok(());
        }
        self.active = tools.now;
        self.head.extend_from_slice(bytes);
        if let Some(end) = self.scan.find_end(&self.head, MOST_HEAD)? {
            let head = std::mem::take(&mut self.head);
            let parsed = response::parse(&head[..end])?;
            if let Some(file) = gateway.pools[self.pool].send_files.named(&parsed, self.call.site)? {
                self.named = Some(Box::new(Named::File(file)));
                return Ok(());
            }
            if let Some(mut composing) = Composing::new(&parsed)? {
                composing.take(&head[end..])?;
                self.composing = Some(Box::new(composing));
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
        let mut plan = Plan::with_reason(sheet, (Status(head.status), head.reason), terms, tools.stamp);
        for (name, value) in head.for_client() {
            plan.field(name, value);
        }
        plan.open(head.length, tools.limits, tools.now)
    }

    /// The server has said all.
    fn end_reply(&mut self, gateway: &mut Gateway, tools: &mut Tools<'_>) -> Result<(), Failure> {
        self.all_is_said(gateway);
        // Nobody will ask for it again, and the client may take its time.
        if let Some(file) = self.body.file() {
            gateway.leave(file);
        }
        self.body = Spool::default();
        if let Some(composing) = self.composing.take() {
            let files = &gateway.pools[self.pool].send_files;
            let composed = composing.end(files, self.call.site, self.terms.body)?;
            self.named = Some(Box::new(Named::Parts(composed)));
        }
        if self.named.is_some() || self.returned.is_some() {
            return Ok(());
        }
        let delivery = self.delivery.as_mut().ok_or(response::Malformed::CutShort)?;
        delivery.finish(tools)
    }

    /// Gives the server and its place in the queue to others.
    fn all_is_said(&mut self, gateway: &mut Gateway) {
        self.course.has_all();
        self.count_transport(gateway);
        if !matches!(self.stage, Stage::Emptying(_)) {
            self.let_go(gateway);
        }
        self.leave_queue(gateway);
        self.tell_errors();
    }

    /// Counts whether the pool's transport was used.
    fn count_transport(&self, gateway: &Gateway) {
        let counters = gateway.desk.counters(self.pool);
        match gateway.pools[self.pool].transport {
            Transport::Stream => {}
            Transport::PassFd if self.has_used => counters.passed.add_among_others(1),
            Transport::SharedMemory if self.has_used => counters.shared.add_among_others(1),
            _ => counters.fell_back.add_among_others(1),
        }
    }

    /// Ends it, be the reply complete or not: gives back the head of its request, to be used again, and what
    /// there is of a reply.
    pub fn end(mut self, gateway: &mut Gateway) -> (Vec<u8>, Option<OpenReply<Pin>>) {
        self.end_emptying(gateway);
        if let Stage::Asking(link) = &mut self.stage
            && link.setup == Setup::Ready
        {
            link.abort();
            // The application may work on.
            if let Some(ticket) = self.flying.take() {
                gateway.wake(gateway.desk.queue(self.pool).abandon(ticket, now_us()));
            }
        }
        self.let_go(gateway);
        if let Some(area) = self.area.take() {
            gateway.close_area(&area);
        }
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
            Stage::Asking(mut link) | Stage::Emptying(mut link) => {
                gateway.pools[self.pool].end(link.server);
                // What the client has not taken stays.
                if let Some(mut area) = link.area.take_if(|area| area.is_in_use()) {
                    area.is_last();
                    self.area = Some(area);
                }
                gateway.retire(link);
            }
            other => self.stage = other,
        }
    }

    /// Gives its place in the queue to another.
    fn leave_queue(&mut self, gateway: &mut Gateway) {
        let mut waiting = None;
        if matches!(self.stage, Stage::Queued(_))
            && let Stage::Queued(ticket) = std::mem::replace(&mut self.stage, Stage::Over)
        {
            gateway.waiting -= 1;
            waiting = Some(ticket);
        }
        for ticket in [self.flying.take(), waiting].into_iter().flatten() {
            gateway.wake(gateway.desk.queue(self.pool).leave(ticket, now_us()));
        }
    }

    /// Writes what the application said for it to the error log.
    fn tell_errors(&mut self) {
        let errors = std::mem::take(&mut self.errors);
        let text = String::from_utf8_lossy(errors.trim_ascii());
        if !text.is_empty() {
            tracing::error!("{}: {text}", self.request());
        }
    }

    /// The pool and the request, for people.
    pub fn request(&self) -> String {
        let head = Head::again(&self.consumed, self.terms);
        let line =
            head.map(|head| format!("{} {}", head.method.name(), String::from_utf8_lossy(head.target)));
        format!("{}, {}", self.call.pool, line.unwrap_or_default())
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
        self.delivery.as_ref().is_some_and(|delivery| delivery.reply().left() > 0)
    }

    /// The reply as it can be sent now, and the memory in which some of it may lie.
    pub fn outgoing(&self) -> Option<(&OpenReply<Pin>, Option<&Area>)> {
        let area = match &self.stage {
            Stage::Asking(link) | Stage::Emptying(link) => &link.area,
            _ => &self.area,
        };
        Some((self.delivery.as_ref()?.reply(), area.as_deref()))
    }

    /// Whether the server has said something that has not been received.
    pub fn has_input(&self) -> bool {
        matches!(&self.stage, Stage::Asking(link) if link.readable)
    }

    /// The pool's name.
    pub fn pool(&self) -> &std::sync::Arc<str> {
        &self.call.pool
    }

    /// The reply, once its head is there.
    pub fn reply(&mut self) -> Option<&mut OpenReply<Pin>> {
        self.delivery.as_mut().map(Delivery::reply_mut)
    }

    /// What is to be sent in place of a reply, once the server has said all.
    pub fn take_named(&mut self) -> Option<Box<Named>> {
        if matches!(self.stage, Stage::Over) { self.named.take() } else { None }
    }

    /// The server's connection, if there is one.
    pub fn link(&mut self) -> Option<&mut Link> {
        match &mut self.stage {
            Stage::Asking(link) | Stage::Emptying(link) => Some(link),
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
        let composing = self.composing.as_ref().map_or(0, |composing| composing.in_memory());
        let memory =
            self.body.in_memory() + composing + self.delivery.as_ref().map_or(0, Delivery::in_memory);
        gateway.memory = gateway.memory - self.memory + memory;
        self.memory = memory;
        if let Some(delivery) = &mut self.delivery {
            delivery.note_memory(!gateway.has_memory_for(0));
        }
    }
}
