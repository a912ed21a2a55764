//! What a run is: sessions, where to, how they arrive, how long clients wait.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use sys::client;
use workload::session::SessionLog;

use crate::record::{Nanos, nanos};
use crate::schedule::Schedule;
use crate::tls::{Name, Settings};

/// All that is asked of the generator.
#[derive(Debug)]
pub struct Run {
    /// The sessions that are played; when there are more to play than these, they come round again.
    pub log: SessionLog,
    /// Where to, taken in turn by one session after the other. Not empty.
    pub targets: Vec<Target>,
    /// What the Host line says.
    pub host: String,
    /// More header lines for every request, each ended by CRLF; empty for none.
    pub headers: String,
    /// Who the clients are. Not empty.
    pub classes: Vec<Class>,
    /// When the run ends at the latest; `None`: with its last session.
    pub duration: Option<Duration>,
    /// No more requests than so many, over all sessions; `None`: as many as these have.
    pub requests: Option<u64>,
    /// Compare every reply to a GET with the file of that name below this directory.
    pub verify: Option<PathBuf>,
    /// How targets are asked that speak TLS.
    pub tls: Settings,
    /// One thread for each of these CPUs, pinned to it. Not empty.
    pub cpus: Vec<usize>,
    /// Have the threads run before all others of their cores, so that kernels that are slow to switch do not
    /// make them late.
    pub realtime: bool,
}

/// Clients of a kind. They play the same sessions as others do.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// For people. Where there is but one, it may be empty, and calls are not counted by class.
    pub name: String,
    /// How their sessions come.
    pub load: Load,
    /// Whether a session only connects, makes a full TLS handshake and closes. It plays no session of the
    /// log, and needs targets that speak TLS.
    pub handshakes_only: bool,
    /// Local addresses to connect from, taken in turn; empty leaves that to the kernel. Unix sockets have
    /// none.
    pub sources: Vec<IpAddr>,
    /// How they behave.
    pub timeouts: Timeouts,
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// At an address, with TCP.
    Inet(SocketAddr),
    /// At an address, with TLS over TCP.
    Tls(SocketAddr, Name),
    /// At a Unix socket of this name.
    Unix(PathBuf),
}

impl Target {
    /// Its address, if it has one.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Inet(address) | Self::Tls(address, _) => Some(*address),
            Self::Unix(_) => None,
        }
    }

    /// The same server at another of its addresses; a Unix socket stays where it is.
    pub fn at(self, address: SocketAddr) -> Self {
        match self {
            Self::Inet(_) => Self::Inet(address),
            Self::Tls(_, name) => Self::Tls(address, name),
            Self::Unix(path) => Self::Unix(path),
        }
    }

    /// The same target, whose certificate must have this name; one without TLS stays as it is.
    pub fn named(self, name: Name) -> Self {
        match self {
            Self::Tls(address, _) => Self::Tls(address, name),
            Self::Inet(_) | Self::Unix(_) => self,
        }
    }

    /// The name that the server's certificate must have, if the target speaks TLS.
    pub fn tls_name(&self) -> Option<&Name> {
        match self {
            Self::Tls(_, name) => Some(name),
            Self::Inet(_) | Self::Unix(_) => None,
        }
    }

    /// Begins to connect, and says whether the connection is up already.
    pub(crate) fn connect(&self, source: Option<IpAddr>) -> io::Result<(OwnedFd, bool)> {
        match self {
            Self::Inet(address) | Self::Tls(address, _) => client::connect(source, *address),
            Self::Unix(path) => client::connect_unix(path).map(|socket| (socket, true)),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet(address) => write!(formatter, "http://{address}"),
            Self::Tls(address, _) => write!(formatter, "https://{address}"),
            Self::Unix(path) => write!(formatter, "unix:{}", path.display()),
        }
    }
}

impl Run {
    /// When a burst of the log begins, if the run keeps the log's times and this one has one.
    pub(crate) fn begins(&self, burst: usize) -> Option<Nanos> {
        let [Class { load: Load::Arriving { schedule: Schedule::Logged(_), .. }, .. }] = &self.classes[..]
        else {
            return None;
        };
        self.log.burst(burst).at.map(nanos)
    }
}

impl Class {
    /// How many connections go from one session to the next, if they do.
    pub fn kept_connections(&self) -> Option<u32> {
        match self.load {
            Load::Arriving { kept, .. } => kept,
            Load::Closed { connections, kept, .. } => kept.then_some(connections),
        }
    }
}

/// How sessions come.
#[derive(Clone, Debug, PartialEq)]
pub enum Load {
    /// On a schedule, whatever the server does: partially open, or open where a session is a single request.
    Arriving {
        /// When. With the log's own times, bursts begin at theirs as well, if there is one class.
        schedule: Schedule,
        /// No more after so many; `None`: until the run ends.
        count: Option<u64>,
        /// How many connections are kept and go from one session to the next. A session that finds none free
        /// waits in a queue. `None`: each session opens its connections.
        kept: Option<u32>,
    },
    /// So many at a time, the next one when one ends: closed.
    Closed {
        /// Sessions, each with its own connection.
        connections: u32,
        /// No more after so many sessions; `None`: until the run ends.
        count: Option<u64>,
        /// Whether a connection goes from one session to the next. If not, each session opens its own.
        kept: bool,
    },
}

/// The timeouts of clients, their think time and their retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// The longest wait for a connection, and for TLS over it.
    pub connect: Duration,
    /// The longest wait for a whole reply, from the moment when its request is sent. A request of the log may
    /// have another one.
    pub reply: Duration,
    /// The think time between bursts whose log leaves it to the run.
    pub think: Duration,
    /// How often a client tries the same request again on another connection after a timeout (Brecht et al.
    /// 2004, section 4). Then it gives up: the session has failed, as with httperf at once. A
    /// connection is closed in any case, and the server left to find out.
    pub retries: u32,
}
