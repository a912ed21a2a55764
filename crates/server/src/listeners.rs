//! Listening sockets: opened from settings or inherited from systemd, before privileges are dropped.
//!
//! Each copy of the server [has its own](Settings::addresses_of_copies). If copies share an address, each
//! gets a member of an `SO_REUSEPORT` group, and the kernel decides whose accept queue a connection enters.
//! The first copy has the address exclusively before it lets the others join. So two servers never share
//! one unnoticed.
//!
//! An option set on a socket holds for all processes that have it open, and outlives the process that set
//! it. So new handshakes are refused only by a process that knows that nothing is to accept there any more.
//! This is the supervisor, at the end of the server or when an address is removed, or a worker whose
//! supervisor is gone. No process refuses them on a socket that was passed to the server, because its owner
//! continues to use it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use sys::event::Interest;
use sys::poll;
use sys::socket::{self, ListenOptions, LocalAddress, SocketFile};

use crate::config::{CopiesBy, ListenAddress, Settings, SocketFileSettings, dealt};
use crate::placement;

/// Listeners that belong together. Supervisor, workers and the status endpoint each have their own
/// descriptors for them.
pub type Listeners = Vec<Arc<Listener>>;

/// The listeners that one worker accepts from.
#[derive(Clone, Debug, Default)]
pub struct Share {
    /// Serve these until the end.
    pub serving: Listeners,
    /// A reload has removed these: empty and close them.
    pub retiring: Listeners,
}

/// One listening socket.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    /// The process that opened it.
    owner: u32,
    /// The requested address; `None` if the socket was inherited.
    pub asked: Option<ListenAddress>,
    /// The actual address (port 0 picks one).
    pub address: ListenAddress,
}

/// A listener could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Binding or listening failed.
    #[error("cannot listen on {address}: {source}{}", advice(address, source))]
    Listen {
        /// Where.
        address: ListenAddress,
        /// Why not.
        source: io::Error,
    },
    /// Copies cannot have their own listeners in that way.
    #[error("{0}")]
    Plan(String),
    /// The kernel cannot steer connections to the copy on their CPU.
    #[error("cannot steer the connections of {address} by CPU: {source}")]
    Steer {
        /// The address of the connections.
        address: ListenAddress,
        /// Why not.
        source: io::Error,
    },
    /// The socket passed by systemd is not usable.
    #[error("inherited descriptor {name}: {reason}")]
    Inherited {
        /// Its name or number.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// What the operator can do about it.
fn advice(address: &ListenAddress, why: &io::Error) -> String {
    match (address, why.kind()) {
        (ListenAddress::Tcp(tcp), io::ErrorKind::AddrInUse) => {
            format!("; `ss -ltnp 'sport = :{}'` shows which process has it", tcp.port())
        }
        (ListenAddress::Tcp(tcp), io::ErrorKind::PermissionDenied) if tcp.port() < 1024 => {
            "; ports below 1024 require root or CAP_NET_BIND_SERVICE".to_owned()
        }
        _ => String::new(),
    }
}

impl ListenError {
    /// The kind of the error.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Self::Listen { source, .. } | Self::Steer { source, .. } => source.kind(),
            Self::Plan(_) | Self::Inherited { .. } => io::ErrorKind::InvalidInput,
        }
    }
}

impl Listener {
    /// Whether connections wait to be accepted. If another orphaned process has stopped the socket, it
    /// stays readable for ever, with a hang-up.
    pub fn has_queue(&self) -> bool {
        poll::wait_for([(self.as_fd(), Interest::READABLE)], Some(0))
            .is_ok_and(|[event]| event.readable && !event.hang_up)
    }

    /// Listens at an address.
    ///
    /// # Errors
    ///
    /// The address is in use, is not one of this machine's, or is not permitted.
    pub fn open(address: &ListenAddress, settings: &Settings) -> Result<Self, ListenError> {
        Self::open_at(address, address, settings, false)
    }

    /// Listens at `address`, for an entry `asked` of the plan, whose port may be 0. If it `joins`, it
    /// shares the address with listeners that allow that; otherwise it has the address exclusively.
    fn open_at(
        asked: &ListenAddress,
        address: &ListenAddress,
        settings: &Settings,
        joins: bool,
    ) -> Result<Self, ListenError> {
        let wrong = |source| ListenError::Listen { address: address.clone(), source };
        let connections = &settings.connections;
        let options = ListenOptions {
            backlog: connections.backlog,
            reuse_port: joins,
            nodelay: connections.nodelay,
            send_buffer: connections.send_buffer,
            defer_accept: connections.defer_accept.map(|time| (time.as_secs() as u32).max(1)),
        };
        let socket = bind(address, &options, &settings.unix_sockets).map_err(wrong)?;
        let address = local_address(&socket).map_err(wrong)?;
        Ok(Self { socket, owner: std::process::id(), asked: Some(asked.clone()), address })
    }

