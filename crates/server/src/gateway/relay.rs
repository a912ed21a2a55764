//! One request to an application, and its reply.
//!
//! ```text
//! Body --> Queued --> Due --> Asking --> Over
//!                               |--> Emptying --|
//!                               `--> Joined ----'
//! ```
//!
//! The stages:
//!
//! - `Body`: the body is taken in.
//! - `Queued`: the request waits until there is room among the requests in flight.
//! - `Due`: a server is found and connected to.
//! - `Asking`: the request is sent while its reply is received.
//! - `Emptying`: some of the reply lies in memory that is shared over a connection to be kept. The
//!   connection waits until that is sent.
//! - `Joined`: the server has switched to another protocol, and bytes pass both ways.
//! - `Over`: the rest of the reply is for the client to take.
//!
//! The first failure ends the relay with a [`Failure`]. Once a part of the reply has been sent to the
//! client, the connection can only be reset.
//!
//! `setup` finds a server. `lending` handles a passed client socket, and `sharing` handles shared memory.
//! `deadlines` has the deadlines. `joined` passes bytes both ways. `upload` passes a body on as it comes.
//!
//! While the client's socket is [passed](super::lent_connection), there is no reply here. The server then
//! reports that it gives the socket back.

mod deadlines;
mod http;
mod joined;
mod lending;
mod setup;
mod sharing;
mod upload;

use std::os::fd::{AsFd, BorrowedFd};

use fastcgi::transport::Returned;
use fastcgi::{Output, response};
use http1::{Head, OpenReply, Plan, Status, Terms, Tick};
use sys::client;

pub use self::lending::Afterwards;
use self::setup::is_too_many_passed;
use self::upload::Upload;
use super::area::Area;
use super::asker::Asker;
use super::composing::Composing;
use super::course::{Course, Spent};
use super::delivery::Delivery;
use super::failure::Failure;
use super::interims::Interims;
use super::lent_connection::LentConnection;
use super::link::{Link, Setup, Speaks};
use super::pool::{PoolTimeouts, Tried};
use super::spool::Spool;
use super::upgrade;
use super::{Gateway, Tools};
use crate::account::Account;
use crate::config::Transport;
use crate::content::{Call, Named, Pin, SiteNumber};
use crate::queues::{Entry, Ticket, now_us};

/// A request for an application.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a request, a byte each")]
pub struct Relay {
    call: Box<Call>,
    /// The request's head, as it was consumed.
    consumed: Vec<u8>,
    terms: Terms,
    /// The method allows sending the request twice.
    is_repeatable: bool,
    asker: Asker,
    /// The number of the pool, and how long its servers may take.
    pool: usize,
    timeouts: PoolTimeouts,
    stage: Stage,
    /// The slot among the requests in flight.
    flying: Option<Ticket>,
    body: Spool,
    /// A body that is passed on as it comes, and not spooled.
    upload: Option<Upload>,
    tried: Tried,
    /// A kept connection broke, and the request is sent once more.
    is_repeated: bool,
    /// The request offers to switch to another protocol, and has a place among the connections that may.
    /// After the switch: the client sends no more.
    offers_upgrade: bool,
    joining: Option<Ticket>,
    is_client_gone: bool,
    /// Interim replies, which the client gets before the reply.
    pub interims: Interims,
    /// The head of the reply, until it is whole.
    head: Vec<u8>,
    scan: response::Scan,
    delivery: Option<Delivery>,
    /// The client's socket is passed (`lent_connection`). After that, `returned` is the server's report of
    /// what it has sent.
    lent_connection: Option<LentConnection>,
    returned: Option<Returned>,
    has_lent: bool,
    /// Descriptors could not be passed, so the stream is used.
    is_by_stream: bool,
    /// The pool's transport has been used.
    has_used: bool,
    /// What is left to be sent from memory shared over a connection that is gone.
    area: Option<Box<Area>>,
    /// Bytes in memory, as the gateway has counted them.
    memory: usize,
    /// A reply that names files, until all of it has come, and what is to be sent instead of it.
    composing: Option<Box<Composing>>,
    named: Option<Box<Named>>,
    /// The application's messages for the error log.
    errors: Vec<u8>,
    course: Course,
    /// The server's time is over. It has nothing more to send that the client waits for.
    is_overdue: bool,
    /// `asked_at`: when the request was complete. `due_since`: when a server was first looked for.
    /// `active`: when the server asked last took some of the request or sent something new. Records that
    /// bring nothing new do not count.
    asked_at: Tick,
    due_since: Tick,
    active: Tick,
}

