//! Pools of application processes that speak FastCGI, and how their replies reach the clients.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use crate::config::address::ListenAddress;

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

/// Application processes that speak FastCGI, at one or several addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolRule {
    /// The name that routes use.
    pub name: String,
    /// The addresses of the servers. A request goes to the server with the fewest requests in flight.
    pub servers: Vec<ListenAddress>,
    /// Most requests in flight, for all workers together. Set it to the application's number of children
    /// (processes, threads).
    pub children: NonZeroU32,
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
    /// How replies reach their clients, if the application supports it.
    pub transport: Transport,
    /// Bytes of memory that each connection shares with the application.
    pub area: u64,
    /// How the server sends from shared memory.
    pub area_send: AreaSend,
    /// Most idle connections that a worker keeps for later requests.
    pub keep: u32,
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
}

impl Default for PoolRule {
    fn default() -> Self {
        Self {
            name: String::new(),
            servers: Vec::new(),
            children: NonZeroU32::new(5).unwrap_or(NonZeroU32::MIN),
            queue: 1000,
            queue_timeout: Duration::from_secs(10),
            queue_delay: Some(Duration::from_millis(100)),
            fair: true,
            connect_timeout: Duration::from_secs(5),
            timeout: Duration::from_mins(1),
            total_timeout: None,
            transport: Transport::Stream,
            area: 640 << 10,
            area_send: AreaSend::Copy,
            keep: 0,
            keep_timeout: Duration::from_secs(10),
            params: Vec::new(),
            trace: false,
            send_files: Vec::new(),
        }
    }
}