    /// Takes over a socket that the process `owner` opened. That may be this process, when it ran another
    /// program.
    ///
    /// # Errors
    ///
    /// The socket has no address.
    pub fn adopt(socket: OwnedFd, asked: Option<ListenAddress>, owner: u32) -> io::Result<Self> {
        let address = local_address(&socket)?;
        Ok(Self { socket, owner, asked, address })
    }

    /// Whether only this server has the socket. One that was passed to it is still open in the process that
    /// passed it, and perhaps in a successor.
    pub fn is_ours(&self) -> bool {
        self.asked.is_some()
    }

    /// Makes clients that begin to connect try again, so that closing the listener does not reset them; see
    /// [`socket::refuse_new_handshakes`]. Does nothing unless only this server has the socket. Holds for
    /// all processes that have it open, until it is closed.
    pub fn refuse_new_handshakes(&self) {
        // Unix sockets have no handshake.
        if self.is_ours()
            && self.address.is_tcp()
            && let Err(error) = socket::refuse_new_handshakes(self)
        {
            // The manual explains where and why. At the end nothing can be done about it.
            tracing::debug!("clients may be reset when {} is closed: {error}", self.address);
        }
    }

    /// Whether a retiring listener is to be closed. `waited`: it has waited for handshakes under way.
    /// `empty`: its queue is empty. A socket that was passed to this server may never be empty, and the
    /// clients in its queue are not lost with this process.
    pub fn is_over(&self, waited: bool, empty: bool) -> bool {
        if self.is_ours() { waited && empty } else { waited || empty }
    }

    /// Frees the address for a successor, although other processes still have the socket open. Clients in
    /// its queue are reset. A worker whose supervisor is gone calls this when the queue is empty and no new
    /// handshakes are answered. The supervisor calls it after a failed reload that opened the socket.
    pub fn stop_listening(&self) {
        if self.is_ours() {
            // A socket that has stopped already reports that it is not connected.
            let _ = socket::stop_listening(self);
        }
    }

    /// Closes the socket in this process, even if other parts of it still hold the listener. A worker
    /// starts with copies of all that the supervisor holds.
    pub fn close(&self) {
        if let Err(error) = socket::vacate(self) {
            tracing::error!("cannot close the listener {}: {error}", self.address);
        }
    }

