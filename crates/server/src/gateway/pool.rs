//! A pool: servers that run the same application, of which a request goes to the one with the fewest in
//! flight.
//!
//! Health is passive: one that can't be connected to is left alone for a while, and then tried by one request
//! first. Where all are left alone, the one is tried that has been for longest.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use fastcgi::transport::Transports;
use http1::{Tick, Timeouts};
use sys::client;

use super::send_files::{self, SendFiles};
use crate::config::{AreaSend, ListenAddress, PoolRule, Transport};
use crate::content::SiteNumber;

/// Servers that run one application.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) name: Arc<str>,
    servers: Vec<Server>,
    pub(super) patience: PoolPatience,
    pub(super) params: Vec<(String, String)>,
    pub(super) send_files: SendFiles,
    /// Whether TRACE requests go to it.
    pub(super) trace: bool,
    /// How replies come to their clients, where the server knows that way.
    pub(super) transport: Transport,
    pub(super) area: u64,
    pub(super) area_send: AreaSend,
    /// Most connections that are kept, and for how long, in ticks.
    pub(super) keep: usize,
    pub(super) keep_ticks: u32,
}

/// How long a pool's servers may take, in ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolPatience {
    /// Until one is free.
    pub(super) queue: u32,
    /// Until one has accepted a connection.
    pub(super) connect: u32,
    /// To say or take anything.
    pub(super) quiet: u32,
    /// In all.
    pub(super) total: Option<u32>,
}

#[derive(Debug)]
struct Server {
    address: ListenAddress,
    in_flight: u32,
    /// Until when it is left alone.
    alone_until: Option<Tick>,
    /// Until when it is not asked what it knows.
    plain_until: Option<Tick>,
}

/// How long a server is left alone that can't be connected to.
const ALONE_TICKS: u32 = 1000 / Tick::MS;

/// Servers that a request has been to, a bit each.
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
    /// One of which so many connections may be kept, and whose directories are numbered from that one on.
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
            patience: PoolPatience {
                queue: ticks(rule.queue_timeout),
                connect: ticks(rule.connect_timeout),
                quiet: ticks(rule.timeout),
                total: rule.total_timeout.map(ticks),
            },
            params: params(rule),
            send_files: SendFiles::new(rule, directories),
            trace: rule.trace,
            transport: rule.transport,
            area: rule.area,
            area_send: rule.area_send,
            keep: keep as usize,
            keep_ticks: ticks(rule.keep_timeout),
        }
    }

    /// The server for a request that has been to these.
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
            // One request tries, and others wait for what comes of it.
            server.alone_until = Some(now.after(ALONE_TICKS));
        }
        Some(chosen)
    }

    /// Whether there are servers that a request has not been to.
    pub(super) fn has_others(&self, tried: Tried) -> bool {
        (0..self.servers.len()).any(|server| !tried.has(server))
    }

    /// Where a server is.
    pub(super) fn address(&self, server: usize) -> ListenAddress {
        self.servers[server].address.clone()
    }

    /// Begins to connect, and says whether the connection is up already.
    pub(super) fn connect(&self, server: usize) -> io::Result<(OwnedFd, bool)> {
        match &self.servers[server].address {
            ListenAddress::Tcp(address) => client::connect(None, *address),
            ListenAddress::Unix(path) => client::connect_unix(path).map(|socket| (socket, true)),
        }
    }

    /// Whether a server is to be asked what it knows: the pool's transport, or over TCP to say when it waits.
    pub(super) fn asks(&self, server: usize, now: Tick) -> bool {
        let server = &self.servers[server];
        let is_plain = server.plain_until.is_some_and(|until| !until.reached(now));
        let wants = self.transport != Transport::Stream || self.keep > 0 && server.address.is_tcp();
        wants && !is_plain
    }

    /// Whether a server is to leave its connection open, which is asked what it knows or not: over TCP
    /// nothing else tells whether it still works.
    pub(super) fn keeps(&self, server: usize, asks: bool) -> bool {
        self.keep > 0 && (asks || !self.servers[server].address.is_tcp())
    }

    /// Whether a server that was asked knows what it was asked for.
    pub(super) fn is_served_by(&self, knows: Transports) -> bool {
        match self.transport {
            Transport::Stream => knows.waits,
            Transport::PassFd => knows.pass_fd,
            Transport::SharedMemory => knows.shared_memory,
        }
    }

    /// Whether a connection is as good as a new one, on which its server might be asked what it knows.
    pub(super) fn is_settled(&self, server: usize, knows: Transports, now: Tick) -> bool {
        self.is_served_by(knows) || !self.asks(server, now)
    }

    /// A server does not know what it was asked for, and is not asked again until then.
    pub(super) fn is_plain(&mut self, server: usize, until: Tick) {
        self.servers[server].plain_until = Some(until);
    }

    /// A server knows what it was asked for.
    pub(super) fn is_known(&mut self, server: usize) {
        self.servers[server].plain_until = None;
    }

    /// A request is in flight to a server.
    pub(super) fn begin(&mut self, server: usize) {
        self.servers[server].in_flight += 1;
    }

    /// It is not any more.
    pub(super) fn end(&mut self, server: usize) {
        self.servers[server].in_flight -= 1;
    }

    /// A server has accepted a connection.
    pub(super) fn is_there(&mut self, server: usize) {
        self.servers[server].alone_until = None;
    }

    /// A server can't be connected to.
    pub(super) fn is_away(&mut self, server: usize, now: Tick) {
        self.servers[server].alone_until = Some(now.after(ALONE_TICKS));
    }
}

/// The parameters of all requests: the operator's, and what tells that files may be named.
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
