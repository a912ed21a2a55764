//! The data of one request: its line in the access log, when it was read, and what it waits for other
//! than its client.

use http1::{Head, Status};
use sys::socket::PeerAddress;

use super::Introduced;
use super::application::Application;
use super::disk::Waiting;
use crate::access_log::LogNumber;
use crate::content::SiteNumber;
use crate::gateway::Relay;
use crate::service::Service;

/// The peer that has connected, and what is known of that connection.
type Came<'a> = (&'a PeerAddress, Option<&'a Introduced>);

/// The exchange under way, if there is one.
#[derive(Debug)]
pub(super) struct Exchange {
    /// The first half of the access log's line. Empty when no line is kept.
    log_line: Vec<u8>,
    /// The log for the line.
    log: LogNumber,
    /// The least number of milliseconds that the connection waited in the accept queue, until that has
    /// been logged. [`UNKNOWN`] if it is not known.
    waited_ms: u32,
    /// When the request was read, in monotonic milliseconds.
    began_ms: u64,
    /// What the exchange waits for other than its client, if anything.
    pub(super) waiting: Option<Box<Pause>>,
}

/// What a conversation waits for other than its client.
#[derive(Debug)]
pub(super) enum Pause {
    /// The disk.
    Disk(Waiting),
    /// An application.
    Application(Box<Application>),
}

/// More than any connection waits.
const UNKNOWN: u32 = u32::MAX;

impl Exchange {
    /// The first exchange of a connection, with the time that it waited in the accept queue, if known.
    pub(super) fn first(waited_ms: Option<u32>) -> Self {
        let waited_ms = waited_ms.unwrap_or(UNKNOWN);
        Self { log_line: Vec::new(), log: 0, waited_ms, began_ms: 0, waiting: None }
    }

    /// The wait for the disk, if there is one.
    #[inline]
    pub(super) fn disk(&self) -> Option<&Waiting> {
        match self.waiting.as_deref() {
            Some(Pause::Disk(waiting)) => Some(waiting),
            _ => None,
        }
    }

    /// The wait for the disk, if there is one.
    pub(super) fn disk_mut(&mut self) -> Option<&mut Waiting> {
        match self.waiting.as_deref_mut() {
            Some(Pause::Disk(waiting)) => Some(waiting),
            _ => None,
        }
    }

    /// The application, if the exchange waits for one.
    pub(super) fn application(&self) -> Option<&Application> {
        match self.waiting.as_deref() {
            Some(Pause::Application(application)) => Some(application),
            _ => None,
        }
    }

    /// The application, if the exchange waits for one.
    pub(super) fn application_mut(&mut self) -> Option<&mut Application> {
        match self.waiting.as_deref_mut() {
            Some(Pause::Application(application)) => Some(application),
            _ => None,
        }
    }

    /// Counts a request that was read, and begins its line in the access log.
    #[inline]
    pub(super) fn begin(&mut self, service: &mut Service, from: Came<'_>, head: &Head<'_>) {
        service.counters.requests.add(1);
        if !service.logs.are_off() {
            self.begin_line(service, from, head);
        }
    }

    #[inline(never)]
    fn begin_line(&mut self, service: &mut Service, (peer, introduced): Came<'_>, head: &Head<'_>) {
        let site = if service.logs.differ() { service.content.site_of(head) } else { 0 };
        if let Some(log) = self.take_line(service, site) {
            let client = service.proxies.asks_for(peer, head.fields).client();
            let announced = introduced.and_then(|introduced| introduced.announced.as_ref());
            let origin = service.proxies.origin(peer, announced, head.fields);
            let (client, unix_secs) = (client.as_ref().unwrap_or(peer), service.clock.unix_secs);
            let log = service.logs.at(log);
            log.begin(&mut self.log_line, client, head, unix_secs);
            if !origin.is_unknown() {
                log.add_origin(&mut self.log_line, &origin);
            }
            if let Some(facts) = introduced.and_then(|introduced| introduced.secured.as_deref()) {
                log.add_tls(&mut self.log_line, facts);
            }
            if self.waited_ms != UNKNOWN {
                log.add_accept(&mut self.log_line, std::mem::replace(&mut self.waited_ms, UNKNOWN));
            }
        }
    }

    /// Begins the line of a request that could not be read, unless it has one. `site` is the site of the
    /// log.
    pub(super) fn begin_unreadable(&mut self, service: &mut Service, peer: &PeerAddress, site: SiteNumber) {
        if self.log_line.is_empty()
            && let Some(log) = self.take_line(service, site)
        {
            service.logs.at(log).begin_unreadable(&mut self.log_line, peer, service.clock.unix_secs);
        }
    }

    /// Takes a buffer for a line in the log of a site, if the site has a log.
    fn take_line(&mut self, service: &mut Service, site: SiteNumber) -> Option<LogNumber> {
        self.log = service.logs.of_site(site)?;
        self.log_line = service.buffers.take();
        self.began_ms = service.clock.ms;
        Some(self.log)
    }

    /// Adds the application's part to the line of an exchange.
    pub(super) fn note_application(&mut self, service: &mut Service, relay: &Relay) {
        if !self.log_line.is_empty() {
            let (pool, spent) = relay.spent();
            let log = service.logs.at(self.log);
            log.add_application(&mut self.log_line, pool, spent.queue_ms, spent.application_ms);
        }
    }

    /// Writes the line of an exchange whose reply has ended.
    #[inline]
    pub(super) fn end(&mut self, service: &mut Service, status: Status, body_sent: u64) {
        if !self.log_line.is_empty() {
            self.end_line(service, status, body_sent);
        }
    }

    #[inline(never)]
    fn end_line(&mut self, service: &mut Service, status: Status, body_sent: u64) {
        let line = std::mem::take(&mut self.log_line);
        let duration_ms = service.clock.ms.saturating_sub(self.began_ms);
        service.logs.at(self.log).end(&line, status.0, body_sent, duration_ms);
        service.buffers.give(line);
    }

    /// Gives back the buffer of an exchange that has no end.
    pub(super) fn drop_line(&mut self, service: &mut Service) {
        service.buffers.give(std::mem::take(&mut self.log_line));
    }
}
