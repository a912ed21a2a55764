//! Finding a server of the pool for a request. A kept connection is used, or the next server that can be
//! connected to, which is first asked for its transports. If a connection breaks before anything was
//! said, the request is sent again.

use std::io;

use fastcgi::transport::Lent;
use http1::{Head, Tick, Version};
use sys::socket::{LocalAddress, is_exhaustion};

use super::super::failure::Failure;
use super::super::http_request::{self, AfterReply, BodyLength};
use super::super::lent_connection::LentConnection;
use super::super::link::{Link, Setup};
use super::super::params;
use super::super::pool::{NoServer, Tried};
use super::super::{Gateway, SERVER, Tools};
use super::{Relay, Stage};
use crate::config::Transport;

/// `ETOOMANYREFS` of unix(7).
const TOO_MANY_REFERENCES: i32 = 109;
/// How long until a server whose queue is full is tried again.
const PAUSE_TICKS: u32 = 10 / Tick::MS;
/// How long to believe that a server does not support what it was asked for. Another server may have its
/// address by then.
const PLAIN_TICKS: u32 = 5000 / Tick::MS;

impl Relay {
    /// Takes a kept connection, or finds a server and connects to it, or begins to.
    pub(super) fn connect(&mut self, gateway: &mut Gateway, tools: &mut Tools<'_>) -> Result<(), Failure> {
        let now = tools.now;
        gateway.pools[self.pool].take_over_addresses();
        if gateway.pools[self.pool].keep > 0
            && self.is_repeatable
            && !self.is_repeated
            && let Some(link) = gateway.take_kept(self.pool, tools.scratch)
        {
            gateway.pools[self.pool].begin(link.server.at);
            gateway.queue_handle.counters(self.pool).reused.add_among_others(1);
            self.stage = Stage::Asking(link);
            return self.ask(gateway, tools);
        }
        let pool = &mut gateway.pools[self.pool];
        let server = match pool.choose(self.tried, now) {
            Ok(server) => server,
            Err(NoServer::AllTried) => return Err(Failure::Busy),
            Err(NoServer::NotLookedUp) if !self.due_since.after(self.timeouts.connect).reached(now) => {
                self.stage = Stage::Due(Some(now.after(PAUSE_TICKS)));
                return Ok(());
            }
            Err(_) => return Err(Failure::NoAddress(pool.names())),
        };
        self.tried.note(server);
        match pool.connect(server) {
            Ok((socket, is_up)) => {
                pool.begin(server);
                let asks = pool.asks(server, now) && !self.is_by_stream;
                let keeps = pool.keeps(server, asks);
                gateway.own(&socket);
                let speaks = gateway.pools[self.pool].speaks();
                let is_local = !gateway.pools[self.pool].address(server).is_tcp();
                let id = gateway.pools[self.pool].id(server);
                let mut link = Link::new((socket, is_local), speaks, id, is_up, keeps);
                if gateway.has_ring {
                    link.use_ring();
                }
                if asks {
                    link.negotiate();
                }
                let is_ready = link.setup == Setup::Ready;
                self.stage = Stage::Asking(link);
                self.active = now;
                if is_ready { self.ask(gateway, tools) } else { Ok(()) }
            }
            Err(error) => self.is_away(gateway, server, error, now),
        }
    }

    /// Asks the server for its transports, or receives its answer. Returns whether to call again at once.
    pub(super) fn negotiate(
        &mut self,
        gateway: &mut Gateway,
        tools: &mut Tools<'_>,
    ) -> Result<bool, Failure> {
        let Stage::Asking(link) = &mut self.stage else { return Ok(false) };
        let asked = link.send(&mut self.body, None, tools.share);
        let heard = match asked {
            Ok(_) if !link.readable || *tools.share == 0 => return Ok(false),
            Ok(_) => link.hear_transports(tools.scratch, tools.share),
            Err(error) => Err(error),
        };
        let is_known = match heard {
            Ok(None) => return Ok(link.readable),
            Ok(Some(knows)) => {
                link.knows = knows;
                gateway.pools[self.pool].is_served_by(knows)
            }
            Err(_) => false,
        };
        if is_known {
            gateway.pools[self.pool].is_known(link.server.at);
            self.ask(gateway, tools)?;
            return Ok(true);
        }
        // A server that has answered may have closed the connection after that, as PHP-FPM does.
        self.ask_plainly(gateway, tools.now, PLAIN_TICKS);
        Ok(true)
    }

    /// The server does not support what it was asked for. It gets the request on another connection. It
    /// is not asked again for `ticks`.
    pub(super) fn ask_plainly(&mut self, gateway: &mut Gateway, now: Tick, ticks: u32) {
        if let Stage::Asking(link) = &self.stage {
            gateway.pools[self.pool].is_plain(link.server.at, now.after(ticks));
        }
        self.let_go(gateway);
        self.tried = Tried::default();
        self.stage = Stage::Due(None);
    }

