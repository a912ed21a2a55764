//! The settings of a server, ready for use. Each component has a small struct, and every value is within
//! its bounds.
//!
//! The defaults are here, or with the structs of a [site], a [pool] or a [log], and nowhere else.
//! `docs/configuration.md` explains the same fields to operators.

mod log;
mod pool;
mod site;
mod tls;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use sys::file::Symlinks;
pub use tracing::Level as LogLevel;

pub use self::log::{AccessLogSettings, LogFormat, LogTarget, WhenBehind};
pub use self::pool::{AreaSend, PoolRule, Protocol, Transport, Uploads};
pub use self::site::{Application, FileSettings, HeaderRule, RouteRule, SiteSettings};
pub use self::tls::{HandshakeSettings, PairFiles, TlsSettings};

use super::address::{ListenAddress, StatusAddress};
use super::host::HostPattern;
use super::network::{ToldOrigin, TrustedProxy};

/// All settings of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The addresses that clients connect to, with or without TLS; not empty, without duplicates. Sockets
    /// inherited from systemd replace those without TLS.
    pub listen: Vec<ListenAddress>,
    /// The concurrency architecture.
    pub architecture: Architecture,
    /// How many workers a copy has: processes, threads, or the pipeline's sets of stage threads. Exactly 1
    /// for SPED.
    pub workers: usize,
    /// Complete copies of the architecture. Each copy has `workers` workers and its own listeners.
    pub copies: usize,
    /// How copies get their own listeners.
    pub copies_by: CopiesBy,
    /// Whether sends block until the client has made room.
    pub send: Sends,
    /// The CPUs that the server runs on, ascending. `None`: the kernel decides.
    pub cpus: Option<Vec<usize>>,
    /// Which of these CPUs each copy or worker runs on, and which addresses it serves.
    pub placement: PlacementSettings,
    /// The user that the server becomes after binding, by name.
    pub user: Option<String>,
    /// The group that the server becomes after binding, by name. It requires `user`. The default is the
    /// user's login group.
    pub group: Option<String>,
    /// How long a drain may take. After that, the remaining connections are closed.
    pub drain_timeout: Duration,
    /// Where errors are reported.
    pub error_log: ErrorLog,
    /// The least severe level of messages that are reported. The levels are: a failure (error), a problem
    /// that was handled (warn), an event of the whole server (info), an event of a connection (debug),
    /// and everything (trace).
    pub log_level: LogLevel,
    /// The address that counters are served on. `None`: they are not served.
    pub status: Option<StatusAddress>,
    /// Hosts that the status endpoint answers for, in addition to its address and `localhost`.
    pub status_hosts: Vec<HostPattern>,
    /// The socket files of the `listen` addresses that are Unix sockets.
    pub unix_sockets: SocketFileSettings,
    /// The socket file of the `status` address, if it is a Unix socket.
    pub status_socket: SocketFileSettings,
    /// The event loop.
    pub event: EventSettings,
    /// The helpers of AMPED.
    pub amped: AmpedSettings,
    /// User-level threads.
    pub user_threads: UserThreadSettings,
    /// The ring.
    pub uring: RingSettings,
    /// The stages of the pipeline.
    pub pipeline: PipelineSettings,
    /// Connections: their number and socket options.
    pub connections: ConnectionSettings,
    /// Limits on the size of one request.
    pub limits: Limits,
    /// How long a client may take, and how slow it may be.
    pub timeouts: Timeouts,
    /// The files of the default site, which answers for every host that no other site has.
    pub files: FileSettings,
    /// Other sites. See [`Settings::all_sites`].
    pub sites: Vec<SiteSettings>,
    /// Applications that routes lead to.
    pub pools: Vec<PoolRule>,
    /// Name servers that are asked for the addresses of applications. Empty: those of `/etc/resolv.conf`.
    pub name_servers: Vec<SocketAddr>,
    /// A directory for request bodies that are too large for memory, and for replies that clients read
    /// slowly.
    pub spool: PathBuf,
    /// Most bytes of a reply that are written there. 0: none.
    pub spill: u64,
    /// Bytes that a worker keeps in memory for applications' bodies and replies. Beyond that, it keeps
    /// less of them.
    pub gateway_memory: u64,
    /// For architectures with one client per worker: how many workers may use one pool or wait for it.
    pub waiting_workers: Option<NonZeroU32>,
    /// Where requests are logged, except those for sites with their own log. `None`: nowhere.
    pub access_log: Option<AccessLogSettings>,
    /// Proxies that the server trusts to name their client.
    pub trusted_proxies: Vec<TrustedProxy>,
    /// Which parts of a request's origin the server takes from the fields of trusted proxies. Many
    /// proxies set only the scheme, and pass on the other parts as the client wrote them.
    pub believed: Vec<ToldOrigin>,
    /// Addresses where each connection begins with a PROXY protocol header, which names the client.
    pub proxy_protocol: Vec<ListenAddress>,
    /// TLS.
    pub tls: TlsSettings,
    /// Bounds on TLS handshakes.
    pub handshakes: HandshakeSettings,
}

