//! Processes of an application that speak FastCGI, and how replies come from them.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use crate::config::address::ListenAddress;

/// How an application's replies come to their clients (Yeung 2010, chapters 2 and 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// In FastCGI's streams, which the server reads and sends on.
    #[default]
    Stream,
    /// The client's socket is lent to the application, which sends the reply itself.
    PassFd,
    /// The application writes into memory that the server sends from.
    SharedMemory,
}

/// How the server sends from shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AreaSend {
    /// The kernel copies it, and the memory is used again.
    #[default]
    Copy,
    /// The kernel sends the pages themselves, which are not written to again.
    Sendfile,
}

/// Processes of an application that speak FastCGI, behind one or several addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolRule {
    /// What routes call it by.
    pub name: String,
    /// Where they listen. A request goes to where the fewest are in flight.
    pub servers: Vec<ListenAddress>,
    /// Most requests in flight, of all workers together: as many as the application has children (processes,
    /// threads).
    pub children: NonZeroU32,
    /// Most requests that wait for one of them.
    pub queue: u32,
    /// How long a request may wait.
    pub queue_timeout: Duration,
    /// The newest goes first while the oldest has waited for longer than this for a while; `None`: never.
    pub queue_delay: Option<Duration>,
    /// Clients get equal shares of the application's time, by address prefix.
    pub fair: bool,
    /// How long it may take until one has accepted a connection.
    pub connect_timeout: Duration,
    /// How long one may make no progress while a request is in flight.
    pub timeout: Duration,
    /// How long a request may take from when it was whole until the application has said all; judged once it
    /// is in flight.
    pub total_timeout: Option<Duration>,
    /// How replies come to their clients, if the application knows that way.
    pub transport: Transport,
    /// Bytes of the memory that each connection shares with the application.
    pub area: u64,
    /// How the server sends from that.
    pub area_send: AreaSend,
    /// Most connections that a worker keeps for another request.
    pub keep: u32,
    /// How long it keeps them.
    pub keep_timeout: Duration,
    /// More parameters for each request, by name.
    pub params: Vec<(String, String)>,
    /// They may be asked to TRACE.
    pub trace: bool,
    /// Directories whose files its applications may name to be sent, by what stands for them at the beginning
    /// of `X-Accel-Redirect`.
    pub send_files: Vec<(String, PathBuf)>,
}

impl PoolRule {
    /// Most requests of a pool, in flight and waiting.
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
