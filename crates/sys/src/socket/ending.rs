//! How connections end: in one direction, by a reset, or with the descriptor still held.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{self, Shutdown, sockopt};

/// Sends no more; what is in the buffer still goes out, then the peer sees the end. shutdown(2), `SHUT_WR`.
pub fn shutdown_write(fd: impl AsFd) -> io::Result<()> {
    Ok(net::shutdown(fd, Shutdown::Write)?)
}

/// Whether a connection is gone in both directions, so that nothing can be sent on it any more; a peer that
/// has only shut down its own side is still there. poll(2), `POLLERR` and `POLLHUP`.
pub fn is_broken(fd: impl AsFd) -> bool {
    is_now(fd, PollFlags::empty())
}

/// Whether the peer has said that it sends no more, be it that it only shut down its own side, or that it is
/// gone, which can't be told apart; what it sent before may be unread. poll(2), `POLLRDHUP`.
pub fn has_hung_up(fd: impl AsFd) -> bool {
    is_now(fd, PollFlags::RDHUP)
}

/// Closes a connection with a reset: unsent data is thrown away and the peer gets an error rather than an end
/// of input that could be taken for the end of a reply. `SO_LINGER` of 0 seconds, socket(7).
pub fn reset(fd: OwnedFd) -> io::Result<()> {
    let result = sockopt::set_socket_linger(&fd, Some(Duration::ZERO));
    drop(fd);
    Ok(result?)
}

/// Closes a socket in this process although somebody may still hold its descriptor, which is at end of file
/// from here on.
///
/// For one that came with a fork: what the parent held is still held in the child, where nobody will drop it.
pub fn vacate(fd: impl AsFd) -> io::Result<()> {
    crate::file::replace(fd, std::fs::File::open("/dev/null")?)
}

/// Whether one of these states, an error, or the end in both directions is there now.
fn is_now(fd: impl AsFd, states: PollFlags) -> bool {
    let mut polled = [PollFd::new(&fd, states)];
    // A failed call says nothing about the connection.
    rustix::event::poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::socket::send;
    use crate::socket::tests::connection;

    #[test]
    fn a_half_closed_connection_is_not_broken() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        assert!(!is_broken(&server));
        client.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(std::io::Read::read(&mut &server, &mut [0]).unwrap(), 0);
        assert!(!is_broken(&server));
        reset(client.into()).unwrap();
        assert!(is_broken(&server));
        let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(!is_broken(&near));
        drop(far);
        assert!(is_broken(&near));
    }

    #[test]
    fn a_reset_is_an_error_to_the_peer_and_a_close_is_not() {
        let (accepted, mut client) = connection();
        send(&accepted, b"part").unwrap();
        reset(accepted).unwrap();
        let error = client.read_to_end(&mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);

        let (accepted, mut client) = connection();
        send(&accepted, b"part").unwrap();
        drop(accepted);
        assert_eq!(client.read_to_end(&mut Vec::new()).unwrap(), 4);
    }
}