/// The concurrency architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// Single process, event-driven (Pariag et al. 2007, section 3).
    Sped,
    /// Symmetric multiple processes, event-driven (Pariag et al. 2007, section 5).
    Symped,
    /// SYMPED with one descriptor table and one open-file table for all processes (section 5.2).
    SharedSymped,
    /// Independent SPED processes that share nothing, each with its own listeners (Harji et al. 2012,
    /// section 3.1).
    NCopy,
    /// Asymmetric multi-process, event-driven (Pariag et al. 2007, section 3).
    Amped,
    /// One process for each connection (the multi-process servers of the papers' background sections).
    Processes,
    /// One kernel thread for each connection (the multi-threaded servers of the same sections).
    Threads,
    /// Stages that each have their own threads: `WatPipe` (Pariag et al. 2007, section 4.3; Harji et al.
    /// 2012, section 4).
    Pipeline,
    /// One user-level thread for each connection, many over one kernel thread: Knot on Capriccio (Brecht et
    /// al. 2004, section 3.2; Pariag et al. 2007, section 4).
    UserThreads,
    /// Processes that have the kernel accept, receive and send for them, with `io_uring(7)`: today's
    /// position of the in-kernel server (Brecht et al. 2004, sections 4 and 6).
    Uring,
}

/// How copies get their own listeners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopiesBy {
    /// The addresses are divided between the copies, in order. Each copy gets the same number.
    Address,
    /// Each copy has all addresses, with consecutive ports.
    Port,
    /// All copies have the same addresses and ports. The kernel distributes connections by a hash
    /// (`SO_REUSEPORT`, socket(7)).
    Reuseport,
    /// All copies have the same addresses and ports. A connection goes to the copy on the CPU that
    /// receives its handshake.
    Cpu,
}

/// Which CPUs copies and workers run on, and which addresses they serve.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacementSettings {
    /// CPU sets, assigned in turn to the copies, or to the workers if there is one copy. Empty: the
    /// copies divide all CPUs between them, and workers run on any CPU.
    pub cpus: Vec<Vec<usize>>,
    /// Which CPU set is used for which group of addresses.
    pub mapping: Mapping,
    /// The addresses of a copy are divided between its workers, in order. Each worker gets the same
    /// number.
    pub partition: bool,
}

/// Which CPU set is used for which group of addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mapping {
    /// The first set for the first group, and so on: packets and requests of a group use the same CPUs.
    #[default]
    Direct,
    /// The first set for the second group, and so on; the last for the first. Packets are handled on one
    /// CPU, requests on another.
    Indirect,
}

impl Architecture {
    /// Whether a worker serves many connections at once with events, instead of one connection at a time.
    pub fn is_event_driven(self) -> bool {
        !matches!(self, Self::Processes | Self::Threads)
    }

