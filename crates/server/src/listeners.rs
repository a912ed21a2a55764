//! Listening sockets: opened from settings or inherited from systemd, before privileges are dropped.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use sys::socket::{self, ListenOptions, LocalAddress};

use crate::config::{ListenAddress, Settings};

/// All listeners of a server. Supervisor, workers and the status endpoint each have descriptors of their own for them.
pub type Listeners = Vec<Arc<Listener>>;

/// What one worker accepts from.
#[derive(Clone, Debug, Default)]
pub struct Share {
    /// To be served until the end.
    pub serving: Listeners,
    /// That a reload has removed: to be emptied and closed.
    pub retiring: Listeners,
}

/// One listening socket.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    /// The process that opened it.
    owner: u32,
    /// The address that was asked for; `None` where the socket was inherited.
    pub asked: Option<ListenAddress>,
    /// The address that it got (port 0 picks one).
    pub address: ListenAddress,
}

/// A listener could not be had.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Binding or listening failed.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: ListenAddress,
        /// Why not.
        source: io::Error,
    },
    /// What systemd handed over is not usable.
    #[error("inherited descriptor {name}: {reason}")]
    Inherited {
        /// Its name or number.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl Listener {
    /// Listens at an address.
    ///
    /// # Errors
    ///
    /// The address is in use, not ours, or not permitted.
    pub fn open(address: &ListenAddress, settings: &Settings) -> Result<Self, ListenError> {
        let wrong = |source| ListenError::Listen { address: address.clone(), source };
        let connections = &settings.connections;
        let socket = match address {
            ListenAddress::Tcp(tcp) => {
                let options = ListenOptions {
                    backlog: connections.backlog,
                    nodelay: connections.nodelay,
                    send_buffer: connections.send_buffer,
                    defer_accept: connections.defer_accept.map(|time| (time.as_secs() as u32).max(1)),
                    ..ListenOptions::default()
                };
                socket::listen_tcp(*tcp, &options)
            }
            ListenAddress::Unix(path) => socket::listen_unix(path, None, connections.backlog),
        }
        .map_err(wrong)?;
        let address = local_address(&socket).map_err(wrong)?;
        Ok(Self { socket, owner: std::process::id(), asked: Some(address.clone()), address })
    }

    /// Closes it in this process, whoever still holds it here. A worker came with copies of all that the supervisor holds.
    pub fn close(&self) {
        if let Err(error) = socket::vacate(self) {
            tracing::error!("cannot close the listener {}: {error}", self.address);
        }
    }

    /// Takes over a socket that listens already.
    fn inherited(given: sys::inherited::Inherited) -> Result<Self, ListenError> {
        let name = given.name.unwrap_or_else(|| "without a name".into());
        let wrong = |reason: String| ListenError::Inherited { name: name.clone(), reason };
        if !socket::is_listening(&given.descriptor).map_err(|error| wrong(error.to_string()))? {
            return Err(wrong(
                "not a listening socket (in the .socket unit: Accept=no, ListenStream=)".into(),
            ));
        }
        socket::set_nonblocking(&given.descriptor, true).map_err(|error| wrong(error.to_string()))?;
        let address = local_address(&given.descriptor).map_err(|error| wrong(error.to_string()))?;
        Ok(Self { socket: given.descriptor, owner: std::process::id(), asked: None, address })
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Whoever made a socket file removes it: workers don't, and systemd keeps its own.
        if let (Some(_), ListenAddress::Unix(path)) = (&self.asked, &self.address)
            && self.owner == std::process::id()
        {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Opens all listeners: those handed over by systemd if there are any, else those of the settings.
///
/// # Errors
///
/// The first that can't be had.
pub fn open_all(settings: &Settings) -> Result<Listeners, ListenError> {
    let given = sys::inherited::take()
        .map_err(|error| ListenError::Inherited { name: "LISTEN_FDS".into(), reason: error.to_string() })?;
    if !given.is_empty() {
        return given.into_iter().map(|given| Listener::inherited(given).map(Arc::new)).collect();
    }
    settings.listen.iter().map(|address| Listener::open(address, settings).map(Arc::new)).collect()
}

/// The listeners that changed settings ask for: those that go on, and new ones.
///
/// # Errors
///
/// A new one can't be had; nothing has changed then.
pub fn reopen(current: &Listeners, before: &Settings, settings: &Settings) -> Result<Listeners, ListenError> {
    if current.iter().any(|listener| listener.asked.is_none()) {
        return Ok(current.clone());
    }
    let open = |address: &ListenAddress| {
        let at = before.listen.iter().position(|old| old == address);
        match at.and_then(|at| current.get(at)) {
            Some(listener) => Ok(Arc::clone(listener)),
            None => Listener::open(address, settings).map(Arc::new),
        }
    };
    settings.listen.iter().map(open).collect()
}

fn local_address(socket: impl AsFd) -> io::Result<ListenAddress> {
    Ok(match socket::local_address(socket)? {
        LocalAddress::Inet(address) => ListenAddress::Tcp(address),
        LocalAddress::Unix(path) => ListenAddress::Unix(path.unwrap_or_default()),
    })
}
