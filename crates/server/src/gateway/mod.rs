//! Applications that answer requests, over FastCGI: PHP and others.
//!
//! A request that content has no answer to becomes a [`Relay`], which stands between its client and one
//! server of a [pool]:
//!
//! ```text
//! client -- body --> spool -- stdin --> link --> application
//! client <-- OpenReply <-- spill <-- head, body <-- stdout -- link <-- application
//! ```
//!
//! Between the body and the server is the pool's [queue], which all workers share: no more requests
//! are in flight than the application has children.
//!
//! A body is spooled whole before a server is asked for anything, so that a slow upload occupies none. A
//! reply is passed on as it comes, as fast as its client takes it; what a slow client does not take is
//! spilled to the disk, so that it occupies no server, either. Nothing here touches the client's socket or
//! waits: the [conversation](crate::conversation) brings and sends what is the client's, and whoever calls
//! that watches the [link](Link)'s socket as well.
//!
//! Where a pool has another transport than the stream, a server is asked first whether it knows that. Then
//! the client itself may be lent, so that the reply passes nobody here ([`loan`]); or the reply is written
//! into memory that is shared with the server, and sent from there ([`area`]). Over TCP one whose connections
//! are to be kept is asked whether it says when it waits.

mod area;
mod asker;
mod composing;
mod course;
mod delivery;
mod failure;
mod kept;
mod link;
mod loan;
mod params;
mod pool;
mod queue;
mod queues;
mod relay;
mod send_files;
mod spool;

use std::borrow::Cow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use http1::{Limits, Sheet, Stamp, Tick};

pub use self::area::Area;
pub use self::asker::Asker;
pub use self::course::Spent;
pub use self::failure::Failure;
use self::kept::Kept;
pub use self::link::Link;
pub use self::loan::Lendable;
use self::pool::Pool;
pub use self::queues::{Desk, Lines, Queues};
pub use self::relay::{Afterwards, Relay};
use crate::common::Common;
use crate::config::{PoolRule, Settings};
use crate::content::{Pin, SiteNumber};
use crate::error_log::Limited;
use crate::registration::Registration;

/// How often it is looked whether a request may go whom nobody has told: a place has become free with time.
const LOOK_TICKS: u32 = 250 / Tick::MS;

/// A worker's ways to all applications.
#[derive(Debug)]
pub struct Gateway {
    pools: Vec<Pool>,
    desk: Desk,
    /// Where large bodies go, and most bytes of a reply that may.
    spool: PathBuf,
    most_spilled: u64,
    /// Bytes of bodies and replies in memory, of memory that is shared with applications, and how many of
    /// both there should be at most.
    memory: usize,
    areas: usize,
    most_memory: usize,
    /// What clients' sockets have (`TCP_NODELAY`).
    nodelay: bool,
    common: Option<Common>,
    /// Connections that wait for a request, and those that have just come to do so, which may be watched yet:
    /// each with the number of its pool.
    kept: Kept,
    resting: Vec<(usize, Link)>,
    /// Sockets that nobody uses any more, to be closed by whoever watches them.
    retired: Vec<(OwnedFd, Registration)>,
    /// Requests that wait in queues, when it is looked whether they may go without anybody having said so,
    /// and whether some may.
    waiting: usize,
    look_at: Tick,
    some_may_go: bool,
    complaints: Limited,
}

/// What of the worker's a relay works with.
pub struct Tools<'a> {
    /// Bounds on clients.
    pub limits: &'a Limits,
    /// The time of this turn.
    pub now: Tick,
    /// What every reply's head has.
    pub stamp: &'a Stamp,
    /// Where records are received.
    pub scratch: &'a mut [u8],
    /// What replies are written on, while none is.
    pub sheets: &'a mut Vec<Sheet<Pin>>,
    /// Bytes that may still be exchanged with servers in this turn.
    pub share: &'a mut u64,
    /// The client's socket, if it is one that may be lent now, or is lent.
    pub client: Option<Lendable<'a>>,
}

/// The name that replies carry in their Server line.
pub const SERVER: &str = "sluice";