    /// Whether a worker asks an event mechanism what is ready.
    pub fn asks_for_events(self) -> bool {
        self.is_event_driven() && self != Self::Uring
    }

    /// The default number of copies on this many CPUs.
    pub(super) fn usual_copies(self, cpus: usize) -> usize {
        if self == Self::NCopy { cpus } else { 1 }
    }

    /// The default number of workers of a copy on this many CPUs.
    pub(super) fn usual_workers(self, cpus: usize) -> usize {
        match self {
            Self::Sped | Self::NCopy => 1,
            Self::Symped
            | Self::SharedSymped
            | Self::Amped
            | Self::Pipeline
            | Self::UserThreads
            | Self::Uring => cpus,
            Self::Processes | Self::Threads => 64,
        }
    }

    /// The default for which processes a connection wakes.
    pub(super) fn usual_wake(self) -> Wake {
        if self.is_event_driven() { Wake::All } else { Wake::Exclusive }
    }

    /// The default for how the server sends.
    pub(super) fn usual_sends(self) -> Sends {
        if self.is_event_driven() { Sends::NonBlocking } else { Sends::Blocking }
    }
}

/// Whether sends block until the client has made room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sends {
    /// They send as much as there is room for.
    NonBlocking,
    /// They block until everything is sent: one `sendfile` sends a whole file.
    Blocking,
}

/// Where errors are reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorLog {
    /// Standard error.
    Stderr,
    /// Appended to this file.
    File(PathBuf),
}

/// Settings of the event loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSettings {
    /// How the get-events phase learns which sockets are ready.
    pub mechanism: Events,
    /// Which of the waiting processes a new connection wakes.
    pub wake: Wake,
    /// Most connections taken from a listener in one accept phase (Brecht et al. 2004, section 4).
    pub accept_limit: AcceptLimit,
    /// The work phase of a turn skips the connections that the same turn accepted.
    pub work_phase_skips_new: bool,
    /// Most bytes sent to one connection in one turn, so that a large reply can't starve the others.
    pub quantum: u64,
    /// How a reply's head and the file's bytes are combined in packets.
    pub coalesce: Coalesce,
    /// How long blocking sends may hold an event loop before it serves other connections first.
    pub send_hold: Duration,
}

/// How the get-events phase learns which sockets are ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Events {
    /// epoll(7), edge-triggered.
    Epoll,
    /// epoll(7), level-triggered.
    EpollLevel,
    /// poll(2).
    Poll,
    /// select(2), with sets of any size.
    Select,
}

/// Which of the processes that wait at the same listener a new connection wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// All of them. Most find that another process has already accepted the connection.
    All,
    /// One or a few, epoll(7) `EPOLLEXCLUSIVE`: of the waiting processes, the one that registered first.
    Exclusive,
    /// One or a few, as with `Exclusive`. A process that has accepted moves to the end of the queue from
    /// time to time.
    ReAdding,
}

/// Most connections taken from a listener in one accept phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptLimit {
    /// That many.
    Limit(NonZeroU32),
    /// Until the accept queue is empty.
    Unlimited,
    /// A limit that follows the measured delay of clients.
    Auto,
}

/// How a reply's head and the file's bytes are combined in packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coalesce {
    /// `More`, except if the kernel's congestion control is BBR: then the same as `None`. BBR's pacing
    /// makes held-back heads expensive.
    Auto,
    /// `MSG_MORE` on the head, send(2).
    More,
    /// `TCP_CORK` around the reply, tcp(7).
    Cork,
    /// They are not combined.
    None,
}

/// Settings of AMPED's disk helpers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmpedSettings {
    /// Helper threads that wait for the disk, for each worker.
    pub helpers: NonZeroU32,
    /// How long a client may wait for one disk access.
    pub disk_timeout: Duration,
    /// The worker accepts no connection while a new client would wait longer than this for the disk.
    /// `None`: it always accepts.
    pub disk_delay: Option<Duration>,
}

