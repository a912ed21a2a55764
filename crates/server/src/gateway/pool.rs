//! A pool: servers that run the same application. Each request goes to the server with the fewest
//! requests in flight.
//!
//! Health checks are passive. A server that cannot be connected to is left alone for a while, and then
//! tried by one request first. If all servers are left alone, the one left alone for the longest is
//! tried.
//!
//! A [name](crate::names) stands for a server at each of its addresses. Before a server is chosen, the pool
//! takes over what has changed. A server whose address is gone gets no more requests. Its place goes to a
//! new address, once none of its requests is in flight. So places are at most as many as addresses and
//! requests in flight together.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use fastcgi::WebServer;
use fastcgi::transport::Transports;
use http1::{Tick, Timeouts};
use sys::client;

use super::http_request::HttpTerms;
use super::link::Speaks;
use super::send_files::{self, SendFiles};
use super::server_id::ServerId;
use crate::config::{AreaSend, ListenAddress, PoolRule, Protocol, ServerAddress, Transport};
use crate::content::SiteNumber;
use crate::names::Addresses;

/// Servers that run one application.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) name: Arc<str>,
    servers: Vec<Server>,
    names: Vec<Name>,
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
    /// The number of the name that has this address. `None`: the settings have it.
    of_name: Option<usize>,
    /// The name has this address no longer.
    is_gone: bool,
    /// How many addresses have had this place before.
    before: u32,
    in_flight: u32,
    /// Until when the server is left alone.
    alone_until: Option<Tick>,
    /// Until when the server is not asked for its transports.
    plain_until: Option<Tick>,
}

/// A name that stands for servers.
#[derive(Debug)]
struct Name {
    host: String,
    port: u16,
    addresses: &'static Addresses,
    /// The version of the addresses that the pool has taken over. 0: none has been looked up yet.
    version: u32,
}