impl Gateway {
    /// As the settings have it.
    pub fn new(settings: &Settings, common: Option<Common>, desk: Desk) -> Self {
        // As `Settings::all_sites` has them.
        let mut directories = 1 + settings.sites.len() as SiteNumber;
        let pool = |rule: Cow<'_, PoolRule>| {
            let first = directories;
            directories += rule.send_files.len() as SiteNumber;
            Pool::new(&rule, settings.kept_connections(&rule), first)
        };
        Self {
            pools: settings.all_pools().map(pool).collect(),
            kept: Kept::default(),
            resting: Vec::new(),
            spool: settings.spool.clone(),
            most_spilled: settings.spill,
            memory: 0,
            areas: 0,
            most_memory: settings.gateway_memory as usize,
            nodelay: settings.connections.nodelay,
            desk,
            common,
            retired: Vec::new(),
            waiting: 0,
            look_at: Tick(0),
            some_may_go: false,
            complaints: Limited::default(),
        }
    }

    /// Whether applications of a pool are asked to TRACE. One that repeats what it got repeats cookies, too.
    pub fn takes_trace(&self, name: &str) -> bool {
        self.pool(name).is_some_and(|pool| self.pools[pool].trace)
    }

    /// Whether there is something to be done between turns: connections that no request uses, or requests
    /// that wait in queues.
    #[inline]
    pub fn has_chores(&self) -> bool {
        !(self.retired.is_empty() && self.resting.is_empty() && self.kept.is_empty()) || self.waiting > 0
    }

    /// A socket to be closed, and what it is registered for.
    pub fn take_retired(&mut self) -> Option<(OwnedFd, Registration)> {
        let (socket, registration) = self.retired.pop()?;
        self.leave(&socket);
        Some((socket, registration))
    }

    /// A connection that is not to be watched any more. It is to be [kept](Self::keep) then.
    pub fn take_resting(&mut self) -> Option<(usize, Link)> {
        self.resting.pop()
    }

    /// Keeps a connection that nobody watches, for another request to its pool.
    pub fn keep(&mut self, (pool, link): (usize, Link), now: Tick) {
        if self.pools[pool].keep > 0 {
            self.kept.put(pool, link, now.after(self.pools[pool].keep_ticks));
        } else {
            self.retire(link);
        }
    }

    /// Retires connections that have been kept for as long as they may be, and looks now and then whether a
    /// request may go that waits.
    pub fn expire(&mut self, now: Tick) {
        if self.waiting > 0 && self.look_at.reached(now) {
            self.look_at = now.after(LOOK_TICKS);
            self.some_may_go |= self.desk.look();
        }
        while let Some(link) = self.kept.take_old(now) {
            self.retire(link);
        }
    }

    /// When to call [`expire`](Self::expire), if connections are kept or requests wait.
    pub fn deadline(&self) -> Option<Tick> {
        let look = (self.waiting > 0).then_some(self.look_at);
        [self.kept.deadline(), look].into_iter().flatten().reduce(Tick::earlier)
    }

    /// A request has come to wait in a queue.
    fn begin_waiting(&mut self, now: Tick) {
        if self.waiting == 0 {
            self.look_at = now.after(LOOK_TICKS);
        }
        self.waiting += 1;
    }

    /// Wakes whoever has a request that goes.
    fn wake(&mut self, worker: Option<u32>) {
        self.some_may_go |= self.desk.wake(worker);
    }

    /// Whether requests may go that had to wait, without the bell having rung for them.
    pub fn some_may_go(&mut self) -> bool {
        std::mem::take(&mut self.some_may_go)
    }

    /// The names of requests that need not wait in a queue any more, each told once.
    pub fn called(&self) -> impl Iterator<Item = u64> {
        self.desk.called()
    }

    /// Keeps no connection any more: others do, from now on.
    pub fn keep_none(&mut self) {
        for pool in &mut self.pools {
            pool.keep = 0;
        }
        while let Some(link) = self.kept.take_any() {
            self.retire(link);
        }
    }

    /// A connection to a pool's server that waits for a request. Best one that has come to rest in this very
    /// turn, most often of the client that asks again: it is still watched for that one.
    fn take_kept(&mut self, pool: usize, scratch: &mut [u8]) -> Option<Link> {
        let mut resting = self.resting.iter_mut();
        if let Some(at) = resting.rposition(|(of, link)| *of == pool && link.is_awaited(scratch)) {
            return Some(self.resting.swap_remove(at).1);
        }
        let mut gone = Vec::new();
        let link = self.kept.take(pool, scratch, &mut gone);
        for link in gone {
            self.retire(link);
        }
        link
    }

    /// Whether a pool's connection may be kept.
    fn may_keep(&self, pool: usize) -> bool {
        let resting = self.resting.iter().filter(|(of, _)| *of == pool).count();
        self.kept.of(pool) + resting < self.pools[pool].keep
    }

    /// Bytes of bodies and replies that are kept in memory, and of what is shared with applications.
    pub fn memory(&self) -> u64 {
        (self.memory + self.areas) as u64
    }

    /// Whether there may be so many more of them.
    fn has_memory_for(&self, bytes: usize) -> bool {
        (self.memory + self.areas).saturating_add(bytes) <= self.most_memory
    }

    /// What becomes readable when a request goes that had to wait in a queue. `None`: there are no
    /// applications.
    pub fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.desk.bell()
    }

    /// Takes note of the bell.
    pub fn clear_bell(&self) {
        self.desk.clear_bell();
    }

    /// Tells the operator why a request has not been answered, once a second.
    pub fn complain(&mut self, now_ms: u64, request: &str, failure: &Failure) {
        if let Some(suppressed) = self.complaints.permit(now_ms) {
            tracing::warn!(suppressed, "{request}: {failure}");
        }
    }

    fn retire(&mut self, link: Link) {
        let (socket, area) = link.into_parts();
        self.retired.push(socket);
        if let Some(area) = area {
            self.close_area(&area);
        }
    }

    /// Memory for a connection to a pool's server to share. `None`: there is none, or no descriptor.
    fn open_area(&mut self, pool: usize) -> Option<Area> {
        let Pool { area, area_send, .. } = &self.pools[pool];
        // The application may write to all of it at any time.
        if !self.has_memory_for(Area::size_of(*area) as usize) {
            return None;
        }
        let area = Area::new(*area, *area_send).ok()?;
        self.areas += area.size() as usize;
        self.own(&area);
        Some(area)
    }

    /// Such memory is about to be given back.
    fn close_area(&mut self, area: &Area) {
        self.areas -= area.size() as usize;
        self.leave(area);
    }

    fn own(&self, fd: impl AsFd) {
        if let Some(common) = &self.common {
            common.own(fd);
        }
    }

    fn leave(&self, fd: impl AsFd) {
        if let Some(common) = &self.common {
            common.leave(fd);
        }
    }

    /// The number of the pool of that name.
    fn pool(&self, name: &str) -> Option<usize> {
        self.pools.iter().position(|pool| *pool.name == *name)
    }
}