/// Settings of user-level threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserThreadSettings {
    /// Most threads of a worker. `None`: one for each connection that it may have.
    pub threads: Option<NonZeroU32>,
    /// Bytes of a thread's stack. Only pages that a thread has used take memory.
    pub stack: u64,
    /// A thread keeps its stack from the first request of a connection to its end, as in the papers.
    /// Otherwise a client that is silent between requests has no stack.
    pub keep_stack: bool,
    /// The helpers send files, instead of the scheduler. If sends block, a helper stays with a client until
    /// all is sent.
    pub helpers_send: bool,
    /// Who accepts connections.
    pub accepting: Accepting,
}

/// Who accepts connections for user-level threads (Brecht et al. 2004, section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepting {
    /// The scheduler, for all threads: Knot-A.
    Scheduler,
    /// Each thread that has no client. It serves the connections that it takes one after another: Knot-C.
    Threads,
}

/// Settings of the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingSettings {
    /// What brings parts of files into memory.
    pub loads: Loads,
    /// Large sends from memory are not copied.
    pub zero_copy: bool,
    /// Clients' sockets are registered with the ring, so that the kernel need not look them up each time.
    pub registered_sockets: bool,
}

/// What brings parts of files into memory, so that a worker with a ring need not wait for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loads {
    /// Helper threads, as in AMPED.
    Helpers,
    /// The ring.
    Ring,
}

/// Settings of the pipeline's stages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineSettings {
    /// Which of the two pipelines in the papers.
    pub stages: Stages,
    /// Threads of the Read stage for each worker. A worker corresponds to a CPU.
    pub readers: NonZeroU32,
    /// Threads of the Write stage for each worker.
    pub writers: NonZeroU32,
    /// Most connections that a thread takes from its stage's queue at once.
    pub batch: NonZeroU32,
    /// Most connections in the queue of a stage. If a queue is full, the stages before it wait.
    pub queue: NonZeroU32,
    /// Controllers adapt the numbers of readers and writers and the batch size to the load. The values
    /// above are then maxima.
    pub controllers: bool,
    /// New connections are admitted at a rate at which nine of ten replies take no longer than this.
    /// `None`: the rate is not limited.
    pub response_target: Option<Duration>,
}

/// Which of the two pipelines in the papers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stages {
    /// Accept; Read Poll and Read in one stage; Write Poll and Write alternately (Pariag et al. 2007,
    /// section 4.3).
    Four,
    /// Accept, Read Poll, Read, Write Poll, Write (Harji et al. 2012, section 4).
    Five,
}

/// Settings of connections: their number and socket options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionSettings {
    /// The requested length of the accept queue, at most `i32::MAX`. The kernel limits it to
    /// `net.core.somaxconn`. listen(2).
    pub backlog: u32,
    /// Most open connections. At this number, the server stops accepting. `None`: as many as the
    /// descriptor limit allows.
    pub max: Option<NonZeroUsize>,
    /// Most requests on one connection. The last reply has `Connection: close`.
    pub requests: NonZeroU32,
    /// A fixed send buffer in bytes (`SO_SNDBUF`, socket(7)). `None`: the kernel adapts its size.
    pub send_buffer: Option<u32>,
    /// The kernel delivers a connection when its request has begun to arrive, or after about this long
    /// (`TCP_DEFER_ACCEPT`, tcp(7)). `None`: as soon as it is established.
    pub defer_accept: Option<Duration>,
    /// Small segments are sent at once (`TCP_NODELAY`, tcp(7)).
    pub nodelay: bool,
}

