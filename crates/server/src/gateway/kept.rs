//! Connections to applications that one worker keeps for the next request, if a pool is set to keep them.
//!
//! An application may continue to work after it has ended a reply (PHP does after
//! `fastcgi_finish_request`). A request must not wait for that. So the worker must know when an
//! application waits for its next request. An application that was asked may report that itself. To other
//! applications, the worker sends the first record of the next request as soon as one is over. An
//! application that has read that record waits for the rest. Only a Unix socket shows whether the record
//! has been read. So over TCP, only connections to applications that report are kept.

use http1::Tick;

use super::link::{Link, Readiness};
use super::server_id::ServerId;

/// Connections that wait for a request.
#[derive(Debug, Default)]
pub(super) struct Kept(Vec<Idle>);

#[derive(Debug)]
struct Idle {
    /// The number of the pool.
    pool: usize,
    link: Link,
    /// The time until which the connection is kept.
    until: Tick,
}

impl Kept {
    pub(super) fn put(&mut self, pool: usize, link: Link, until: Tick) {
        self.0.push(Idle { pool, link, until });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many connections to a pool are kept.
    pub(super) fn of(&self, pool: usize) -> usize {
        self.0.iter().filter(|idle| idle.pool == pool).count()
    }

    /// Takes the connection to a pool that was used last, of those whose application waits for a request.
    /// Connections that the application has closed are moved to `gone`, and so are those to servers that the
    /// pool has no longer (`has`).
    pub(super) fn take(
        &mut self,
        pool: usize,
        has: impl Fn(ServerId) -> bool,
        scratch: &mut [u8],
        gone: &mut Vec<Link>,
    ) -> Option<Link> {
        for at in (0..self.0.len()).rev().filter(|&at| self.0[at].pool == pool).collect::<Vec<_>>() {
            if !has(self.0[at].link.server) {
                gone.push(self.0.remove(at).link);
                continue;
            }
            match self.0[at].link.readiness(scratch) {
                Readiness::Waits => return Some(self.0.remove(at).link),
                Readiness::Busy => {}
                Readiness::Gone => gone.push(self.0.remove(at).link),
            }
        }
        None
    }

    /// Records an event on the connection that is watched by that name. Takes it if it is over.
    pub(super) fn heed(&mut self, name: u64, readable: bool, hung_up: bool) -> Option<Link> {
        let at = self.0.iter().position(|idle| idle.link.watched_as == name)?;
        let is_over = self.0[at].link.is_over_after(readable, hung_up);
        is_over.then(|| self.0.remove(at).link)
    }

    /// Takes a connection whose time is over.
    pub(super) fn take_old(&mut self, now: Tick) -> Option<Link> {
        let at = self.0.iter().position(|idle| idle.until.reached(now))?;
        Some(self.0.remove(at).link)
    }

    /// Takes any connection.
    pub(super) fn take_any(&mut self) -> Option<Link> {
        self.0.pop().map(|idle| idle.link)
    }

    /// The earliest time at which a connection's time is over.
    pub(super) fn deadline(&self) -> Option<Tick> {
        self.0.iter().map(|idle| idle.until).reduce(Tick::earlier)
    }
}
