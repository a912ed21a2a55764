//! What the sessions of one thread share: the run, the clock, events, measures, room to receive into.

use std::net::IpAddr;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use sys::clock;
use sys::epoll::Epoll;
use sys::socket::{self, LocalAddress};
use workload::session::RequestId;

use crate::measures::Recorder;
use crate::record::{Nanos, nanos};
use crate::request::Prepared;
use crate::run::{Class, Run, Target, Timeouts};
use crate::tls::{self, Client};
use crate::verify::Files;

/// Bytes received at a time. Bodies larger than this are dropped in the kernel, unless they are compared.
const ROOM: usize = 16 << 10;
const ROOM_TO_COMPARE: usize = 256 << 10;
/// What is not understood yet must fit in as well: a head at most.
const ROOM_FOR_HEADS: usize = http1::client::MAX_HEAD_BYTES;

pub(crate) struct Kit<'a> {
    pub(crate) run: &'a Run,
    /// By their numbers in the log.
    pub(crate) requests: &'a [Prepared],
    /// To compare replies with, if they are.
    pub(crate) files: Option<Files>,
    /// Bodies need not be looked at, and the kernel can drop them, as it does with TCP.
    pub(crate) drops_in_kernel: bool,
    pub(crate) epoll: Epoll,
    pub(crate) recorder: Recorder,
    /// Where input is received; taken out while a session goes through it.
    pub(crate) room: Vec<u8>,
    /// Bytes received at a time.
    pub(crate) at_a_time: usize,
    /// Where records of TLS are received, if a target speaks it.
    pub(crate) records: Vec<u8>,
    /// This thread's clients for TLS, one for each target; empty if no target speaks it.
    tls: Vec<Option<Client>>,
    /// This thread's clients for TLS that never resume a session, for classes that only make handshakes.
    tls_in_full: Vec<Option<Client>>,
    /// The slot of the session at work, which its events carry.
    pub(crate) slot: u32,
    /// Requests that all threads together may still ask for, where that has an end.
    left: Option<&'a AtomicU64>,
    /// Connections for which there are descriptors.
    pub(crate) may_open: u64,
    /// Whether records say which port a connection had, which costs a system call for each.
    pub(crate) wants_ports: bool,
    /// The monotonic clock when the run began.
    began: u64,
    connections: u32,
}

impl<'a> Kit<'a> {
    pub(crate) fn new(
        run: &'a Run,
        requests: &'a [Prepared],
        files: Option<Files>,
        tls: Option<&tls::Prepared>,
        recorder: Recorder,
        began: u64,
    ) -> std::io::Result<Self> {
        let at_a_time = if files.is_some() { ROOM_TO_COMPARE } else { ROOM };
        let at_a_time = if tls.is_some() { at_a_time.max(tls::MOST_DECRYPTED) } else { at_a_time };
        let clients = |may_resume| {
            let of = |tls: &tls::Prepared| {
                run.targets.iter().map(|to| Some(tls.client(to.tls_name()?, may_resume))).collect()
            };
            tls.map(of).unwrap_or_default()
        };
        Ok(Self {
            run,
            requests,
            drops_in_kernel: files.is_none() && run.targets.iter().all(|to| to.address().is_some()),
            files,
            epoll: Epoll::new()?,
            wants_ports: recorder.wants_ports(),
            recorder,
            left: None,
            may_open: u64::MAX,
            room: vec![0; ROOM_FOR_HEADS + at_a_time],
            at_a_time,
            records: vec![0; if tls.is_some() { tls::RECORDS } else { 0 }],
            tls: clients(true),
            tls_in_full: clients(false),
            slot: 0,
            began,
            connections: 0,
        })
    }

    /// With an end to the requests of all threads together, and to this one's connections at a time.
    pub(crate) fn at_most(self, requests: Option<&'a AtomicU64>, connections: u64) -> Self {
        Self { left: requests, may_open: connections, ..self }
    }

    /// Nanoseconds since the run began.
    #[inline]
    pub(crate) fn now(&self) -> Nanos {
        clock::monotonic_ns().saturating_sub(self.began)
    }

    /// Takes one of the requests that are left; false if there is none.
    pub(crate) fn may_ask(&self) -> bool {
        let take = |left: &AtomicU64| {
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
        };
        self.left.is_none_or(take)
    }

    /// Whether no request is left to be asked for.
    pub(crate) fn all_is_asked(&self) -> bool {
        self.left.is_some_and(|left| left.load(Ordering::Relaxed) == 0)
    }

    /// The class of a session of the run, and its number there: classes take turns.
    fn class(&self, session: u32) -> (&'a Class, u32) {
        let classes = self.run.classes.len() as u32;
        (&self.run.classes[(session % classes) as usize], session / classes)
    }

    /// Whether a session of the run only wants a TLS handshake.
    pub(crate) fn wants_handshake(&self, session: u32) -> bool {
        self.class(session).0.handshakes_only
    }

    pub(crate) fn timeouts(&self, session: u32) -> &'a Timeouts {
        &self.class(session).0.timeouts
    }

    pub(crate) fn connect_timeout(&self, session: u32) -> Nanos {
        nanos(self.timeouts(session).connect)
    }

    pub(crate) fn reply_timeout(&self, session: u32, request: RequestId) -> Nanos {
        let own = self.requests[request as usize].timeout;
        nanos(own.unwrap_or(self.timeouts(session).reply))
    }

    /// From where to where a session's connections go: sessions of a class take turns. Of the connections
    /// that are kept, which take turns as well, this is the `kept`th.
    pub(crate) fn way(&self, session: u32, kept: Option<u32>) -> (Option<IpAddr>, &'a Target) {
        let Class { sources, .. } = self.class(session).0;
        let (targets, turn) = (&self.run.targets, self.turn(session, kept));
        let source = (!sources.is_empty()).then(|| sources[turn / targets.len() % sources.len()]);
        (source, &targets[turn % targets.len()])
    }

    /// What begins TLS on such a connection, if its target speaks it.
    pub(crate) fn tls(&self, session: u32, kept: Option<u32>) -> Option<&Client> {
        let clients = if self.wants_handshake(session) { &self.tls_in_full } else { &self.tls };
        clients.get(self.turn(session, kept) % self.run.targets.len())?.as_ref()
    }

    fn turn(&self, session: u32, kept: Option<u32>) -> usize {
        kept.unwrap_or_else(|| self.class(session).1) as usize
    }

    /// The bursts of a session of the run.
    pub(crate) fn bursts(&self, session: u32) -> Range<usize> {
        self.run.log.session_bursts(self.class(session).1 as usize % self.run.log.len())
    }

    /// What a session of the run asks for first.
    pub(crate) fn first_request(&self, session: u32) -> RequestId {
        self.run.log.burst(self.bursts(session).start).calls[0]
    }

    pub(crate) fn number_connection(&mut self) -> u32 {
        self.connections += 1;
        self.connections - 1
    }
}

/// The port that a connection comes from.
pub(crate) fn local_port(socket: impl AsFd) -> u16 {
    match socket::local_address(socket) {
        Ok(LocalAddress::Inet(address)) => address.port(),
        _ => 0,
    }
}