/// Limits on the size of one request, in bytes unless stated otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest request line, including its line end; at most `header_size`.
    pub request_line: u32,
    /// Largest head, including the request line.
    pub header_size: u32,
    /// Most field lines, at most [`http1::Limits::MAX_FIELDS`].
    pub header_count: u16,
    /// Largest request body that the server reads and discards.
    pub body: u64,
    /// Most ranges answered in one reply, at most [`http1::range::MAX_RANGES`].
    pub ranges: u16,
}

/// How long a client may take. The rates are in bytes per second. At a rate of 0, any progress is enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Time from the first byte of a request's head (or from the accept) to its last byte.
    pub header: Duration,
    /// The period over which a body must arrive at `body_min_rate` bytes per second.
    pub body: Duration,
    /// Lowest rate of a request body.
    pub body_min_rate: u32,
    /// The period over which a client must read a reply at `write_min_rate` bytes per second.
    pub write: Duration,
    /// Lowest rate at which a client may read a reply.
    pub write_min_rate: u32,
    /// Time from the end of a reply to the next request.
    pub idle: Duration,
    /// How long the server waits, after the last reply, for the client to close.
    pub linger: Duration,
}

impl Settings {
    /// How many workers may use one pool or wait for it with their clients, if a worker serves one client
    /// at a time. The default is half of them. `None`: the architecture is event-driven, so a worker
    /// serves other clients meanwhile.
    pub fn most_waiting_workers(&self) -> Option<u32> {
        let workers = self.workers.saturating_mul(self.copies) as u32;
        let most = self.waiting_workers.map_or((workers / 2).max(1), NonZeroU32::get);
        (!self.architecture.is_event_driven()).then_some(most)
    }

    /// The sites, beginning with the default site. After them come the directories that applications may
    /// send files from ([all pools](Self::all_pools), in order), as sites that no host has. All of them
    /// have the header fields of the top of the file.
    pub fn all_sites(&self) -> Vec<SiteSettings> {
        let common: Arc<[_]> = self.files.headers.clone().into();
        let complete = |site: &SiteSettings| {
            let mut site = site.clone();
            site.files.common_headers = Arc::clone(&common);
            site
        };
        let default = SiteSettings {
            pair: self.tls.pair.clone(),
            ..SiteSettings::new(Vec::new(), self.access_log.clone(), self.files.clone())
        };
        let endings = |files: &FileSettings| {
            files.all_routes().filter_map(|route| Some(route.script_ending()?.to_owned())).collect::<Vec<_>>()
        };
        let mut scripts: Vec<_> = std::iter::once(&self.files)
            .chain(self.sites.iter().map(|site| &site.files))
            .flat_map(endings)
            .collect();
        scripts.sort_unstable();
        scripts.dedup();
        let scripts: Arc<[_]> = scripts.into();
        let sites = std::iter::once(default).chain(self.sites.iter().map(complete));
        let of_applications = self.named_files();
        let named = |directory: &PathBuf| {
            let files = FileSettings { root: directory.clone(), ..of_applications.clone() };
            SiteSettings::new(Vec::new(), None, files)
        };
        let pools: Vec<_> = self.all_pools().collect();
        let directories =
            pools.iter().flat_map(|pool| &pool.send_files).map(|(_, directory)| named(directory));
        let mut all: Vec<_> = sites.chain(directories).collect();
        for site in &mut all {
            site.files.scripts = Arc::clone(&scripts);
        }
        all
    }

    /// The port that requests without TLS are redirected to, if they are.
    pub fn https_port(&self) -> Option<u16> {
        let mut ports = self.tls.listen.iter().filter_map(|address| match address {
            ListenAddress::Tcp(address) => Some(address.port()),
            ListenAddress::Unix(_) => None,
        });
        // A free port that the kernel picks is not known here.
        self.tls.redirect.then(|| ports.next().filter(|port| *port != 0).unwrap_or(443))
    }

    /// The addresses where clients speak no TLS.
    pub fn plain_addresses(&self) -> Vec<ListenAddress> {
        let of_tls: HashSet<_> = self.tls.listen.iter().collect();
        self.listen.iter().filter(|address| !of_tls.contains(address)).cloned().collect()
    }

