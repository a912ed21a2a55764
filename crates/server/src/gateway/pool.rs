//! A pool: servers that run the same application. Each request goes to the server with the fewest
//! requests in flight.
//!
//! Health checks are passive. A server that cannot be connected to is left alone for a while, and then
//! tried by one request first. If all servers are left alone, the one left alone for the longest is
//! tried.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use fastcgi::WebServer;
use fastcgi::transport::Transports;
use http1::{Tick, Timeouts};
use sys::client;

use super::http_request::HttpTerms;
use super::link::Speaks;
use super::send_files::{self, SendFiles};
use crate::config::{AreaSend, ListenAddress, PoolRule, Protocol, Transport};
use crate::content::SiteNumber;

/// Servers that run one application.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) name: Arc<str>,
    servers: Vec<Server>,
    pub(super) timeouts: PoolTimeouts,
    pub(super) params: Vec<(String, String)>,
    /// What requests over HTTP have of the pool's settings. `None`: it speaks FastCGI.
    pub(super) http: Option<HttpTerms>,
    pub(super) send_files: SendFiles,
    /// Whether TRACE requests go to the pool.
    pub(super) trace: bool,
    /// How replies reach their clients, if the server supports that transport.
    pub(super) transport: Transport,
    pub(super) area: u64,
    pub(super) area_send: AreaSend,
    /// Most connections that are kept, and how long each is kept, in ticks.
    pub(super) keep: usize,
    pub(super) keep_ticks: u32,
}

/// How long a pool's servers may take, in ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolTimeouts {
    /// Until a server is free.
    pub(super) queue: u32,
    /// Until a server has accepted a connection.
    pub(super) connect: u32,
    /// Without sending or taking anything.
    pub(super) quiet: u32,
    /// In total.
    pub(super) total: Option<u32>,
    /// Without a byte in either direction, on a connection that was upgraded.
    pub(super) upgraded: u32,
}

#[derive(Debug)]
struct Server {
    address: ListenAddress,
    in_flight: u32,
    /// Until when the server is left alone.
    alone_until: Option<Tick>,
    /// Until when the server is not asked for its transports.
    plain_until: Option<Tick>,
}

/// How long a server that cannot be connected to is left alone.
const ALONE_TICKS: u32 = 1000 / Tick::MS;

/// Servers that a request has been sent to, one bit each.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tried(u64);

impl Tried {
    pub(super) fn note(&mut self, server: usize) {
        self.0 |= 1 << (server % 64);
    }

    fn has(self, server: usize) -> bool {
        self.0 >> (server % 64) & 1 != 0
    }
}

impl Pool {
    /// A pool that keeps at most `keep` connections. Its directories are numbered from `directories` on.
    pub(super) fn new(rule: &PoolRule, keep: u32, directories: SiteNumber) -> Self {
        let ticks = |time: std::time::Duration| Timeouts::ticks(time.as_millis() as u64);
        let server = |address: &ListenAddress| Server {
            address: address.clone(),
            in_flight: 0,
            alone_until: None,
            plain_until: None,
        };
        Self {
            name: rule.name.as_str().into(),
            servers: rule.servers.iter().map(server).collect(),
            timeouts: PoolTimeouts {
                queue: ticks(rule.queue_timeout),
                connect: ticks(rule.connect_timeout),
                quiet: ticks(rule.timeout),
                total: rule.total_timeout.map(ticks),
                upgraded: ticks(rule.upgrade_timeout),
            },
            params: params(rule),
            http: (rule.protocol == Protocol::Http).then(|| HttpTerms::of(rule)),
            send_files: SendFiles::new(rule, directories),
            trace: rule.trace,
            transport: rule.transport,
            area: rule.area,
            area_send: rule.area_send,
            keep: keep as usize,
            keep_ticks: ticks(rule.keep_timeout),
        }
    }

    /// The server for a request that has been to the servers in `tried`.
    pub(super) fn choose(&mut self, tried: Tried, now: Tick) -> Option<usize> {
        let untried = || (0..self.servers.len()).filter(|&server| !tried.has(server));
        let is_open =
            |server: &usize| self.servers[*server].alone_until.is_none_or(|until| until.reached(now));
        let chosen = untried().filter(is_open).min_by_key(|&server| self.servers[server].in_flight);
        let left_for =
            |server: &usize| self.servers[*server].alone_until.map_or(0, |until| until.remaining(now));
        let chosen = chosen.or_else(|| untried().min_by_key(left_for))?;
        let server = &mut self.servers[chosen];
        if server.alone_until.is_some() {
            // One request tries. The others go elsewhere until the outcome is known.
            server.alone_until = Some(now.after(ALONE_TICKS));
        }
        Some(chosen)
    }

    /// Whether there are servers that a request has not been to.
    pub(super) fn has_others(&self, tried: Tried) -> bool {
        (0..self.servers.len()).any(|server| !tried.has(server))
    }

    /// The address of a server.
    pub(super) fn address(&self, server: usize) -> ListenAddress {
        self.servers[server].address.clone()
    }

    /// Begins to connect, and returns whether the connection is up already.
    pub(super) fn connect(&self, server: usize) -> io::Result<(OwnedFd, bool)> {
        match &self.servers[server].address {
            ListenAddress::Tcp(address) => client::connect(None, *address),
            ListenAddress::Unix(path) => client::connect_unix(path).map(|socket| (socket, true)),
        }
    }

