//! The client's end of TCP and Unix sockets: connecting, optionally from a chosen address, and receiving
//! bytes without keeping them.
//!
//! Sockets created here are non-blocking and closed on exec.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::ptr;

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use crate::socket::{family, option};

/// Begins to connect to `target`, from `source` if given. Returns whether the connection is already
/// established. If not, wait until the socket is writable, then call [`outcome`].
///
/// With a source, the kernel chooses the port once it knows the target (`IP_BIND_ADDRESS_NO_PORT`,
/// ip(7)), so one port can serve connections to several targets. Small requests are sent at once
/// (`TCP_NODELAY`, tcp(7)).
///
/// # Errors
///
/// `EMFILE`, `ENFILE`: no descriptor; `EADDRNOTAVAIL`: no free port, or no such source address;
/// `ECONNREFUSED` and network errors, if they are known at once. socket(2), connect(2).
pub fn connect(source: Option<IpAddr>, target: SocketAddr) -> io::Result<(OwnedFd, bool)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = net::socket_with(family(target), SocketType::STREAM, flags, None)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    if let Some(source) = source {
        let on: libc::c_int = 1;
        option::set(&socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, &on)?;
        net::bind(&socket, &SocketAddr::new(source, 0))?;
    }
    match net::connect(&socket, &target) {
        Ok(()) => Ok((socket, true)),
        Err(Errno::INPROGRESS) => Ok((socket, false)),
        Err(error) => Err(error.into()),
    }
}

/// Connects to the Unix socket at this path, immediately or not at all.
///
/// # Errors
///
/// `EAGAIN`: its queue is full, and there is no notification when that changes; `ECONNREFUSED`: no
/// process listens there; `ENOENT`, `EACCES`, `ENAMETOOLONG` for the path; `EMFILE`, `ENFILE`: no
/// descriptor. unix(7), connect(2).
pub fn connect_unix(path: &Path) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// The result of [`connect`], once the socket is writable: success, or the error. `SO_ERROR`, socket(7).
pub fn outcome(socket: impl AsFd) -> io::Result<()> {
    sockopt::socket_error(socket)?.map_err(io::Error::from)
}

/// Receives up to `count` bytes and drops them inside the kernel. 0 means that the peer has sent
/// everything. recv(2) with `MSG_TRUNC`, tcp(7).
#[inline]
pub fn discard(socket: impl AsFd, count: usize) -> io::Result<usize> {
    let descriptor = socket.as_fd().as_raw_fd();
    // SAFETY: with MSG_TRUNC, TCP drops the bytes instead of writing them anywhere: no buffer is needed.
    let dropped = unsafe { libc::recv(descriptor, ptr::null_mut(), count, libc::MSG_TRUNC) };
    usize::try_from(dropped).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{Ipv4Addr, TcpListener};
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::epoll::Epoll;
    use crate::event::{Events, Interest};
    use crate::socket;

    fn await_connection(socket: &OwnedFd) -> io::Result<()> {
        let (epoll, mut events) = (Epoll::new().unwrap(), Events::default());
        epoll.add(socket, 0, Interest::WRITABLE).unwrap();
        epoll.wait(&mut events, Some(5_000)).unwrap();
        outcome(socket)
    }

    #[test]
    fn connects_from_the_address_that_is_asked_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = listener.local_addr().unwrap();
        let source = Ipv4Addr::new(127, 0, 7, 7);
        let (socket, up) = connect(Some(source.into()), target).unwrap();
        assert!(up || await_connection(&socket).is_ok());
        let (_, peer) = listener.accept().unwrap();
        assert_eq!(peer.ip(), source);
        assert_ne!(peer.port(), 0);
    }

    #[test]
    fn a_refusal_is_told() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = match connect(None, free) {
            Ok((socket, _)) => await_connection(&socket).unwrap_err(),
            Err(error) => error,
        };
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        let nowhere = connect(Some(Ipv4Addr::new(192, 0, 2, 1).into()), free).unwrap_err();
        assert_eq!(nowhere.kind(), io::ErrorKind::AddrNotAvailable);
    }

    #[test]
    fn unix_sockets_are_connected_at_once_or_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let refused = |path| connect_unix(path).unwrap_err().kind();
        assert_eq!(refused(&path), io::ErrorKind::NotFound);
        let listener = UnixListener::bind(&path).unwrap();
        let socket = connect_unix(&path).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        peer.write_all(b"hello").unwrap();
        let mut room = [0; 10];
        assert_eq!(socket::recv(&socket, &mut room).unwrap(), 5);
        assert_eq!(socket::recv(&socket, &mut room).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        rustix::net::listen(&listener, 0).unwrap();
        let waiting = connect_unix(&path).unwrap();
        assert_eq!(refused(&path), io::ErrorKind::WouldBlock, "its queue has room for one");
        drop((listener, waiting));
        assert_eq!(refused(&path), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn drops_as_many_bytes_as_there_are_and_no_more() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (socket, up) = connect(None, listener.local_addr().unwrap()).unwrap();
        assert!(up || await_connection(&socket).is_ok());
        let (mut peer, _) = listener.accept().unwrap();
        assert_eq!(discard(&socket, 10).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        peer.write_all(b"dropped, kept").unwrap();
        while rustix::io::ioctl_fionread(&socket).unwrap() < 13 {
            std::thread::yield_now();
        }
        assert_eq!(discard(&socket, 9).unwrap(), 9);
        let mut rest = [0; 100];
        let count = socket::recv(&socket, &mut rest).unwrap();
        assert_eq!(&rest[..count], b"kept");
        drop(peer);
        while discard(&socket, 100).is_err() {
            std::thread::yield_now();
        }
        assert_eq!(discard(&socket, 100).unwrap(), 0);
    }
}
