//! Pools of application processes that speak FastCGI or HTTP, and how their replies reach the clients.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use crate::config::server_address::ServerAddress;

/// What an application speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// FastCGI 1.
    #[default]
    FastCgi,
    /// HTTP/1.1.
    Http,
}

/// When an application gets the body of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Uploads {
    /// Once all of it has come. So a slow client occupies nothing of the application.
    #[default]
    Spool,
    /// As it comes.
    Stream,
}

/// How an application's replies reach their clients (Yeung 2010, chapters 2 and 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// In FastCGI streams. The server reads the reply and sends it on.
    #[default]
    Stream,
    /// The client's socket is passed to the application, which sends the reply itself.
    PassFd,
    /// The application writes into shared memory, and the server sends from it.
    SharedMemory,
}

/// How the server sends from shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AreaSend {
    /// The kernel copies the data, and the memory is reused.
    #[default]
    Copy,
    /// The kernel sends the pages themselves. The application does not write to them again.
    Sendfile,
}

/// Application processes that speak the same protocol, at one or several addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolRule {
    /// The name that routes use.
    pub name: String,
    /// Where the servers listen. A request goes to the server with the fewest requests in flight.
    pub servers: Vec<ServerAddress>,
    /// What they speak.
    pub protocol: Protocol,
    /// With HTTP: the Host of requests. `None`: the client's.
    pub host: Option<String>,
    /// With HTTP: a path that begins the client's paths, and is left out.
    pub strip_prefix: Option<String>,
    /// With HTTP: a path that is put in front of paths.
    pub add_prefix: Option<String>,
    /// With HTTP: paths of the application in `Location` and cookies become those of its clients.
    pub rewrite_replies: bool,
    /// Most requests in flight, for all workers together. Set it to the application's number of children
    /// (processes, threads).
    /// `None`: 5 with FastCGI, and 128 with HTTP.
    pub children: Option<NonZeroU32>,
    /// Most requests that wait in the queue.
    pub queue: u32,
    /// How long a request may wait in the queue.
    pub queue_timeout: Duration,
    /// If the oldest request has waited longer than this for a while, the newest request goes first.
    /// `None`: never.
    pub queue_delay: Option<Duration>,
    /// Clients get equal shares of the application's time. A client is an address prefix.
    pub fair: bool,
    /// How long a server may take to accept a connection.
    pub connect_timeout: Duration,
    /// How long a server may make no progress while a request is in flight.
    pub timeout: Duration,
    /// How long a request may take, from its complete arrival to the end of the application's reply.
    /// Enforced only once the request is in flight.
    pub total_timeout: Option<Duration>,
    /// With HTTP: when the application gets the body of a request.
    pub uploads: Uploads,
    /// With HTTP: most connections that are upgraded at a time, to WebSocket for example. 0: none is.
    pub upgrades: u32,
    /// How long an upgraded connection may be silent in both directions.
    pub upgrade_timeout: Duration,
    /// How replies reach their clients, if the application supports it.
    pub transport: Transport,
    /// Bytes of memory that each connection shares with the application.
    pub area: u64,
    /// How the server sends from shared memory.
    pub area_send: AreaSend,
    /// Most idle connections that a worker keeps for later requests. `None`: none with FastCGI, and with HTTP
    /// as many as requests may be in flight.
    pub keep: Option<u32>,
    /// How long a worker keeps an idle connection.
    pub keep_timeout: Duration,
    /// Additional parameters for each request, by name.
    pub params: Vec<(String, String)>,
    /// TRACE requests are passed to the application.
    pub trace: bool,
    /// Directories of files that the application may name for the server to send. The key is the prefix
    /// in `X-Accel-Redirect` that stands for the directory.
    pub send_files: Vec<(String, PathBuf)>,
}

impl PoolRule {
    /// Most requests of a pool, in flight and waiting together.
    pub const MOST_AT_ONCE: u32 = 2048;

    /// Most upgraded connections of a pool.
    pub const MOST_UPGRADES: u32 = 1 << 16;

    /// Most requests in flight.
    pub fn children(&self) -> u32 {
        // A process of PHP has one request. An HTTP server has as many as it accepts.
        let usual = match self.protocol {
            Protocol::FastCgi => 5,
            Protocol::Http => 128,
        };
        self.children.map_or(usual, NonZeroU32::get)
    }

    /// Most idle connections that a worker keeps.
    pub fn keep(&self) -> u32 {
        let usual = match self.protocol {
            Protocol::FastCgi => 0,
            // With fewer, some requests of a busy worker find none, and a connection costs as much CPU time
            // as two requests.
            Protocol::Http => self.children(),
        };
        self.keep.unwrap_or(usual)
    }
}

impl Default for PoolRule {
    fn default() -> Self {
        Self {
            name: String::new(),
            servers: Vec::new(),
            protocol: Protocol::FastCgi,
            host: None,
            strip_prefix: None,
            add_prefix: None,
            rewrite_replies: false,
            children: None,
            queue: 1000,
            queue_timeout: Duration::from_secs(10),
            queue_delay: Some(Duration::from_millis(100)),
            fair: true,
            connect_timeout: Duration::from_secs(5),
            timeout: Duration::from_mins(1),
            total_timeout: None,
            uploads: Uploads::Spool,
            upgrades: 10_000,
            upgrade_timeout: Duration::from_hours(1),
            transport: Transport::Stream,
            area: 640 << 10,
            area_send: AreaSend::Copy,
            keep: None,
            keep_timeout: Duration::from_secs(10),
            params: Vec::new(),
            trace: false,
            send_files: Vec::new(),
        }
    }
}