/// Why there is no server for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoServer {
    /// The request has been to all.
    AllTried,
    /// A name has not been looked up yet.
    NotLookedUp,
    /// No name has an address.
    NoAddress,
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
    /// `addresses` finds those of a name.
    pub(super) fn new(
        rule: &PoolRule,
        keep: u32,
        directories: SiteNumber,
        addresses: impl Fn(&str) -> Option<&'static Addresses>,
    ) -> Self {
        let ticks = |time: std::time::Duration| Timeouts::ticks(time.as_millis() as u64);
        let server = |server: &ServerAddress| match server {
            ServerAddress::At(address) => Some(Server::new(address.clone(), None)),
            ServerAddress::Named(_) => None,
        };
        let name = |server: &ServerAddress| {
            let (host, port) = server.name().map(|name| (name.host.clone(), name.port))?;
            addresses(&host).map(|addresses| Name { host, port, addresses, version: 0 })
        };
        Self {
            name: rule.name.as_str().into(),
            servers: rule.servers.iter().filter_map(server).collect(),
            names: rule.servers.iter().filter_map(name).collect(),
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
    pub(super) fn choose(&mut self, tried: Tried, now: Tick) -> Result<usize, NoServer> {
        let untried = || {
            let is_usable = |server: &usize| !tried.has(*server) && !self.servers[*server].is_gone;
            (0..self.servers.len()).filter(is_usable)
        };
        let is_open =
            |server: &usize| self.servers[*server].alone_until.is_none_or(|until| until.reached(now));
        let chosen = untried().filter(is_open).min_by_key(|&server| self.servers[server].in_flight);
        let left_for =
            |server: &usize| self.servers[*server].alone_until.map_or(0, |until| until.remaining(now));
        let Some(chosen) = chosen.or_else(|| untried().min_by_key(left_for)) else {
            return Err(self.no_server());
        };
        let server = &mut self.servers[chosen];
        if server.alone_until.is_some() {
            // One request tries. The others go elsewhere until the outcome is known.
            server.alone_until = Some(now.after(ALONE_TICKS));
        }
        Ok(chosen)
    }

    fn no_server(&self) -> NoServer {
        if self.servers.iter().any(|server| !server.is_gone) {
            NoServer::AllTried
        } else if self.names.iter().any(|name| name.version == 0) {
            NoServer::NotLookedUp
        } else {
            NoServer::NoAddress
        }
    }

    /// Takes over the addresses of names that have been looked up since the last call.
    pub(super) fn take_over_addresses(&mut self) {
        for number in 0..self.names.len() {
            let Name { port, addresses, version, .. } = self.names[number];
            if let Some((version, addresses)) = addresses.since(version) {
                self.names[number].version = version;
                self.has_addresses(number, port, &addresses);
            }
        }
    }

    #[cold]
    fn has_addresses(&mut self, name: usize, port: u16, addresses: &[IpAddr]) {
        let addresses = addresses.iter().map(|&ip| ListenAddress::Tcp((ip, port).into()));
        let mut new: Vec<_> = addresses.collect();
        for server in self.servers.iter_mut().filter(|server| server.of_name == Some(name)) {
            let known = new.iter().position(|address| *address == server.address);
            server.is_gone = known.is_none();
            if let Some(known) = known {
                new.swap_remove(known);
            }
        }
        for address in new {
            let server = Server::new(address, Some(name));
            match self.servers.iter_mut().find(|server| server.is_gone && server.in_flight == 0) {
                Some(free) => *free = Server { before: free.before.wrapping_add(1), ..server },
                None => self.servers.push(server),
            }
        }
    }

    /// The names, for messages.
    pub(super) fn names(&self) -> String {
        self.names.iter().map(|name| name.host.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// A server's identity.
    pub(super) fn id(&self, server: usize) -> ServerId {
        ServerId { at: server, before: self.servers[server].before }
    }

    /// Whether a server may get more requests.
    pub(super) fn has(&self, id: ServerId) -> bool {
        let server = &self.servers[id.at];
        server.before == id.before && !server.is_gone
    }

    /// Whether there are servers that a request has not been to.
    pub(super) fn has_others(&self, tried: Tried) -> bool {
        self.servers.iter().enumerate().any(|(at, server)| !tried.has(at) && !server.is_gone)
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

impl Server {
    fn new(address: ListenAddress, of_name: Option<usize>) -> Self {
        Self {
            address,
            of_name,
            is_gone: false,
            before: 0,
            in_flight: 0,
            alone_until: None,
            plain_until: None,
        }
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
    use sys::shared::Shared;

    use super::*;
    use crate::config::ServerName;

    fn pool(servers: u16) -> Pool {
        let address = |port| ListenAddress::Tcp(([127, 0, 0, 1], port).into()).into();
        let rule = PoolRule { servers: (1..=servers).map(address).collect(), ..PoolRule::default() };
        Pool::new(&rule, 0, 1, |_| None)
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
        assert_eq!(pool.choose(Tried::default(), NOW), Ok(1));
    }

    #[test]
    fn a_request_tries_each_server_once() {
        let mut pool = pool(2);
        let mut tried = Tried::default();
        for expected in [Ok(0), Ok(1), Err(NoServer::AllTried)] {
            let server = pool.choose(tried, NOW);
            assert_eq!(server, expected);
            let _ = server.inspect(|&server| tried.note(server));
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
        assert_eq!(pool.choose(Tried::default(), NOW.after(2)), Ok(1));
    }

    #[test]
    fn a_name_is_a_server_at_each_of_its_addresses() {
        let known = Shared::<Addresses>::new().expect("memory").leak();
        let name = ServerName { host: "app".to_owned(), port: 80 };
        let rule = PoolRule { servers: vec![ServerAddress::Named(name)], ..PoolRule::default() };
        let mut pool = Pool::new(&rule, 0, 1, |_| Some(known));
        let set = |ends: &[u8]| {
            known.set(&ends.iter().map(|&end| [192, 0, 2, end].into()).collect::<Vec<_>>());
        };
        // Sends a request to each server. What is returned are the ends of their addresses.
        let send_to_all = |pool: &mut Pool| {
            let (mut tried, mut ends) = (Tried::default(), Vec::new());
            pool.take_over_addresses();
            while let Ok(server) = pool.choose(tried, NOW) {
                tried.note(server);
                pool.begin(server);
                ends.push((server, pool.address(server).to_string()));
            }
            ends.sort();
            ends.into_iter().map(|(server, address)| (server, address[8..].to_owned())).collect::<Vec<_>>()
        };
        let shown = |servers: &[(usize, &str)]| -> Vec<(usize, String)> {
            servers.iter().map(|(server, end)| (*server, (*end).to_owned())).collect()
        };
        assert_eq!(pool.choose(Tried::default(), NOW), Err(NoServer::NotLookedUp));
        set(&[]);
        assert_eq!(send_to_all(&mut pool), []);
        assert_eq!(pool.choose(Tried::default(), NOW), Err(NoServer::NoAddress));
        set(&[1, 2]);
        assert_eq!(send_to_all(&mut pool), shown(&[(0, "1:80"), (1, "2:80")]));
        let ids = [pool.id(0), pool.id(1)];
        // The first address goes while its request is in flight: the new one gets a place of its own.
        set(&[2, 3]);
        assert_eq!(send_to_all(&mut pool), shown(&[(1, "2:80"), (2, "3:80")]));
        assert_eq!(ids.map(|id| pool.has(id)), [false, true]);
        // It has ended: the place is free.
        pool.end(0);
        set(&[2, 3, 4]);
        assert_eq!(send_to_all(&mut pool), shown(&[(0, "4:80"), (1, "2:80"), (2, "3:80")]));
        assert_eq!(ids.map(|id| pool.has(id)), [false, true]);
        // An address that comes back is where it was.
        set(&[4]);
        pool.take_over_addresses();
        set(&[4, 3]);
        assert_eq!(send_to_all(&mut pool), shown(&[(0, "4:80"), (2, "3:80")]));
        set(&[]);
        assert_eq!(send_to_all(&mut pool), []);
        assert_eq!(pool.choose(Tried::default(), NOW), Err(NoServer::NoAddress));
        assert!(!pool.has_others(Tried::default()));
    }
}