    /// Takes over a socket that already listens.
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
        // The process that created a socket file removes it. Workers do not, and systemd keeps its own
        // files.
        if let (Some(_), ListenAddress::Unix(path)) = (&self.asked, &self.address)
            && self.owner == std::process::id()
        {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Opens the listeners of each copy: those passed by systemd if there are any, otherwise those of the
/// settings. Addresses that speak TLS are opened in both cases.
///
/// # Errors
///
/// The first listener that cannot be opened.
pub fn open_all(settings: &Settings) -> Result<Vec<Listeners>, ListenError> {
    let given = sys::inherited::take()
        .map_err(|error| ListenError::Inherited { name: "LISTEN_FDS".into(), reason: error.to_string() })?;
    if given.is_empty() {
        return reopen(&[], settings);
    }
    let given = given.into_iter().map(|given| Listener::inherited(given).map(Arc::new));
    let given = given.collect::<Result<Listeners, _>>()?;
    let copies = settings.copies;
    if shares_addresses(settings.copies_by) {
        // They cannot be opened again, but they can be shared.
        return reopen(&vec![given; copies], settings);
    }
    let dealt = dealt(&given, copies).ok_or_else(|| ListenError::Inherited {
        name: "LISTEN_FDS".into(),
        reason: format!("{} sockets can't be divided evenly among {copies} copies", given.len()),
    })?;
    reopen(&dealt, settings)
}

/// The listeners that changed settings request: those of `current` that go on, and new ones. Inherited
/// sockets go on, and are used instead of all addresses but those that speak TLS.
///
/// # Errors
///
/// A new one cannot be opened. Then nothing has changed.
pub fn reopen(current: &[Listeners], settings: &Settings) -> Result<Vec<Listeners>, ListenError> {
    let is_inherited = |listener: &&Arc<Listener>| listener.asked.is_none();
    let inherited: Vec<_> = current.iter().flatten().filter(is_inherited).collect();
    let of_tls = settings.tls_addresses();
    let is_opened = |asked: &&ListenAddress| {
        inherited.is_empty()
            || of_tls.contains(asked) && !inherited.iter().any(|given| given.address == **asked)
    };
    let plan = settings.addresses_of_copies().map_err(ListenError::Plan)?;
    let mut copies: Vec<Listeners> = Vec::new();
    for (copy, addresses) in plan.iter().enumerate() {
        let given = current.get(copy).into_iter().flatten().filter(is_inherited);
        let mut listeners: Listeners = given.map(Arc::clone).collect();
        for asked in addresses.iter().filter(is_opened) {
            let at = listeners.len();
            // Port 0 may have been requested more than once.
            let goes_on = |old: &&Arc<Listener>| {
                old.asked.as_ref() == Some(asked) && !listeners.iter().any(|taken| Arc::ptr_eq(taken, old))
            };
            let old = current.get(copy).and_then(|old| old.iter().find(goes_on));
            let listener = match (old, copies.first()) {
                (Some(old), _) => Arc::clone(old),
                (None, Some(first)) if shares_addresses(settings.copies_by) => {
                    join(&first[at], asked, settings)?
                }
                (None, _) => Arc::new(Listener::open(asked, settings)?),
            };
            listeners.push(listener);
        }
        copies.push(listeners);
    }
    if settings.copies > 1 && settings.copies_by == CopiesBy::Cpu {
        steer(&copies[0], settings)?;
    }
    Ok(copies)
}

/// Steers connections to the copy on the CPU where they arrive.
fn steer(first: &Listeners, settings: &Settings) -> Result<(), ListenError> {
    let usable = sys::process::allowed_cpus().unwrap_or_default();
    let usable = settings.cpus.as_ref().unwrap_or(&usable);
    let places = placement::copies_by_cpu(settings, usable);
    // What is inherited has no member for each copy.
    let own = |listener: &&Arc<Listener>| listener.asked.is_some() && listener.address.is_tcp();
    for listener in first.iter().filter(own) {
        socket::steer_by_cpu(listener, &places)
            .map_err(|source| ListenError::Steer { address: listener.address.clone(), source })?;
    }
    Ok(())
}

/// Opens another member of the group of `first`. A Unix socket has no groups, so it is shared.
fn join(
    first: &Arc<Listener>,
    asked: &ListenAddress,
    settings: &Settings,
) -> Result<Arc<Listener>, ListenError> {
    match first.address {
        ListenAddress::Tcp(_) => {
            let address = &first.address;
            socket::share_port(first)
                .map_err(|source| ListenError::Listen { address: address.clone(), source })?;
            Listener::open_at(asked, address, settings, true).map(Arc::new)
        }
        ListenAddress::Unix(_) => Ok(Arc::clone(first)),
    }
}

/// Listens at an address. `file` applies to a Unix socket, which uses no option except its backlog.
///
/// # Errors
///
/// The address is in use, is not one of this machine's, or is not permitted, or there is no such user or
/// group.
pub fn bind(
    address: &ListenAddress,
    options: &ListenOptions,
    file: &SocketFileSettings,
) -> io::Result<OwnedFd> {
    let path = match address {
        ListenAddress::Tcp(tcp) => return socket::listen_tcp(*tcp, options),
        ListenAddress::Unix(path) => path,
    };
    let owner = file.owner.as_deref().map(sys::process::user_id).transpose()?;
    let group = file.group.as_deref().map(sys::process::group_id).transpose()?;
    socket::listen_unix(path, SocketFile { mode: file.mode, owner, group }, options.backlog)
}

fn shares_addresses(copies_by: CopiesBy) -> bool {
    matches!(copies_by, CopiesBy::Reuseport | CopiesBy::Cpu)
}

fn local_address(socket: impl AsFd) -> io::Result<ListenAddress> {
    Ok(match socket::local_address(socket)? {
        LocalAddress::Inet(address) => ListenAddress::Tcp(address),
        LocalAddress::Unix(path) => ListenAddress::Unix(path.unwrap_or_default()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_is_told_with_a_way_out() {
        let told = |address: &str, kind: io::ErrorKind| {
            let address = address.parse().expect("an address");
            ListenError::Listen { address, source: kind.into() }.to_string()
        };
        assert!(
            told("0.0.0.0:80", io::ErrorKind::PermissionDenied)
                .ends_with("require root or CAP_NET_BIND_SERVICE")
        );
        assert!(told("[::1]:8080", io::ErrorKind::AddrInUse).contains("'sport = :8080'"));
        for (address, kind) in [
            ("0.0.0.0:8080", io::ErrorKind::PermissionDenied),
            ("unix:/run/x", io::ErrorKind::AddrInUse),
            ("10.0.0.1:80", io::ErrorKind::AddrNotAvailable),
        ] {
            assert!(!told(address, kind).contains(';'));
        }
    }
}
