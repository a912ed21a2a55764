//! Connections to applications that one worker keeps for the next request, where a pool asks for that.
//!
//! An application may go on working after it has ended a reply (PHP does after `fastcgi_finish_request`), and
//! a request must not wait for that. One that was asked may say itself when it waits. To others the first
//! record of the next request is sent as soon as one is over: an application that has read it waits for the
//! rest. Only a Unix socket tells whether it has, so over TCP only connections to the former are kept.

use http1::Tick;

use super::link::{Link, Readiness};

/// Connections that wait for a request.
#[derive(Debug, Default)]
pub(super) struct Kept(Vec<Idle>);

#[derive(Debug)]
struct Idle {
    /// The number of the pool.
    pool: usize,
    link: Link,
    /// Until when it is kept.
    until: Tick,
}

impl Kept {
    pub(super) fn put(&mut self, pool: usize, link: Link, until: Tick) {
        self.0.push(Idle { pool, link, until });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are to a pool.
    pub(super) fn of(&self, pool: usize) -> usize {
        self.0.iter().filter(|idle| idle.pool == pool).count()
    }

    /// The one to a pool that was used last and has somebody waiting at its end. Those whose end is closed go
    /// to `gone`.
    pub(super) fn take(&mut self, pool: usize, scratch: &mut [u8], gone: &mut Vec<Link>) -> Option<Link> {
        for at in (0..self.0.len()).rev().filter(|&at| self.0[at].pool == pool).collect::<Vec<_>>() {
            match self.0[at].link.readiness(scratch) {
                Readiness::Waits => return Some(self.0.remove(at).link),
                Readiness::Busy => {}
                Readiness::Gone => gone.push(self.0.remove(at).link),
            }
        }
        None
    }

    /// Takes one whose time is over.
    pub(super) fn take_old(&mut self, now: Tick) -> Option<Link> {
        let at = self.0.iter().position(|idle| idle.until.reached(now))?;
        Some(self.0.remove(at).link)
    }

    /// Takes any.
    pub(super) fn take_any(&mut self) -> Option<Link> {
        self.0.pop().map(|idle| idle.link)
    }

    /// When the next one's time is over.
    pub(super) fn deadline(&self) -> Option<Tick> {
        self.0.iter().map(|idle| idle.until).reduce(Tick::earlier)
    }
}
