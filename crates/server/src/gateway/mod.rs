//! Applications that answer requests over FastCGI or HTTP: PHP and others.
//!
//! A request that needs an application's answer becomes a [`Relay`]. The relay stands between the
//! request's client and one server of a [pool]:
//!
//! ```text
//! client -- body --> spool -- stdin --> link --> application
//! client <-- OpenReply <-- spill <-- head, body <-- stdout -- link <-- application
//! ```
//!
//! Between the body and the server is the pool's [queue](crate::queues), which all workers share. It keeps
//! the number of requests in flight at or below the number of children that the application has.
//!
//! A request's body is spooled completely before a server is asked for anything, so a slow upload
//! occupies no server. A reply is passed on as it arrives, as fast as its client takes it. What a slow
//! client does not take is spilled to disk, so it occupies no server, either. Nothing here touches the
//! client's socket or waits. The [conversation](crate::conversation) brings what the client sends, and
//! sends what is for the client. The caller of the conversation also watches the socket of the
//! [link](Link).
//!
//! If a pool uses another transport than the stream, the worker first asks the server whether it supports
//! that transport. Then there are two cases. Either the client's socket is passed to the application, and
//! the reply passes through no process here ([`lent_connection`]). Or the application writes the reply into
//! memory shared with this server, which sends it from there ([`area`]). Over TCP, a server whose connections
//! are to be kept is asked whether it reports when it waits for a request.
//!
//! An application that speaks HTTP has the same queue, spool and delivery. Only what the link says and hears
//! differs (`http_request`, `relay/http`).

mod area;
mod asker;
mod composing;
mod course;
mod delivery;
mod failure;
pub mod http_request;
mod interims;
mod kept;
mod lent_connection;
mod link;
mod params;
mod pool;
mod relay;
mod send_files;
mod server_id;
mod spool;
mod upgrade;

use std::borrow::Cow;
use std::os::fd::AsFd;
use std::path::PathBuf;

use http1::{Limits, Sheet, Stamp, Tick};

pub use self::area::Area;
pub use self::asker::Asker;
pub use self::course::Spent;
pub use self::failure::Failure;
pub use self::interims::Interims;
use self::kept::Kept;
pub use self::lent_connection::Lendable;
pub use self::link::{Link, Retired};
use self::pool::Pool;
pub use self::relay::{Afterwards, Relay};
use crate::common::Common;
use crate::config::{PoolRule, Settings};
use crate::content::{Pin, SiteNumber};
use crate::error_log::Limited;
use crate::queues::{QueueHandle, Waits};

/// A worker's access to all applications.
#[derive(Debug)]
pub struct Gateway {
    pools: Vec<Pool>,
    queue_handle: QueueHandle,
    /// The directory for large bodies, and most bytes of one reply that may be spilled there.
    spool: PathBuf,
    most_spilled: u64,
    /// Bytes of bodies and replies in memory, bytes of memory shared with applications, and the bound on
    /// both together.
    memory: usize,
    areas: usize,
    most_memory: usize,
    /// Whether clients' sockets have `TCP_NODELAY`.
    nodelay: bool,
    common: Option<Common>,
    /// Connections to applications that wait for a request, and those that have just begun to wait and
    /// may still be watched. Each has the number of its pool.
    kept: Kept,
    resting: Vec<(usize, Link)>,
    /// Sockets that are no longer used. Their watcher closes them.
    retired: Vec<Retired>,
    /// A ring moves the bytes of connections to servers.
    has_ring: bool,
    /// The requests that wait in queues.
    waits: Waits,
    complaints: Limited,
}

/// The parts of a worker that a relay works with.
pub struct Tools<'a> {
    /// Bounds on clients.
    pub limits: &'a Limits,
    /// The time of this turn.
    pub now: Tick,
    /// What every reply's head has.
    pub stamp: &'a Stamp,
    /// A buffer for received records.
    pub scratch: &'a mut [u8],
    /// Sheets for the heads of replies, while no reply uses them.
    pub sheets: &'a mut Vec<Sheet<Pin>>,
    /// The quantum: bytes that may still be exchanged with servers in this turn.
    pub share: &'a mut u64,
    /// The client's socket, if it may be passed to an application now, or has been passed.
    pub client: Option<Lendable<'a>>,
}

/// The server name in the Server field of replies.
pub const SERVER: &str = "sluice";

