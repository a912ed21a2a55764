//! The settings of a server, ready for use: one small struct for each component, every value within its
//! bounds.
//!
//! The defaults are here, or with the structs of a [site], a [pool] or a [log], and nowhere else.
//! `docs/configuration.md` says for people what the fields say here.

mod log;
mod pool;
mod site;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::net::Ipv4Addr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use sys::file::Symlinks;
pub use tracing::Level as LogLevel;

pub use self::log::{AccessLogSettings, LogFormat, LogTarget, WhenBehind};
pub use self::pool::{AreaSend, PoolRule, Transport};
pub use self::site::{FileSettings, HeaderRule, Php, RouteRule, SiteSettings};

use super::address::{ListenAddress, StatusAddress};
use super::host::HostPattern;
use super::network::{ToldOrigin, TrustedProxy};

/// Everything that can be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where clients connect; not empty, none twice. Sockets that were inherited from systemd stand in for
    /// all of them.
    pub listen: Vec<ListenAddress>,
    /// How concurrency is organised.
    pub architecture: Architecture,
    /// What the architecture multiplies. Exactly 1 for SPED.
    pub workers: usize,
    /// Complete copies of the architecture, each with `workers` and listeners of its own.
    pub copies: usize,
    /// How copies come by listeners of their own.
    pub copies_by: CopiesBy,
    /// Whether sends wait for the client.
    pub send: Sends,
    /// The CPUs that the server runs on, ascending; `None` leaves that to the kernel.
    pub cpus: Option<Vec<usize>>,
    /// Which of them each copy or worker runs on, and which addresses it serves.
    pub placement: PlacementSettings,
    /// The user to become after binding, by name.
    pub user: Option<String>,
    /// The group to become after binding, by name; needs `user`, whose login group is the default.
    pub group: Option<String>,
    /// How long a drain may take before what is left is cut off.
    pub drain_timeout: Duration,
    /// Where errors are reported.
    pub error_log: ErrorLog,
    /// The least severe message that is reported: that something failed (error), is wrong but dealt with
    /// (warn), happens to the server as a whole (info), to connections (debug), or anything (trace).
    pub log_level: LogLevel,
    /// Where counters are served; `None`: nowhere.
    pub status: Option<StatusAddress>,
    /// The hosts for which they are, beside that address and `localhost`.
    pub status_hosts: Vec<HostPattern>,
    /// The files of those `listen` addresses that are Unix sockets.
    pub unix_sockets: SocketFileSettings,
    /// The file of the `status` address, if that is a Unix socket.
    pub status_socket: SocketFileSettings,
    /// The event loop.
    pub event: EventSettings,
    /// The helpers of AMPED.
    pub amped: AmpedSettings,
    /// The stages of the pipeline.
    pub pipeline: PipelineSettings,
    /// Sockets and their number.
    pub connections: ConnectionSettings,
    /// Sizes that one request may have.
    pub limits: Limits,
    /// How long a client may take, and how slow it may be.
    pub timeouts: Timeouts,
    /// The files served: those of the default site, which answers for every host that no other does.
    pub files: FileSettings,
    /// Other sites. See [`Settings::all_sites`].
    pub sites: Vec<SiteSettings>,
    /// Applications behind routes.
    pub pools: Vec<PoolRule>,
    /// Where request bodies for applications go that are too large for memory, and replies that clients take
    /// slowly: a directory.
    pub spool: PathBuf,
    /// Most bytes of a reply that go there; 0: none.
    pub spill: u64,
    /// Bytes of bodies and replies that a worker keeps in memory for applications before it makes do with
    /// less.
    pub gateway_memory: u64,
    /// Where each worker has one client: how many may be with one pool or wait for it.
    pub waiting_workers: Option<NonZeroU32>,
    /// Where requests are logged, but those for sites with a log of their own; `None`: nowhere.
    pub access_log: Option<AccessLogSettings>,
    /// Whose word is taken for whom they ask.
    pub trusted_proxies: Vec<TrustedProxy>,
    /// What their fields are believed of what a request was sent to. Many proxies leave all but the scheme as
    /// their clients wrote it.
    pub believed: Vec<ToldOrigin>,
    /// Addresses to listen at where each connection begins by saying for whom it is.
    pub proxy_protocol: Vec<ListenAddress>,
}