    /// The number of sites in [`all_sites`](Self::all_sites).
    pub fn number_of_sites(&self) -> usize {
        let directories: usize = self.pools.iter().map(|pool| pool.send_files.len()).sum();
        1 + self.sites.len() + directories
    }

    /// The access logs of all sites, without duplicates.
    pub fn access_logs(&self) -> Vec<&AccessLogSettings> {
        let of_sites = self.sites.iter().filter_map(|site| site.access_log.as_ref());
        let mut known = HashSet::new();
        self.access_log.iter().chain(of_sites).filter(|log| known.insert(&log.target)).collect()
    }

    /// The settings for a directory of files that applications may name.
    fn named_files(&self) -> FileSettings {
        FileSettings {
            index: Vec::new(),
            listing: false,
            dotfiles: true,
            precompressed: false,
            error_pages: BTreeMap::new(),
            // These settings are about the paths of a site.
            headers: Vec::new(),
            routes: Vec::new(),
            php: None,
            proxy: None,
            ..self.files.clone()
        }
    }

    /// Most idle connections to a pool that a worker keeps. None if each worker has one client, because
    /// there are many such workers.
    pub fn kept_connections(&self, pool: &PoolRule) -> u32 {
        if self.architecture.is_event_driven() { pool.keep() } else { 0 }
    }

    /// The pools, including those of PHP scripts and of `proxy`.
    pub fn all_pools(&self) -> impl Iterator<Item = Cow<'_, PoolRule>> {
        let sites = || std::iter::once(&self.files).chain(self.sites.iter().map(|site| &site.files));
        let mut known = HashSet::new();
        let php = sites().filter_map(|files| files.php.as_ref()).map(|php| (php, Protocol::FastCgi));
        let proxy = sites().filter_map(|files| files.proxy.as_ref()).map(|proxy| (proxy, Protocol::Http));
        let own = php.chain(proxy).filter(move |own| known.insert(own.0)).map(|(own, protocol)| PoolRule {
            name: own.pool.clone(),
            protocol,
            servers: vec![own.server.clone()],
            ..PoolRule::default()
        });
        own.map(Cow::Owned).chain(self.pools.iter().map(Cow::Borrowed))
    }
}

/// How many CPUs the server can run on: those in `among`, or all allowed ones.
pub(super) fn usable_cpus(among: Option<&[usize]>) -> usize {
    among.map_or_else(|| sys::process::allowed_cpus().map_or(1, |cpus| cpus.len()), <[usize]>::len)
}

/// The file of a Unix socket. Every user that may write to it may connect, unix(7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketFileSettings {
    /// Its permission bits, 0 to 0o777.
    pub mode: u32,
    /// Its owner, by name. `None`: the user that starts the server.
    pub owner: Option<String>,
    /// Its group, by name. `None`: the group of the user that starts the server.
    pub group: Option<String>,
}

impl SocketFileSettings {
    fn of_mode(mode: u32) -> Self {
        Self { mode, owner: None, group: None }
    }
}