    /// Begins the request on a connection that is up.
    pub(super) fn ask(&mut self, gateway: &mut Gateway, tools: &mut Tools<'_>) -> Result<(), Failure> {
        let Stage::Asking(link) = &mut self.stage else { return Ok(()) };
        self.course.is_connected();
        self.active = tools.now;
        link.setup = Setup::Ready;
        gateway.pools[self.pool].is_there(link.server.at);
        let transport = gateway.pools[self.pool].transport;
        if transport == Transport::SharedMemory && link.knows.shared_memory && link.area.is_none() {
            // Without memory or descriptors, the stream is used.
            if let Some(area) = gateway.open_area(self.pool) {
                link.share(area);
            }
        }
        let is_lendable = transport == Transport::PassFd && link.knows.pass_fd && !self.is_by_stream;
        let is_tcp = matches!(self.asker.local, Some(LocalAddress::Inet(_)));
        if let Some(client) = tools.client.filter(|_| is_lendable && is_tcp) {
            self.lent_connection = LentConnection::new(client).ok();
            self.has_lent |= self.lent_connection.is_some();
        }
        let lent = self.lent_connection.as_ref().map(|_| Lent {
            is_http11: self.terms.version == Version::Http11,
            is_persistent: self.terms.persistent,
            has_body: self.terms.body,
            server: SERVER.as_bytes(),
        });
        let head = Head::again(&self.consumed, self.terms).ok_or(Failure::Unreadable)?;
        let body = self.body.length();
        let upload = self.upload.map(|upload| upload.length);
        if let Some(terms) = &gateway.pools[self.pool].http {
            let keeps = gateway.pools[self.pool].keep > 0;
            let afterwards = match self.joining {
                Some(_) => AfterReply::Switches,
                None if keeps => AfterReply::Stays,
                None => AfterReply::Ends,
            };
            let write = |out: &mut Vec<u8>| {
                let length = upload.unwrap_or(BodyLength::Known(body));
                http_request::write(out, &head, &self.asker, (length, afterwards), terms);
            };
            return link
                .begin_http((head.method, afterwards), upload, write)
                .map_err(|_| Failure::Unreadable);
        }
        let own = &gateway.pools[self.pool].params;
        link.begin(lent, |params| params::write(params, &head, &self.call, &self.asker, body, own))?;
        Ok(())
    }

    /// Handles a server that cannot be connected to. Other servers may still be.
    pub(super) fn is_away(
        &mut self,
        gateway: &mut Gateway,
        server: usize,
        error: io::Error,
        now: Tick,
    ) -> Result<(), Failure> {
        let pool = &mut gateway.pools[self.pool];
        // The queue of a Unix socket is full, or there are no descriptors. No event reports when that
        // changes.
        let is_busy = error.kind() == io::ErrorKind::WouldBlock || is_exhaustion(&error);
        if !is_busy {
            pool.is_away(server, now);
        }
        if pool.has_others(self.tried) {
            self.stage = Stage::Due(None);
            return Ok(());
        }
        if !is_busy {
            return Err(Failure::Unreachable(pool.address(server), error));
        }
        if self.due_since.after(self.timeouts.connect).reached(now) {
            return Err(Failure::Busy);
        }
        self.tried = Tried::default();
        self.stage = Stage::Due(Some(now.after(PAUSE_TICKS)));
        Ok(())
    }

    /// Whether the request can be sent once more. That is so if the server has closed a kept connection,
    /// as it may at any time, and has sent nothing. Only requests that may be repeated are sent on kept
    /// connections.
    pub(super) fn may_repeat(&self, failure: &Failure, tools: &Tools<'_>) -> bool {
        let is_unheard = matches!(&self.stage, Stage::Asking(link) if link.is_reused && !link.has_heard);
        let may = is_unheard && !self.is_repeated && matches!(failure, Failure::Closed | Failure::Broken(_));
        may && match (&self.lent_connection, tools.client) {
            (Some(lent), Some(client)) => lent.sent(client) == 0,
            (Some(_), None) => false,
            (None, _) => true,
        }
    }

    pub(super) fn repeat(&mut self, gateway: &mut Gateway, now: Tick) {
        gateway.queue_handle.counters(self.pool).retried.add_among_others(1);
        self.let_go(gateway);
        self.body.rewind();
        self.lent_connection = None;
        (self.is_repeated, self.due_since) = (true, now);
        self.stage = Stage::Due(None);
    }

    /// Sends the request again over the stream. More descriptors are in transit than the kernel allows
    /// (`ETOOMANYREFS`), so none of the request was sent.
    #[cold]
    pub(super) fn pass_nothing(&mut self, gateway: &mut Gateway, now: Tick) {
        self.let_go(gateway);
        self.body.rewind();
        (self.lent_connection, self.is_by_stream) = (None, true);
        (self.tried, self.due_since) = (Tried::default(), now);
        self.stage = Stage::Due(None);
    }
}

pub(super) fn is_too_many_passed(error: &io::Error) -> bool {
    error.raw_os_error() == Some(TOO_MANY_REFERENCES)
}