/// How concurrency is organised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// Single process, event-driven (Pariag et al. 2007, section 3).
    Sped,
    /// Symmetric multiple processes, event-driven (Pariag et al. 2007, section 5).
    Symped,
    /// SYMPED with one descriptor table and one open-file table for all processes (section 5.2).
    SharedSymped,
    /// SPED processes that share nothing, each with listeners of its own (Harji et al. 2012, section 3.1).
    NCopy,
    /// Asymmetric multi-process, event-driven (Pariag et al. 2007, section 3).
    Amped,
    /// A process for each connection (the multi-process servers of the papers' background sections).
    Processes,
    /// A kernel thread for each connection (the multi-threaded servers of the same).
    Threads,
    /// Stages with threads of their own: `WatPipe` (Pariag et al. 2007, section 4.3; Harji et al. 2012,
    /// section 4).
    Pipeline,
}

/// How copies come by listeners of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopiesBy {
    /// The addresses are dealt out to them, in order, to each as many as to the others.
    Address,
    /// Each has all addresses, with ports that follow one another.
    Port,
    /// All have the same addresses and ports, and the kernel spreads connections by a hash (`SO_REUSEPORT`,
    /// socket(7)).
    Reuseport,
    /// All have the same addresses and ports, and a connection goes to the copy on the CPU where its
    /// handshake is received.
    Cpu,
}

/// Where copies and workers run, and what they serve.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacementSettings {
    /// CPU sets, for copies (or workers, of one copy) in turn. Empty: copies share out all CPUs, workers run
    /// on any.
    pub cpus: Vec<Vec<usize>>,
    /// Which set goes with which group of addresses.
    pub mapping: Mapping,
    /// The addresses of a copy are dealt out to its workers, in order, to each as many as to the others.
    pub partition: bool,
}

/// Which CPU set goes with which group of addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mapping {
    /// The first with the first, and so on: packets and requests of a group on the same CPUs.
    #[default]
    Direct,
    /// The first with the second, and so on, the last with the first: packets on one CPU, requests on
    /// another.
    Indirect,
}

impl Architecture {
    /// Whether many connections are served at once with the help of events, and not each by a worker.
    pub fn is_event_driven(self) -> bool {
        !matches!(self, Self::Processes | Self::Threads)
    }

    /// How many copies there are if nothing is said, on so many CPUs.
    pub(super) fn usual_copies(self, cpus: usize) -> usize {
        if self == Self::NCopy { cpus } else { 1 }
    }

    /// How many workers a copy has if nothing is said, and so many CPUs.
    pub(super) fn usual_workers(self, cpus: usize) -> usize {
        match self {
            Self::Sped | Self::NCopy => 1,
            Self::Symped | Self::SharedSymped | Self::Amped | Self::Pipeline => cpus,
            Self::Processes | Self::Threads => 64,
        }
    }

    /// Whom a connection wakes if nothing is said.
    pub(super) fn usual_wake(self) -> Wake {
        if self.is_event_driven() { Wake::All } else { Wake::Exclusive }
    }

    /// How it sends if nothing is said.
    pub(super) fn usual_sends(self) -> Sends {
        if self.is_event_driven() { Sends::NonBlocking } else { Sends::Blocking }
    }
}

/// Whether sends wait for the client to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sends {
    /// They take what there is room for.
    NonBlocking,
    /// They wait until all is sent: one `sendfile` sends a whole file.
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

/// The event loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSettings {
    /// How the get-events phase learns what is ready.
    pub mechanism: Events,
    /// Which of the waiting processes a connection wakes.
    pub wake: Wake,
    /// Most connections taken from a listener in one accept phase (Brecht et al. 2004, section 4).
    pub accept_limit: AcceptLimit,
    /// Connections accepted in a turn are left out of the work phase of the same turn.
    pub work_phase_skips_new: bool,
    /// Most bytes sent to one connection in one turn, so that a large reply can't starve the others.
    pub quantum: u64,
    /// How a reply's head and a file's bytes are kept together in packets.
    pub coalesce: Coalesce,
    /// Time in which blocking sends may hold an event loop before it serves others first.
    pub send_hold: Duration,
}

/// How the get-events phase learns what is ready.
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
    /// All of them; most come too late.
    All,
    /// One or few, epoll(7) `EPOLLEXCLUSIVE`: of those that wait, the one that was first to register.
    Exclusive,
    /// One or few, as with `Exclusive`; and who has accepted goes to the end of the line from time to time.
    ReAdding,
}

