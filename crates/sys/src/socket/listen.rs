//! Listening on TCP, and stopping.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{self, Shutdown, SocketType, sockopt};

use super::address::family;
use super::{NEW, option};

/// How a TCP socket listens. Options are set before listening. Accepted sockets inherit the buffers and
/// `nodelay` from the listener without an additional call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenOptions {
    /// How many established connections may wait to be accepted. The kernel limits this to
    /// net.core.somaxconn. listen(2).
    pub backlog: u32,
    /// The socket joins sockets of the same user that already listen at the same address and allow it
    /// ([`share_port`]). The kernel distributes connections over them (`SO_REUSEPORT`, socket(7)).
    pub reuse_port: bool,
    /// Small segments are sent at once (`TCP_NODELAY`, tcp(7)).
    pub nodelay: bool,
    /// A fixed send buffer in bytes, which the kernel doubles for its own use (`SO_SNDBUF`, socket(7)).
    /// Otherwise the buffer grows as needed.
    pub send_buffer: Option<u32>,
    /// A connection enters the accept queue when data has arrived, or after about this many seconds
    /// (`TCP_DEFER_ACCEPT`, tcp(7)).
    pub defer_accept: Option<u32>,
}

impl Default for ListenOptions {
    /// A backlog of 4,096, and `nodelay`. All other options are off.
    fn default() -> Self {
        Self { backlog: 4_096, reuse_port: false, nodelay: true, send_buffer: None, defer_accept: None }
    }
}

/// A TCP socket that listens at `address`. With port 0, the kernel chooses the port. `SO_REUSEADDR` is
/// set, so that connections of an earlier process in TIME-WAIT do not prevent it. An IPv6 socket accepts
/// no IPv4 connections (`IPV6_V6ONLY`, ipv6(7)). socket(2), bind(2), listen(2).
pub fn listen_tcp(address: SocketAddr, options: &ListenOptions) -> io::Result<OwnedFd> {
    let socket = unbound(address)?;
    if options.reuse_port {
        sockopt::set_socket_reuseport(&socket, true)?;
    }
    if options.nodelay {
        sockopt::set_tcp_nodelay(&socket, true)?;
    }
    if let Some(bytes) = options.send_buffer {
        sockopt::set_socket_send_buffer_size(&socket, bytes as usize)?;
    }
    if let Some(seconds) = options.defer_accept {
        option::set(&socket, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, &(seconds as libc::c_int))?;
    }
    net::bind(&socket, &address)?;
    net::listen(&socket, backlog(options.backlog))?;
    Ok(socket)
}

/// Whether [`listen_tcp`] could bind the address. It is bound for a moment, without listening.
///
/// # Errors
///
/// Those of bind(2).
pub fn check_tcp(address: SocketAddr) -> io::Result<()> {
    Ok(net::bind(unbound(address)?, &address)?)
}

/// Lets other sockets of the same user listen at the address of a listening socket, with
/// [`ListenOptions::reuse_port`].
///
/// Call this on the first socket, after it listens. A socket opened with `reuse_port` joins every socket
/// that has the address and allows it, even one of another program. A socket that allows others only
/// after it listens has had the address to itself until then. `SO_REUSEPORT`, socket(7).
pub fn share_port(listener: impl AsFd) -> io::Result<()> {
    Ok(sockopt::set_socket_reuseport(listener, true)?)
}

/// Whether the socket listens (`SO_ACCEPTCONN`, socket(7)); `ENOTSOCK` if it is not a socket.
pub fn is_listening(fd: impl AsFd) -> io::Result<bool> {
    Ok(sockopt::socket_acceptconn(fd)?)
}

/// Sets how many connections may wait to be accepted on a listening socket, from now on. listen(2).
pub fn set_backlog(listener: impl AsFd, connections: u32) -> io::Result<()> {
    Ok(net::listen(listener, backlog(connections))?)
}

/// Makes a socket stop listening, even if other processes have it open. Its address becomes free for
/// other sockets. Until one listens there, new clients are refused. Clients in the accept queue are
/// reset. shutdown(2).
pub fn stop_listening(listener: impl AsFd) -> io::Result<()> {
    Ok(net::shutdown(listener, Shutdown::Read)?)
}

