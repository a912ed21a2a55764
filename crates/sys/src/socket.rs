//! Sockets: listening, accepting, receiving, sending and ending.
//!
//! All sockets created here are closed on exec. They are non-blocking, except those of
//! [`accept_blocking_from`]. Calls that find nothing to do return
//! [`WouldBlock`](std::io::ErrorKind::WouldBlock). No call is retried here.

mod accept;
mod address;
mod ending;
mod filter;
mod lent;
mod listen;
pub(crate) mod option;
mod passing;
mod transfer;
mod unix;
mod zero_copy;

pub use accept::{accept, accept_blocking_from, accept_from, is_exhaustion};
pub(crate) use address::family;
pub use address::{LocalAddress, PeerAddress, local_address};
pub use ending::{has_hung_up, is_broken, reset, reset_when_closed, shutdown_write, vacate};
pub use filter::{lock_filter, refuse_new_handshakes, steer_by_cpu};
pub use lent::{disconnect, put_back, shut_down};
pub use listen::{
    ListenOptions, check_tcp, is_listening, listen_tcp, set_backlog, share_port, stop_listening,
};
pub use passing::{MOST_PASSED, recv_with, recv_with_waiting, recv_without, send_with};
pub use transfer::{
    Slice, recv, recv_behind, recv_waiting, recv_waiting_behind, send, send_at_once, send_file, send_more,
    send_more_at_once, send_slices, send_slices_at_once, send_without_delay, set_cork, set_nonblocking,
    write_vectored,
};
pub use unix::{SocketFile, check_connect, check_unix, listen_unix, listen_with_client};
pub use zero_copy::{Uncopied, has_zero_copy, segment, send_uncopied, set_zero_copy};

use rustix::net::SocketFlags;

const NEW: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::{SocketAddr, TcpStream};
    use std::os::fd::OwnedFd;

    use rustix::net::{self, SocketType, sockopt};

    use super::*;
    use crate::epoll::Epoll;
    use crate::event::{Events, Interest};

    /// A file that belongs to the process that creates the socket.
    pub(super) const OWN: SocketFile = SocketFile { mode: 0o600, owner: None, group: None };

    pub(super) fn listen(options: ListenOptions) -> (OwnedFd, SocketAddr) {
        listen_at("127.0.0.1:0", options)
    }

    pub(super) fn listen_at(address: &str, options: ListenOptions) -> (OwnedFd, SocketAddr) {
        let listener = listen_tcp(address.parse().unwrap(), &options).unwrap();
        let LocalAddress::Inet(address) = local_address(&listener).unwrap() else {
            unreachable!("asked for TCP")
        };
        (listener, address)
    }

    /// Both ends of a TCP connection: accepted, client.
    pub(super) fn connection() -> (OwnedFd, TcpStream) {
        let (listener, address) = listen(ListenOptions::default());
        let client = TcpStream::connect(address).unwrap();
        (accept(&listener).unwrap(), client)
    }

    /// Begins to connect to `address`, and does not wait for the result.
    pub(super) fn begin_connecting(address: SocketAddr) -> OwnedFd {
        let client = net::socket_with(family(address), SocketType::STREAM, NEW, None).unwrap();
        assert_eq!(net::connect(&client, &address), Err(rustix::io::Errno::INPROGRESS));
        client
    }

    pub(super) fn is_connected(client: &OwnedFd, within_ms: u32) -> bool {
        let epoll = Epoll::new().unwrap();
        epoll.add(client, 0, Interest::WRITABLE).unwrap();
        let count = epoll.wait(&mut Events::default(), Some(within_ms)).unwrap();
        count == 1 && sockopt::socket_error(client).unwrap().is_ok()
    }

    pub(super) fn would_block<T: std::fmt::Debug>(result: io::Result<T>) -> bool {
        result.unwrap_err().kind() == io::ErrorKind::WouldBlock
    }
}