/// Most connections taken from a listener in one accept phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptLimit {
    /// That many.
    Limit(NonZeroU32),
    /// Until the accept queue is empty.
    Unlimited,
    /// As the delay of clients asks for.
    Auto,
}

/// How a reply's head and a file's bytes are kept together in packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coalesce {
    /// `More`, but nothing where the kernel's congestion control is BBR: its pacing makes held-back heads
    /// dear.
    Auto,
    /// `MSG_MORE` on the head, send(2).
    More,
    /// `TCP_CORK` around the reply, tcp(7).
    Cork,
    /// Not at all.
    None,
}

/// The helpers of AMPED.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmpedSettings {
    /// Threads that wait for the disk, for each worker.
    pub helpers: NonZeroU32,
    /// How long a client waits for the disk at a time.
    pub disk_timeout: Duration,
    /// Nobody is accepted while a client that comes now would wait longer than this for the disk; `None`:
    /// however long it takes.
    pub disk_delay: Option<Duration>,
}

/// The stages of the pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineSettings {
    /// Which of the papers' two pipelines.
    pub stages: Stages,
    /// Threads of the Read stage for each worker, which is a CPU.
    pub readers: NonZeroU32,
    /// Threads of the Write stage for each worker.
    pub writers: NonZeroU32,
    /// Most connections that a thread takes from its stage's queue at once.
    pub batch: NonZeroU32,
    /// Connections in the queue of a stage, beyond which the stages before it wait.
    pub queue: NonZeroU32,
    /// Readers, writers and batches are as many as do for the load: those above are the most.
    pub controllers: bool,
    /// New connections are admitted at a rate at which nine of ten replies take no longer than this; `None`:
    /// at whatever rate they come.
    pub response_target: Option<Duration>,
}

/// Which of the papers' two pipelines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stages {
    /// Accept; Read Poll and Read in one; Write Poll and Write by turns (Pariag et al. 2007, section 4.3).
    Four,
    /// Accept, Read Poll, Read, Write Poll, Write (Harji et al. 2012, section 4).
    Five,
}

/// Sockets and their number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionSettings {
    /// Length asked of the accept queue, at most `i32::MAX`; the kernel grants at most `net.core.somaxconn`.
    /// listen(2).
    pub backlog: u32,
    /// Most connections at a time, beyond which accepting stops; `None`: as many as the descriptor limit
    /// leaves room for.
    pub max: Option<NonZeroUsize>,
    /// Requests answered on one connection; the last reply says `Connection: close`.
    pub requests: NonZeroU32,
    /// A fixed send buffer in bytes (`SO_SNDBUF`, socket(7)); `None`: the kernel adapts it.
    pub send_buffer: Option<u32>,
    /// A connection is handed to the server when its request has begun to arrive, or after about this long
    /// (`TCP_DEFER_ACCEPT`, tcp(7)). Not set: as soon as it is established.
    pub defer_accept: Option<Duration>,
    /// Small segments are sent at once (`TCP_NODELAY`, tcp(7)).
    pub nodelay: bool,
}

/// Sizes that one request may have, in bytes where nothing else is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest request line, its line end included; at most `header_size`.
    pub request_line: u32,
    /// Largest head, request line included.
    pub header_size: u32,
    /// Most field lines, at most [`http1::Limits::MAX_FIELDS`].
    pub header_count: u16,
    /// Largest request body that is read and thrown away.
    pub body: u64,
    /// Most ranges answered in one reply, at most [`http1::range::MAX_RANGES`].
    pub ranges: u16,
}

/// How long a client may take. The rates are in bytes per second; at 0 any progress will do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From the first byte of a request's head (or from the accept) to its last.
    pub header: Duration,
    /// The period in which a body must bring `body_min_rate` bytes for each second.
    pub body: Duration,
    /// Slowest body.
    pub body_min_rate: u32,
    /// The period in which a client must take `write_min_rate` bytes of a reply for each second.
    pub write: Duration,
    /// Slowest reader.
    pub write_min_rate: u32,
    /// From the end of a reply to the next request.
    pub idle: Duration,
    /// After the last reply: how long to wait for the client to close.
    pub linger: Duration,
}

