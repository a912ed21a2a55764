//! A TCP socket that another process also has: restoring its state, and ending the connection.
//!
//! The processes share the open file (`SCM_RIGHTS`, unix(7)), and with it the status flags, the options
//! and the connection. Closing one descriptor ends nothing while another process has one.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::fs::OFlags;
use rustix::net::{self, Shutdown, sockopt};

use super::option;

/// Restores the state that a socket had before another process had it, as far as a server of connections
/// depends on it. This covers:
///
/// - the status flags (`O_NONBLOCK` as given);
/// - no filter on the socket (`SO_ATTACH_FILTER`);
/// - no data held back (`TCP_CORK`);
/// - `TCP_NODELAY` as given;
/// - readable as soon as there is one byte (`SO_RCVLOWAT`).
///
/// fcntl(2), socket(7), tcp(7). This needs five calls if the flags are right.
///
/// # Errors
///
/// `EPERM`: a filter is locked (`SO_LOCK_FILTER`), which cannot be undone.
pub fn put_back(fd: impl AsFd, nonblocking: bool, nodelay: bool) -> io::Result<()> {
    let fd = fd.as_fd();
    let mut right = OFlags::RDWR;
    right.set(OFlags::NONBLOCK, nonblocking);
    if rustix::fs::fcntl_getfl(fd)? != right {
        rustix::fs::fcntl_setfl(fd, right)?;
    }
    match option::set(fd, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0) {
        Err(error) if error.raw_os_error() != Some(libc::ENOENT) => return Err(error),
        _ => {}
    }
    sockopt::set_tcp_cork(fd, false)?;
    sockopt::set_tcp_nodelay(fd, nodelay)?;
    option::set(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, &1)
}

/// Ends a connection in both directions, even if other processes have its socket. Data already written is
/// still sent. Closing a descriptor afterwards does not wait (`SO_LINGER`). shutdown(2), socket(7).
pub fn shut_down(fd: impl AsFd) -> io::Result<()> {
    sockopt::set_socket_linger(&fd, None)?;
    Ok(net::shutdown(fd, Shutdown::Both)?)
}

/// Resets a connection, even if other processes have its socket. The socket is useless from then on. Data
/// that was written and not sent is discarded. connect(2) to no address (`AF_UNSPEC`).
pub fn disconnect(fd: impl AsFd) -> io::Result<()> {
    let nowhere = libc::sockaddr {
        sa_family: libc::AF_UNSPEC as libc::sa_family_t,
        // SAFETY: an array of integers.
        ..unsafe { std::mem::zeroed() }
    };
    // SAFETY: the pointer and the length are those of a live address, which the kernel only reads.
    let code = unsafe {
        libc::connect(
            fd.as_fd().as_raw_fd(),
            &raw const nowhere,
            size_of::<libc::sockaddr>() as libc::socklen_t,
        )
    };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::time::Duration;

    use super::*;
    use crate::socket::filter::{lock_filter, refuse_new_handshakes};
    use crate::socket::tests::connection;
    use crate::socket::{is_broken, send, set_nonblocking};

    #[test]
    fn flags_and_options_are_put_back() {
        let (socket, mut client) = connection();
        let copy = socket.try_clone().unwrap();
        for nonblocking in [true, false] {
            for nodelay in [true, false] {
                set_nonblocking(&copy, !nonblocking).unwrap();
                sockopt::set_tcp_nodelay(&copy, !nodelay).unwrap();
                sockopt::set_tcp_cork(&copy, true).unwrap();
                option::set(&copy, libc::SOL_SOCKET, libc::SO_RCVLOWAT, &1000).unwrap();
                refuse_new_handshakes(&copy).unwrap();
                put_back(&socket, nonblocking, nodelay).unwrap();
                let flags = rustix::fs::fcntl_getfl(&socket).unwrap();
                assert_eq!(flags.contains(OFlags::NONBLOCK), nonblocking);
                assert_eq!(sockopt::tcp_nodelay(&socket).unwrap(), nodelay);
                assert!(!sockopt::tcp_cork(&socket).unwrap());
                // SAFETY: an integer.
                let low: i32 = unsafe { option::get(&socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT) }.unwrap();
                assert_eq!(low, 1);
                put_back(&socket, nonblocking, nodelay).expect("there is nothing to put back");
            }
        }
        lock_filter(&copy).unwrap();
        let error = put_back(&socket, true, true).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EPERM));
        send(&socket, b"x").unwrap();
        client.read_exact(&mut [0]).unwrap();
    }

    #[test]
    fn ends_reach_the_client_although_somebody_has_a_copy() {
        let (socket, mut client) = connection();
        let copy = socket.try_clone().unwrap();
        sockopt::set_socket_linger(&copy, Some(Duration::from_secs(3))).unwrap();
        send(&socket, b"all").unwrap();
        shut_down(&socket).unwrap();
        assert_eq!(sockopt::socket_linger(&socket).unwrap(), None);
        drop(socket);
        let mut received = Vec::new();
        client.read_to_end(&mut received).unwrap();
        assert_eq!(received, b"all");
        assert_eq!(send(&copy, b"x").unwrap_err().kind(), io::ErrorKind::BrokenPipe);

        let (socket, mut client) = connection();
        let copy = socket.try_clone().unwrap();
        send(&socket, b"part").unwrap();
        disconnect(&socket).unwrap();
        assert!(is_broken(&copy));
        let error = client.read_to_end(&mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        for kind in [io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe] {
            assert_eq!(send(&copy, b"x").unwrap_err().kind(), kind);
        }
        client.write_all(b"x").unwrap_err();
    }
}