impl Gateway {
    /// Access to the pools of the settings.
    pub fn new(settings: &Settings, common: Option<Common>, queue_handle: QueueHandle) -> Self {
        // In the same order as in `Settings::all_sites`.
        let mut directories = 1 + settings.sites.len() as SiteNumber;
        let pool = |rule: Cow<'_, PoolRule>| {
            let first = directories;
            directories += rule.send_files.len() as SiteNumber;
            let addresses = |host: &str| queue_handle.addresses(host);
            Pool::new(&rule, settings.kept_connections(&rule), first, addresses)
        };
        let pools = settings.all_pools().map(pool).collect();
        Self {
            pools,
            kept: Kept::default(),
            resting: Vec::new(),
            spool: settings.spool.clone(),
            most_spilled: settings.spill,
            memory: 0,
            areas: 0,
            most_memory: settings.gateway_memory as usize,
            nodelay: settings.connections.nodelay,
            waits: Waits::default(),
            queue_handle,
            common,
            retired: Vec::new(),
            has_ring: false,
            complaints: Limited::default(),
        }
    }

    /// Whether an application of a pool is told the address that its client has connected to.
    pub fn tells_local_address(&self, name: &str) -> bool {
        self.pool(name).is_some_and(|pool| self.pools[pool].http.is_none())
    }

    /// Whether applications of a pool get TRACE requests. An application that repeats what it received
    /// repeats cookies, too.
    pub fn takes_trace(&self, name: &str) -> bool {
        self.pool(name).is_some_and(|pool| self.pools[pool].trace)
    }

    /// Whether there is work between turns: connections that no request uses, or requests that wait in
    /// queues.
    #[inline]
    pub fn has_chores(&self) -> bool {
        !(self.retired.is_empty() && self.resting.is_empty() && self.kept.is_empty()) || self.waits.has_some()
    }

    /// From now on a ring moves the bytes of connections to servers.
    pub fn use_ring(&mut self) {
        self.has_ring = true;
    }

    /// Takes a socket that is to be closed.
    pub fn take_retired(&mut self) -> Option<Retired> {
        let retired = self.retired.pop()?;
        self.leave(&retired.socket);
        Some(retired)
    }

    /// Takes a connection that no request uses any more. Then call [`keep`](Self::keep) with it. It may stay
    /// watched where events report changes only. Then [`heed_kept`](Self::heed_kept) takes them.
    pub fn take_resting(&mut self) -> Option<(usize, Link)> {
        self.resting.pop()
    }

    /// Keeps a connection for another request to its pool.
    pub fn keep(&mut self, (pool, link): (usize, Link), now: Tick) {
        if self.pools[pool].keep > 0 {
            self.kept.put(pool, link, now.after(self.pools[pool].keep_ticks));
        } else {
            self.retire(link);
        }
    }

    /// There is an event for a kept connection, which is watched by that name.
    pub fn heed_kept(&mut self, name: u64, readable: bool, hung_up: bool) {
        if let Some(link) = self.kept.heed(name, readable, hung_up) {
            self.retire(link);
        }
    }

    /// Retires connections that have been kept as long as they may be. Also checks from time to time
    /// whether a waiting request may go.
    pub fn expire(&mut self, now: Tick) {
        if self.waits.look_is_due(now) {
            let some_may_go = self.queue_handle.look();
            self.waits.some_may_go(some_may_go);
        }
        while let Some(link) = self.kept.take_old(now) {
            self.retire(link);
        }
    }

    /// When to call [`expire`](Self::expire), if connections are kept or requests wait.
    pub fn deadline(&self) -> Option<Tick> {
        [self.kept.deadline(), self.waits.deadline()].into_iter().flatten().reduce(Tick::earlier)
    }

    /// Wakes the worker whose request goes.
    fn wake(&mut self, worker: Option<u32>) {
        let some_may_go = self.queue_handle.wake(worker);
        self.waits.some_may_go(some_may_go);
    }

    /// Whether waiting requests may go without a wake-up. Resets that.
    pub fn some_may_go(&mut self) -> bool {
        self.waits.take_some_may_go()
    }

    /// Keeps no connections from now on. Other workers do.
    pub fn keep_none(&mut self) {
        for pool in &mut self.pools {
            pool.keep = 0;
        }
        while let Some(link) = self.kept.take_any() {
            self.retire(link);
        }
    }

    /// Takes a kept connection to a pool's server. A connection that came to rest in this very turn is
    /// best: it is most often the same client's that asks again, and it is still watched for that client.
    fn take_kept(&mut self, pool: usize, scratch: &mut [u8]) -> Option<Link> {
        let has = |id| self.pools[pool].has(id);
        let is_awaited =
            |(of, link): &mut (usize, Link)| *of == pool && has(link.server) && link.is_awaited(scratch);
        if let Some(at) = self.resting.iter_mut().rposition(is_awaited) {
            return Some(self.resting.swap_remove(at).1);
        }
        let mut gone = Vec::new();
        let link = self.kept.take(pool, has, scratch, &mut gone);
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

    /// Bytes of bodies and replies in memory, and bytes of memory shared with applications.
    pub fn memory(&self) -> u64 {
        (self.memory + self.areas) as u64
    }

    /// Whether there may be `bytes` more of them.
    fn has_memory_for(&self, bytes: usize) -> bool {
        (self.memory + self.areas).saturating_add(bytes) <= self.most_memory
    }

    /// Logs why a request has not been answered, at most once a second.
    pub fn complain(&mut self, now_ms: u64, request: &str, failure: &Failure) {
        if let Some(suppressed) = self.complaints.permit(now_ms) {
            tracing::warn!(suppressed, "{request}: {failure}");
        }
    }

    fn retire(&mut self, link: Link) {
        let (retired, area) = link.into_parts();
        self.retired.push(retired);
        if let Some(area) = area {
            self.close_area(&area);
        }
    }

    /// Creates memory for a connection to a pool's server to share. `None`: there is no memory left for
    /// it, or no descriptor.
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

    /// Removes such memory from the counts. Call this just before it is freed.
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
