//! The addresses at both ends of a socket.

use std::ffi::OsStr;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::net::{self, AddressFamily, SocketAddrAny, SocketAddrUnix};

/// The peer of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PeerAddress {
    /// A process on this machine, through a Unix socket.
    Unix,
    /// IPv4 or IPv6, depending on the listener's family.
    Inet(SocketAddr),
}

const _: () = assert!(size_of::<PeerAddress>() <= 32, "it is kept for each connection");

impl PeerAddress {
    pub(crate) fn from_any(address: Option<SocketAddrAny>) -> Self {
        address.and_then(|address| SocketAddr::try_from(address).ok()).map_or(Self::Unix, Self::Inet)
    }
}

impl std::fmt::Display for PeerAddress {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix => formatter.write_str("unix"),
            Self::Inet(address) => address.fmt(formatter),
        }
    }
}

/// The address that a socket is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalAddress {
    /// A Unix socket: its file, if it has one.
    Unix(Option<PathBuf>),
    /// IPv4 or IPv6.
    Inet(SocketAddr),
}

impl std::fmt::Display for LocalAddress {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(Some(path)) => write!(formatter, "unix:{}", path.display()),
            Self::Unix(None) => formatter.write_str("unix:"),
            Self::Inet(address) => address.fmt(formatter),
        }
    }
}

/// The address that the socket is bound to. getsockname(2); `EAFNOSUPPORT` for families other than
/// `AF_UNIX`, `AF_INET` and `AF_INET6`.
pub fn local_address(fd: impl AsFd) -> io::Result<LocalAddress> {
    let address = net::getsockname(fd)?;
    if address.address_family() == AddressFamily::UNIX {
        let address = SocketAddrUnix::try_from(address)?;
        return Ok(LocalAddress::Unix(address.path_bytes().map(|path| OsStr::from_bytes(path).into())));
    }
    Ok(LocalAddress::Inet(SocketAddr::try_from(address)?))
}

/// The address family of an IP address, ip(7) or ipv6(7).
pub(crate) fn family(address: SocketAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}