impl Settings {
    /// How many workers may be with one pool or wait for it with their clients, where each has one client:
    /// half of them, if nobody says otherwise. `None`: a worker has others meanwhile.
    pub fn most_waiting_workers(&self) -> Option<u32> {
        let workers = self.workers.saturating_mul(self.copies) as u32;
        let most = self.waiting_workers.map_or((workers / 2).max(1), NonZeroU32::get);
        (!self.architecture.is_event_driven()).then_some(most)
    }

    /// The sites, the default one first, and behind them what applications may send files of: the directories
    /// of [all pools](Self::all_pools), in their order, as sites that no host has. The header fields of the
    /// top are those of all of them.
    pub fn all_sites(&self) -> Vec<SiteSettings> {
        let common: Arc<[_]> = self.files.headers.clone().into();
        let complete = |site: &SiteSettings| {
            let mut site = site.clone();
            site.files.common_headers = Arc::clone(&common);
            site
        };
        let default = SiteSettings {
            hosts: Vec::new(),
            access_log: self.access_log.clone(),
            files: self.files.clone(),
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
        let named = |directory: &PathBuf| SiteSettings {
            hosts: Vec::new(),
            access_log: None,
            files: FileSettings { root: directory.clone(), ..of_applications.clone() },
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

    /// How many sites [there are](Self::all_sites).
    pub fn number_of_sites(&self) -> usize {
        let directories: usize = self.pools.iter().map(|pool| pool.send_files.len()).sum();
        1 + self.sites.len() + directories
    }

    /// The access logs of all sites, each once, whichever sites have it.
    pub fn access_logs(&self) -> Vec<&AccessLogSettings> {
        let of_sites = self.sites.iter().filter_map(|site| site.access_log.as_ref());
        let mut known = HashSet::new();
        self.access_log.iter().chain(of_sites).filter(|log| known.insert(&log.target)).collect()
    }

    /// The files of directories that applications may name.
    fn named_files(&self) -> FileSettings {
        FileSettings {
            index: Vec::new(),
            listing: false,
            dotfiles: true,
            precompressed: false,
            error_pages: BTreeMap::new(),
            // They are about the paths of a site.
            headers: Vec::new(),
            routes: Vec::new(),
            php: None,
            ..self.files.clone()
        }
    }

    /// Most connections to a pool that a worker keeps: none where each has one client, as there are many of
    /// them.
    pub fn kept_connections(&self, pool: &PoolRule) -> u32 {
        if self.architecture.is_event_driven() { pool.keep } else { 0 }
    }

    /// The pools, those of PHP scripts included.
    pub fn all_pools(&self) -> impl Iterator<Item = Cow<'_, PoolRule>> {
        let of_sites = self.sites.iter().filter_map(|site| site.files.php.as_ref());
        let mut known = HashSet::new();
        let php = self.files.php.iter().chain(of_sites).filter(move |php| known.insert(*php));
        let pool = |php: &Php| PoolRule {
            name: php.pool.clone(),
            servers: vec![php.server.clone()],
            ..PoolRule::default()
        };
        php.map(move |php| Cow::Owned(pool(php))).chain(self.pools.iter().map(Cow::Borrowed))
    }
}

/// How many CPUs there are to run on, of these or of all.
pub(super) fn usable_cpus(among: Option<&[usize]>) -> usize {
    among.map_or_else(|| sys::process::allowed_cpus().map_or(1, |cpus| cpus.len()), <[usize]>::len)
}

/// The file of a Unix socket. Who may write to it may connect, unix(7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketFileSettings {
    /// Its permission bits, 0 to 0o777.
    pub mode: u32,
    /// Its user, by name; `None`: whoever starts the server.
    pub owner: Option<String>,
    /// Its group, by name; `None`: that of whoever starts the server.
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
            pipeline: PipelineSettings::default(),
            connections: ConnectionSettings::default(),
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            files: FileSettings::new(root),
            sites: Vec::new(),
            access_log: Some(AccessLogSettings::to(LogTarget::Terminal)),
            pools: Vec::new(),
            spool: PathBuf::from("/var/tmp"),
            spill: 16 << 20,
            gateway_memory: 8 << 20,
            waiting_workers: None,
            trusted_proxies: Vec::new(),
            believed: vec![ToldOrigin::Scheme],
            proxy_protocol: Vec::new(),
        }
    }

    /// The bounds that the connection state machine keeps.
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