#[derive(Debug)]
enum Stage {
    Body,
    Queued(Ticket),
    /// Not before that time, if something was tried already.
    Due(Option<Tick>),
    Asking(Link),
    Emptying(Link),
    Joined(Link),
    Over,
}

/// The longest head of a reply.
const MOST_HEAD: usize = 64 << 10;
/// Most bytes of an application's messages for the error log that are kept, per request.
const MOST_ERRORS: usize = 4 << 10;
/// Bodies up to this size are kept in memory, if there is enough.
const BODY_IN_MEMORY: usize = 1 << 20;
/// Bodies up to this size are kept in memory in any case, because a file takes more.
const SMALL_BODY: usize = 4 << 10;

impl Relay {
    /// A relay for a call, with the request's consumed bytes and the head parsed from them.
    ///
    /// # Errors
    ///
    /// The pool is unknown, or the path names no script.
    pub fn new(
        gateway: &Gateway,
        call: Box<Call>,
        (consumed, head): (Vec<u8>, &Head<'_>),
        asker: Asker,
        now: Tick,
    ) -> Result<Self, Failure> {
        let pool = gateway.pool(&call.pool).ok_or(Failure::NoPool)?;
        // Such a path names no script, and would split the lines that applications log.
        if [&call.name, &call.info].iter().any(|part| part.iter().any(|byte| matches!(byte, b'\r' | b'\n'))) {
            return Err(Failure::LineBreak);
        }
        let speaks_http = gateway.pools[pool].http.is_some();
        Ok(Self {
            call,
            consumed,
            terms: head.terms,
            is_repeatable: head.method.is_idempotent(),
            asker,
            pool,
            timeouts: gateway.pools[pool].timeouts,
            stage: Stage::Body,
            flying: None,
            body: Spool::default(),
            upload: None,
            tried: Tried::default(),
            is_repeated: false,
            offers_upgrade: speaks_http && upgrade::offered(head).next().is_some(),
            joining: None,
            is_client_gone: false,
            interims: Interims::default(),
            head: Vec::new(),
            scan: response::Scan::default(),
            delivery: None,
            lent_connection: None,
            returned: None,
            has_lent: false,
            is_by_stream: false,
            has_used: false,
            area: None,
            memory: 0,
            composing: None,
            named: None,
            errors: Vec::new(),
            course: Course::new(gateway.queue_handle.counters(pool)),
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

    /// Takes in more of the body, or passes it on. `left` is how much of it is still to come, if known.
    ///
    /// # Errors
    ///
    /// The body cannot be kept.
    pub fn take_body(
        &mut self,
        gateway: &mut Gateway,
        bytes: &[u8],
        left: Option<u64>,
    ) -> Result<(), Failure> {
        if self.upload.is_some() {
            self.pass_body(bytes);
            return Ok(());
        }
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

    /// The buffer that more of the body may be received into, up to its free room. The room was reserved
    /// when the length was known.
    pub fn room_for_body(&mut self) -> Option<&mut Vec<u8>> {
        self.body.room().filter(|_| self.upload.is_none())
    }

    /// Counts `count` bytes of the body received there.
    pub fn has_received(&mut self, count: usize) {
        self.body.received(count);
    }

    /// The body is complete, or there is none. The request goes to the queue. One whose body is passed on has
    /// been there before.
    ///
    /// # Errors
    ///
    /// The queue has no room.
    pub fn end_body(&mut self, gateway: &mut Gateway, now: Tick) -> Result<(), Failure> {
        if !self.awaits_body() {
            self.end_upload();
            return Ok(());
        }
        (self.asked_at, self.due_since) = (now, now);
        let now_us = now_us();
        self.course.is_complete(now_us);
        if self.offers_upgrade {
            self.ask_to_join(gateway)?;
        }
        let (worker, account) = (gateway.queue_handle.worker(), Account::of(&self.asker.client));
        let (entry, woken) = gateway.queue_handle.queue(self.pool).enter(worker, account, now_us);
        gateway.wake(woken);
        match entry {
            Entry::Goes(ticket) => {
                self.flying = Some(ticket);
                self.course.is_in_flight(now_us);
                self.stage = Stage::Due(None);
                Ok(())
            }
            Entry::Waits(ticket) => {
                self.stage = Stage::Queued(ticket);
                gateway.waits.begin(now);
                Ok(())
            }
            Entry::Full => Err(Failure::Full),
        }
    }

    /// Whether the request was in the queue and need not wait there any more.
    pub fn may_go(&self, gateway: &Gateway) -> bool {
        match &self.stage {
            Stage::Queued(ticket) => !gateway.queue_handle.queue(self.pool).waits(ticket),
            _ => false,
        }
    }

    /// Names the request. The name is reported when the request need not wait in the queue any more. The
    /// name must not be 0.
    pub fn name(&self, gateway: &Gateway, name: u64) {
        if let Stage::Queued(ticket) = &self.stage {
            gateway.queue_handle.queue(self.pool).name(ticket, name);
        }
    }

    /// Whether the request waits in the queue.
    pub fn is_queued(&self) -> bool {
        matches!(self.stage, Stage::Queued(_))
    }

    /// Continues as far as possible without waiting.
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
                Stage::Joined(_) => return self.exchange_joined(gateway, tools),
                Stage::Emptying(_) => {
                    self.end_emptying(gateway);
                    return Ok(());
                }
                Stage::Queued(ticket) => {
                    let queue = gateway.queue_handle.queue(self.pool);
                    if queue.waits(ticket) {
                        return Ok(());
                    }
                    if !queue.goes(ticket) {
                        return Err(Failure::Full);
                    }
                    gateway.waits.end();
                    if let Stage::Queued(ticket) = std::mem::replace(&mut self.stage, Stage::Due(None)) {
                        self.flying = Some(ticket);
                        self.course.is_in_flight(now_us());
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
                            let server = link.server.at;
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

    /// Sends and receives. Returns whether to call again at once.
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

    /// Whether all that was promised to the client is there, although the server has not said so.
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

    /// Receives from the server, as far as the client takes it. Returns whether to call again at once.
    fn receive(&mut self, gateway: &mut Gateway, tools: &mut Tools<'_>) -> Result<bool, Failure> {
        if std::mem::take(&mut self.is_overdue) && self.has_whole_reply() {
            self.take_from_area(gateway, true, tools)?;
            return self.end_reply(gateway, tools).map(|()| false);
        }
        let wants_input = self.wants_input();
        let Stage::Asking(link) = &mut self.stage else { return Ok(false) };
        if !wants_input {
            // The server waits for the client.
            self.active = tools.now;
        }
        if !link.readable || !wants_input || *tools.share == 0 {
            return Ok(false);
        }
        if let Speaks::Http(_) = link.speaks
            && let Some(received) = self.receive_http_body(gateway, tools)?
        {
            return Ok(received);
        }
        let Stage::Asking(link) = &mut self.stage else { return Ok(false) };
        let received = link.receive(tools.scratch, tools.share).map_err(Failure::Broken)?;
        let Some(count) = received else { return Ok(link.readable) };
        // Over HTTP, the end of the connection may be that of the reply.
        if count == 0 && matches!(link.speaks, Speaks::FastCgi(_)) {
            if !self.has_whole_reply() {
                return Err(Failure::Closed);
            }
            self.take_from_area(gateway, true, tools)?;
            return self.end_reply(gateway, tools).map(|()| false);
        }
        let mut input = std::mem::take(&mut tools.scratch);
        let taken = match self.stage {
            Stage::Asking(Link { speaks: Speaks::Http(_), .. }) => {
                self.take_in_http(gateway, &input[..count], count == 0, tools)
            }
            _ => self.take_in(gateway, &input[..count], tools),
        };
        std::mem::swap(&mut tools.scratch, &mut input);
        if let Some(Err(error)) = self.delivery.as_mut().map(|delivery| delivery.put_by((gateway, self.pool)))
        {
            gateway.complain(now_us() / 1000, &self.request(), &Failure::Spill(error));
        }
        taken?;
        Ok(true)
    }

    /// Handles the records received from the server.
    fn take_in(
        &mut self,
        gateway: &mut Gateway,
        mut input: &[u8],
        tools: &mut Tools<'_>,
    ) -> Result<(), Failure> {
        loop {
            let Stage::Asking(Link { speaks: Speaks::FastCgi(server), .. }) = &mut self.stage else {
                return Ok(());
            };
            let (used, output) = server.receive(input)?;
            match output {
                Output::NeedInput => return Ok(()),
                Output::Stdout(_) if self.lent_connection.is_some() => return Err(Failure::TwoReplies),
                // It comes after the whole reply.
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
                // The server was not asked for this, or this is not the time for it.
                Output::Knows(_) | Output::Waits => return Err(Failure::Unasked),
                Output::End { .. } if self.lent_connection.is_some() => return Err(Failure::NotReturned),
                Output::End { .. } => {
                    self.take_from_area(gateway, true, tools)?;
                    self.rest(gateway, &input[used..], tools.now);
                    return self.end_reply(gateway, tools);
                }
            }
            input = &input[used..];
        }
    }

    /// Takes a piece of the CGI response: first the head, then the body.
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
            self.take_head(gateway, &response::parse(&head[..end])?, tools)?;
            if let Some(composing) = &mut self.composing {
                composing.take(&head[end..])?;
            }
            if let Some(delivery) = &mut self.delivery {
                delivery.reply_mut().supply(tools.limits, tools.now, &head[end..]);
            }
        }
        Ok(())
    }

    /// Takes the head of the reply.
    fn take_head(
        &mut self,
        gateway: &Gateway,
        head: &response::Head<'_>,
        tools: &mut Tools<'_>,
    ) -> Result<(), Failure> {
        if let Some(file) = gateway.pools[self.pool].send_files.named(head, self.call.site)? {
            self.named = Some(Box::new(Named::File(file)));
        } else if let Some(composing) = Composing::new(head)? {
            self.composing = Some(Box::new(composing));
        } else {
            let reply = self.open(head, tools);
            self.delivery = Some(Delivery::new(reply, gateway));
        }
        Ok(())
    }

    /// Begins the reply.
    fn open(&self, head: &response::Head<'_>, tools: &mut Tools<'_>) -> OpenReply<Pin> {
        let (_, terms) = self.owed();
        let terms = if head.length.is_some() { terms } else { terms.of_unknown_length() };
        let sheet = tools.sheets.pop().unwrap_or_default();
        let mut plan = Plan::with_reason(sheet, (Status(head.status), head.reason), terms, tools.stamp);
        for (name, value) in head.for_client() {
            plan.field(name, value);
        }
        plan.open(head.length, tools.limits, tools.now)
    }

    /// The server has sent all.
    fn end_reply(&mut self, gateway: &mut Gateway, tools: &mut Tools<'_>) -> Result<(), Failure> {
        self.all_is_said(gateway);
        // The body is not needed again, and the client may be slow to take the reply.
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

    /// Gives up the server's connection and the slot in the queue.
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
        let counters = gateway.queue_handle.counters(self.pool);
        match gateway.pools[self.pool].transport {
            Transport::Stream => {}
            Transport::PassFd if self.has_used => counters.passed.add_among_others(1),
            Transport::SharedMemory if self.has_used => counters.shared.add_among_others(1),
            _ => counters.fell_back.add_among_others(1),
        }
    }

    /// Ends the relay, whether the reply is complete or not. Returns the head of its request, to be
    /// reused, and the reply as far as there is one.
    pub fn end(mut self, gateway: &mut Gateway) -> (Vec<u8>, Option<OpenReply<Pin>>) {
        self.end_emptying(gateway);
        if let Stage::Asking(link) = &mut self.stage
            && link.setup == Setup::Ready
        {
            link.abort();
            // The application may continue to work.
            if let Some(ticket) = self.flying.take() {
                gateway.wake(gateway.queue_handle.queue(self.pool).abandon(ticket, now_us()));
            }
        }
        self.let_go(gateway);
        if let Some(area) = self.area.take() {
            gateway.close_area(&area);
        }
        self.leave_queue(gateway);
        self.join_no_more(gateway);
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

    /// Gives up the server's connection, if there is one.
    fn let_go(&mut self, gateway: &mut Gateway) {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Asking(mut link) | Stage::Emptying(mut link) | Stage::Joined(mut link) => {
                gateway.pools[self.pool].end(link.server.at);
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

    /// Gives up the slot in the queue.
    fn leave_queue(&mut self, gateway: &mut Gateway) {
        let mut waiting = None;
        if matches!(self.stage, Stage::Queued(_))
            && let Stage::Queued(ticket) = std::mem::replace(&mut self.stage, Stage::Over)
        {
            gateway.waits.end();
            waiting = Some(ticket);
        }
        for ticket in [self.flying.take(), waiting].into_iter().flatten() {
            gateway.wake(gateway.queue_handle.queue(self.pool).leave(ticket, now_us()));
        }
    }

    /// Writes the application's messages to the error log.
    fn tell_errors(&mut self) {
        let errors = std::mem::take(&mut self.errors);
        let text = String::from_utf8_lossy(errors.trim_ascii());
        if !text.is_empty() {
            tracing::error!("{}: {text}", self.request());
        }
    }

    /// The pool and the request, for messages.
    pub fn request(&self) -> String {
        let head = Head::again(&self.consumed, self.terms);
        let line =
            head.map(|head| format!("{} {}", head.method.name(), String::from_utf8_lossy(head.target)));
        format!("{}, {}", self.call.pool, line.unwrap_or_default())
    }

    /// The pool's name, and how long the request has spent at each stage by now.
    pub fn spent(&self) -> (&str, Spent) {
        (&self.call.pool, self.course.spent())
    }

    /// Counts for the pool that there will be no reply, or no more of it.
    pub fn count_failure(&self, gateway: &Gateway, failure: &Failure) {
        let counters = gateway.queue_handle.counters(self.pool);
        counters.failures.add_among_others(1);
        match failure {
            Failure::Full => counters.refused.add_among_others(1),
            Failure::Late => counters.expired.add_among_others(1),
            Failure::TooManyUpgrades => counters.upgrades_refused.add_among_others(1),
            _ => {}
        }
    }

    /// Counts for the pool that the client has disconnected.
    pub fn count_client_left(&self, gateway: &Gateway) {
        gateway.queue_handle.counters(self.pool).clients_left.add_among_others(1);
    }

    /// The site that the request asked, and the terms that the reply must respect.
    pub fn owed(&self) -> (SiteNumber, Terms) {
        // The client may go on with a body that nobody wants.
        let persistent = self.terms.persistent && !self.streams_body();
        (self.call.site, Terms { persistent, ..self.terms })
    }

    /// Sets whether the connection may continue after the reply, which was not known before.
    pub fn set_persistent(&mut self, is_persistent: bool) {
        self.terms.persistent = is_persistent;
    }

    /// Whether there is something for the client to take.
    pub fn has_output(&self) -> bool {
        let has_reply = || self.delivery.as_ref().is_some_and(|delivery| delivery.reply().left() > 0);
        !self.interims.is_empty() || has_reply()
    }

    /// The reply as it can be sent now, and the memory in which some of it may lie.
    pub fn outgoing(&self) -> Option<(&OpenReply<Pin>, Option<&Area>)> {
        let area = match &self.stage {
            Stage::Asking(link) | Stage::Emptying(link) => &link.area,
            _ => &self.area,
        };
        Some((self.delivery.as_ref()?.reply(), area.as_deref()))
    }

    /// Whether the server has sent something that has not been received.
    pub fn has_input(&self) -> bool {
        matches!(&self.stage, Stage::Asking(link) | Stage::Joined(link) if link.readable)
    }

    /// The pool's name.
    pub fn pool(&self) -> &std::sync::Arc<str> {
        &self.call.pool
    }

    /// The reply, once its head has come.
    pub fn reply(&mut self) -> Option<&mut OpenReply<Pin>> {
        self.delivery.as_mut().map(Delivery::reply_mut)
    }

    /// What is to be sent instead of a reply, once the server has sent all, and the client has taken the
    /// interim replies.
    pub fn take_named(&mut self) -> Option<Box<Named>> {
        let is_due = matches!(self.stage, Stage::Over) && self.interims.is_empty();
        if is_due { self.named.take() } else { None }
    }

    /// The server's connection, if there is one.
    pub fn link(&mut self) -> Option<&mut Link> {
        match &mut self.stage {
            Stage::Asking(link) | Stage::Emptying(link) | Stage::Joined(link) => Some(link),
            _ => None,
        }
    }

    /// The socket of the server's connection, if there is one.
    pub fn link_fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.stage {
            Stage::Asking(link) | Stage::Joined(link) => Some(link.as_fd()),
            _ => None,
        }
    }

    /// What the server's connection waits for: input, and room.
    pub fn link_waits_for(&self) -> (bool, bool) {
        match &self.stage {
            Stage::Asking(link) => link.waits_for(self.wants_input()),
            Stage::Joined(link) => link.waits_for(self.wants_input() && !self.is_client_gone),
            _ => (false, false),
        }
    }

    /// Whether more of the reply may be received.
    fn wants_input(&self) -> bool {
        self.delivery.as_ref().is_none_or(Delivery::wants_more)
    }

    /// Records whether the client's buffers have no room for more of the reply.
    pub fn note_client(&mut self, is_slow: bool) {
        if let Some(delivery) = &mut self.delivery {
            delivery.note_client(is_slow);
        }
    }

    /// Reports to the gateway how much memory this relay uses.
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