    /// Whether to ask a server which transports it supports: the pool's transport, or over TCP whether it
    /// reports that it waits.
    pub(super) fn asks(&self, server: usize, now: Tick) -> bool {
        let server = &self.servers[server];
        let is_plain = server.plain_until.is_some_and(|until| !until.reached(now));
        let wants = self.transport != Transport::Stream || self.keep > 0 && server.address.is_tcp();
        self.http.is_none() && wants && !is_plain
    }

    /// Whether to ask a server to leave its connection open. `asks`: whether it is asked for its
    /// transports. Over TCP, only a server that is asked can show whether it still works on a request.
    pub(super) fn keeps(&self, server: usize, asks: bool) -> bool {
        self.keep > 0 && (asks || self.http.is_some() || !self.servers[server].address.is_tcp())
    }

    /// What is spoken over a new connection.
    pub(super) fn speaks(&self) -> Speaks {
        match self.http {
            Some(_) => Speaks::Http(Box::default()),
            None => Speaks::FastCgi(WebServer::default()),
        }
    }

    /// Whether a server that was asked supports what it was asked for.
    pub(super) fn is_served_by(&self, knows: Transports) -> bool {
        match self.transport {
            Transport::Stream => knows.waits,
            Transport::PassFd => knows.pass_fd,
            Transport::SharedMemory => knows.shared_memory,
        }
    }

    /// Whether a kept connection is as good as a new one, on which the server might be asked for its
    /// transports.
    pub(super) fn is_settled(&self, server: usize, knows: Transports, now: Tick) -> bool {
        self.is_served_by(knows) || !self.asks(server, now)
    }

    /// Records that a server does not support what it was asked for. It is not asked again until `until`.
    pub(super) fn is_plain(&mut self, server: usize, until: Tick) {
        self.servers[server].plain_until = Some(until);
    }

    /// Records that a server supports what it was asked for.
    pub(super) fn is_known(&mut self, server: usize) {
        self.servers[server].plain_until = None;
    }

    /// Counts a request that is in flight to a server.
    pub(super) fn begin(&mut self, server: usize) {
        self.servers[server].in_flight += 1;
    }

    /// Counts a request that is no longer in flight to a server.
    pub(super) fn end(&mut self, server: usize) {
        self.servers[server].in_flight -= 1;
    }

    /// Records that a server has accepted a connection.
    pub(super) fn is_there(&mut self, server: usize) {
        self.servers[server].alone_until = None;
    }

    /// Records that a server cannot be connected to.
    pub(super) fn is_away(&mut self, server: usize, now: Tick) {
        self.servers[server].alone_until = Some(now.after(ALONE_TICKS));
    }
}

/// The parameters of all requests: the operator's, and those that tell the application that it may name
/// files.
fn params(rule: &PoolRule) -> Vec<(String, String)> {
    let mut params = rule.params.clone();
    for (name, value) in send_files::PARAMS.iter().filter(|_| !rule.send_files.is_empty()) {
        if params.iter().all(|(known, _)| known != name) {
            params.push(((*name).to_owned(), (*value).to_owned()));
        }
    }
    params
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(servers: u16) -> Pool {
        let servers = (1..=servers).map(|port| ListenAddress::Tcp(([127, 0, 0, 1], port).into())).collect();
        Pool::new(&PoolRule { servers, ..PoolRule::default() }, 0, 1)
    }

    const NOW: Tick = Tick(1000);

    #[test]
    fn requests_go_to_where_the_fewest_are() {
        let mut pool = pool(3);
        let mut counts = [0; 3];
        for _ in 0..9 {
            let server = pool.choose(Tried::default(), NOW).unwrap();
            pool.begin(server);
            counts[server] += 1;
        }
        assert_eq!(counts, [3; 3]);
        pool.end(1);
        assert_eq!(pool.choose(Tried::default(), NOW), Some(1));
    }

    #[test]
    fn a_request_tries_each_server_once() {
        let mut pool = pool(2);
        let mut tried = Tried::default();
        for expected in [Some(0), Some(1), None] {
            let server = pool.choose(tried, NOW);
            assert_eq!(server, expected);
            server.inspect(|&server| tried.note(server));
        }
    }

    #[test]
    fn one_that_is_away_is_tried_again_by_one_request() {
        let mut pool = pool(2);
        pool.is_away(0, NOW);
        let choose = |pool: &mut Pool, now| {
            let server = pool.choose(Tried::default(), now).unwrap();
            pool.begin(server);
            server
        };
        assert_eq!([choose(&mut pool, NOW), choose(&mut pool, NOW)], [1, 1]);
        let later = NOW.after(ALONE_TICKS);
        assert_eq!([choose(&mut pool, later), choose(&mut pool, later)], [0, 1], "one tries");
        pool.is_there(0);
        assert_eq!([choose(&mut pool, later), choose(&mut pool, later)], [0, 0]);
    }

    #[test]
    fn where_all_are_away_the_one_is_tried_that_has_been_for_longest() {
        let mut pool = pool(2);
        pool.is_away(1, NOW);
        pool.is_away(0, NOW.after(1));
        assert_eq!(pool.choose(Tried::default(), NOW.after(2)), Some(1));
    }
}