impl Settings {
    /// The defaults, for the files below `root` (absolute).
    pub fn new(root: PathBuf) -> Self {
        Self {
            listen: vec![ListenAddress::Tcp((Ipv4Addr::LOCALHOST, 8080).into())],
            architecture: Architecture::Symped,
            workers: Architecture::Symped.usual_workers(usable_cpus(None)),
            copies: 1,
            copies_by: CopiesBy::Reuseport,
            send: Sends::NonBlocking,
            cpus: None,
            placement: PlacementSettings::default(),
            user: None,
            group: None,
            drain_timeout: Duration::from_secs(30),
            error_log: ErrorLog::Stderr,
            log_level: LogLevel::INFO,
            status: None,
            status_hosts: Vec::new(),
            unix_sockets: SocketFileSettings::of_mode(0o666),
            status_socket: SocketFileSettings::of_mode(0o600),
            event: EventSettings::default(),
            amped: AmpedSettings::default(),
            user_threads: UserThreadSettings::default(),
            uring: RingSettings::default(),
            pipeline: PipelineSettings::default(),
            connections: ConnectionSettings::default(),
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            files: FileSettings::new(root),
            sites: Vec::new(),
            access_log: Some(AccessLogSettings::to(LogTarget::Terminal)),
            pools: Vec::new(),
            name_servers: Vec::new(),
            spool: PathBuf::from("/var/tmp"),
            spill: 16 << 20,
            gateway_memory: 8 << 20,
            waiting_workers: None,
            trusted_proxies: Vec::new(),
            believed: vec![ToldOrigin::Scheme],
            proxy_protocol: Vec::new(),
            tls: TlsSettings::default(),
            handshakes: HandshakeSettings::default(),
        }
    }

    /// The limits for the connection state machine.
    pub fn limits(&self) -> http1::Limits {
        let ticks = |time: Duration| http1::Timeouts::ticks(time.as_millis() as u64);
        let (limits, times) = (&self.limits, &self.timeouts);
        http1::Limits {
            request_line: limits.request_line,
            head: limits.header_size,
            fields: limits.header_count,
            body: limits.body,
            requests: self.connections.requests.get(),
            timeouts: http1::Timeouts {
                header: ticks(times.header),
                body: ticks(times.body),
                body_rate: times.body_min_rate,
                write: ticks(times.write),
                write_rate: times.write_min_rate,
                idle: ticks(times.idle),
                linger: ticks(times.linger),
            },
        }
    }
}

impl Default for EventSettings {
    fn default() -> Self {
        Self {
            mechanism: Events::Epoll,
            wake: Wake::All,
            accept_limit: AcceptLimit::Auto,
            work_phase_skips_new: false,
            quantum: 256 << 10,
            coalesce: Coalesce::Auto,
            send_hold: Duration::from_secs(1),
        }
    }
}

impl Default for UserThreadSettings {
    fn default() -> Self {
        Self {
            threads: None,
            stack: 128 << 10,
            keep_stack: false,
            helpers_send: false,
            accepting: Accepting::Scheduler,
        }
    }
}

impl Default for RingSettings {
    fn default() -> Self {
        Self { loads: Loads::Helpers, zero_copy: false, registered_sockets: false }
    }
}

impl Default for AmpedSettings {
    fn default() -> Self {
        Self {
            helpers: const { NonZeroU32::new(4).unwrap() },
            disk_timeout: Duration::from_secs(20),
            disk_delay: None,
        }
    }
}

impl Default for PipelineSettings {
    fn default() -> Self {
        Self {
            stages: Stages::Five,
            readers: NonZeroU32::MIN,
            writers: const { NonZeroU32::new(4).unwrap() },
            batch: const { NonZeroU32::new(64).unwrap() },
            queue: const { NonZeroU32::new(1024).unwrap() },
            controllers: false,
            response_target: None,
        }
    }
}

impl Default for ConnectionSettings {
    fn default() -> Self {
        Self {
            backlog: 4096,
            max: None,
            requests: const { NonZeroU32::new(1_000_000).unwrap() },
            send_buffer: None,
            defer_accept: None,
            nodelay: true,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { request_line: 8 << 10, header_size: 32 << 10, header_count: 100, body: 1 << 20, ranges: 16 }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            header: Duration::from_secs(20),
            body: Duration::from_secs(20),
            body_min_rate: 500,
            write: Duration::from_mins(1),
            write_min_rate: 500,
            idle: Duration::from_mins(1),
            linger: Duration::from_secs(5),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_machine_has_the_same_defaults() {
        assert_eq!(Settings::new("/".into()).limits(), http1::Limits::default());
    }
}
