//! How connections end: in one direction, by a reset, or while the descriptor is still held.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{self, Shutdown, sockopt};

/// Shuts down the sending direction. The buffer is still sent, and then the peer receives the end.
/// shutdown(2), `SHUT_WR`.
pub fn shutdown_write(fd: impl AsFd) -> io::Result<()> {
    Ok(net::shutdown(fd, Shutdown::Write)?)
}

/// Whether a connection has ended in both directions, so that nothing can be sent on it. A peer that has
/// only shut down its own direction is still there. poll(2), `POLLERR` and `POLLHUP`.
pub fn is_broken(fd: impl AsFd) -> bool {
    !state(fd, PollFlags::empty()).is_empty()
}

/// Whether the peer has signalled that it sends nothing more. The peer may have shut down only its own
/// direction, or it may be gone: both look the same. What it sent before may still be unread. poll(2),
/// `POLLRDHUP`.
///
/// `POLLERR` alone says nothing about the peer. It also announces notices about data that was sent
/// without a copy (`MSG_ZEROCOPY`). A connection that ended with an error has also hung up.
pub fn has_hung_up(fd: impl AsFd) -> bool {
    state(fd, PollFlags::RDHUP).intersects(PollFlags::RDHUP.union(PollFlags::HUP))
}

/// Closes a connection with a reset. Unsent data is discarded. The peer gets an error instead of an end
/// of input, which could be mistaken for the end of a reply. `SO_LINGER` of 0 seconds, socket(7).
pub fn reset(fd: OwnedFd) -> io::Result<()> {
    let result = reset_when_closed(&fd);
    drop(fd);
    result
}

/// Makes the connection close with a [reset], whenever its last descriptor is closed, including by the
/// end of the process.
pub fn reset_when_closed(fd: impl AsFd) -> io::Result<()> {
    Ok(sockopt::set_socket_linger(fd, Some(Duration::ZERO))?)
}

/// Closes a socket in this process even if other code still holds its descriptor. That descriptor is at
/// end of file from then on.
///
/// This is for a socket that came with a fork. What the parent held is still held in the child, where no
/// code will drop it.
pub fn vacate(fd: impl AsFd) -> io::Result<()> {
    crate::file::replace(fd, std::fs::File::open("/dev/null")?)
}

/// Which of these states apply now, and whether there is an error or the end in both directions.
fn state(fd: impl AsFd, states: PollFlags) -> PollFlags {
    let mut polled = [PollFd::new(&fd, states)];
    // A failed call says nothing about the connection.
    match rustix::event::poll(&mut polled, Some(&Timespec::default())) {
        Ok(_) => polled[0].revents(),
        Err(_) => PollFlags::empty(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::socket::tests::connection;
    use crate::socket::{send, set_zero_copy};

    #[test]
    fn a_notice_of_what_was_sent_is_no_hang_up() {
        static BYTES: [u8; 10_000] = [b'x'; 10_000];
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        set_zero_copy(&server, true).unwrap();
        let flags = net::SendFlags::from_bits_retain(libc::MSG_ZEROCOPY.cast_unsigned());
        assert_eq!(net::send(&server, &BYTES, flags).unwrap(), 10_000);
        client.read_exact(&mut [0; 10_000]).unwrap();
        let is_told = || state(&server, PollFlags::empty()).contains(PollFlags::ERR);
        let waits = || {
            (0..5_000).any(|_| {
                is_told() || {
                    std::thread::sleep(Duration::from_millis(1));
                    false
                }
            })
        };
        assert!(waits());
        assert!(!has_hung_up(&server));
        drop(client);
        assert!(has_hung_up(&server));
    }

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