/// A TCP socket for this address, not yet bound.
fn unbound(address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = net::socket_with(family(address), SocketType::STREAM, NEW, Some(net::ipproto::TCP))?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    Ok(socket)
}

pub(super) fn backlog(backlog: u32) -> i32 {
    i32::try_from(backlog).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;
    use crate::socket::tests::{OWN, begin_connecting, connection, is_connected, listen, listen_at};
    use crate::socket::{LocalAddress, accept, listen_unix, local_address};

    #[test]
    fn accepted_sockets_inherit_the_listeners_options() {
        let fixed = ListenOptions { send_buffer: Some(100_000), nodelay: true, ..ListenOptions::default() };
        let left = ListenOptions { nodelay: false, ..ListenOptions::default() };
        for (options, nodelay) in [(fixed, true), (left, false)] {
            let (listener, address) = listen(options);
            let _client = TcpStream::connect(address).unwrap();
            let accepted = accept(&listener).unwrap();
            assert_eq!(sockopt::tcp_nodelay(&accepted).unwrap(), nodelay);
            if let Some(bytes) = options.send_buffer {
                assert_eq!(sockopt::socket_send_buffer_size(&accepted).unwrap(), 2 * bytes as usize);
            }
            let flags = rustix::fs::fcntl_getfl(&accepted).unwrap();
            assert!(flags.contains(rustix::fs::OFlags::NONBLOCK));
            assert_eq!(rustix::io::fcntl_getfd(&accepted).unwrap(), rustix::io::FdFlags::CLOEXEC);
        }
    }

    #[test]
    fn an_ipv6_listener_takes_no_ipv4() {
        let (_listener, address) = listen_at("[::]:0", ListenOptions::default());
        let refused = TcpStream::connect(("127.0.0.1", address.port())).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        TcpStream::connect(("::1", address.port())).unwrap();
    }

    #[test]
    fn several_listen_at_one_port_if_told() {
        let alone = ListenOptions::default();
        let joins = ListenOptions { reuse_port: true, ..alone };
        let (first, address) = listen(alone);
        let is_refused =
            |options| listen_tcp(address, options).unwrap_err().kind() == io::ErrorKind::AddrInUse;
        assert!(is_refused(&joins) && is_refused(&alone));
        assert_eq!(check_tcp(address).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        share_port(&first).unwrap();
        let second = listen_tcp(address, &joins).unwrap();
        assert!(is_refused(&alone));
        let clients: Vec<_> = (0..64).map(|_| TcpStream::connect(address).unwrap()).collect();
        let accepted = |listener: &OwnedFd| std::iter::from_fn(|| accept(listener).ok()).count();
        let both = [accepted(&first), accepted(&second)];
        assert_eq!(both.iter().sum::<usize>(), clients.len());
        assert!(!both.contains(&0), "connections go to both: {both:?}");
    }

    #[test]
    fn tells_listeners_from_other_descriptors() {
        let (accepted, _client) = connection();
        let (listener, _) = listen(ListenOptions::default());
        assert!(is_listening(&listener).unwrap());
        assert!(!is_listening(&accepted).unwrap());
        let file = tempfile::tempfile().unwrap();
        assert_eq!(is_listening(&file).unwrap_err().raw_os_error(), Some(libc::ENOTSOCK));
        let (unnamed, _) = UnixStream::pair().unwrap();
        assert_eq!(local_address(&unnamed).unwrap(), LocalAddress::Unix(None));
        let _std_listener: UnixListener = UnixListener::from(listener);
    }

    #[test]
    fn what_listens_no_more_leaves_its_address_to_others() {
        let (listener, address) = listen(ListenOptions::default());
        let held_elsewhere = listener.try_clone().unwrap();
        stop_listening(&listener).unwrap();
        assert!(!is_connected(&begin_connecting(address), 200));
        let successor = listen_tcp(address, &ListenOptions::default()).unwrap();
        TcpStream::connect(address).unwrap();
        assert!(accept(&successor).is_ok());
        drop((listener, held_elsewhere));

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = listen_unix(&path, OWN, 8).unwrap();
        stop_listening(&listener).unwrap();
        let _successor = listen_unix(&path, OWN, 8).expect("nobody listens there");
        UnixStream::connect(&path).unwrap();
    }
}
