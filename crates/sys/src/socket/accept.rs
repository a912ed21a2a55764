//! Taking connections out of the accept queue.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{self, SocketFlags};

use super::{NEW, PeerAddress};

/// Whether an error of [`accept`] means that descriptors or memory ran out, in this process or in the
/// whole system. Then trying again at once is useless. accept(2), "Errors".
pub fn is_exhaustion(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

/// Takes the first connection from the accept queue. accept4(2).
///
/// Besides `WouldBlock`: `EMFILE`, `ENFILE`, `ENOBUFS`, `ENOMEM` leave the connection in the queue.
/// `ECONNABORTED` and network errors are about a connection that is gone.
#[inline]
pub fn accept(listener: impl AsFd) -> io::Result<OwnedFd> {
    Ok(net::accept_with(listener, NEW)?)
}

/// Takes the first connection from the accept queue, with its peer's address. accept4(2); errors as for
/// [`accept`].
#[inline]
pub fn accept_from(listener: impl AsFd) -> io::Result<(OwnedFd, PeerAddress)> {
    let (socket, address) = net::acceptfrom_with(listener, NEW)?;
    Ok((socket, PeerAddress::from_any(address)))
}

/// Takes the first connection from the accept queue, with its peer's address. Sends on the accepted
/// socket block while its buffer is full. accept4(2) without `SOCK_NONBLOCK`; errors as for [`accept`].
#[inline]
pub fn accept_blocking_from(listener: impl AsFd) -> io::Result<(OwnedFd, PeerAddress)> {
    let (socket, address) = net::acceptfrom_with(listener, SocketFlags::CLOEXEC)?;
    Ok((socket, PeerAddress::from_any(address)))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpStream;
    use std::thread::sleep;
    use std::time::Duration;

    use super::*;
    use crate::socket::tests::{listen, would_block};
    use crate::socket::{ListenOptions, recv};

    #[test]
    fn accepts_in_order_and_says_who_it_is() {
        let (listener, address) = listen(ListenOptions::default());
        assert!(would_block(accept(&listener)));
        let first = TcpStream::connect(address).unwrap();
        let second = TcpStream::connect(address).unwrap();
        for client in [&first, &second] {
            let (_, peer) = accept_from(&listener).unwrap();
            assert_eq!(peer, PeerAddress::Inet(client.local_addr().unwrap()));
            assert_eq!(peer.to_string(), client.local_addr().unwrap().to_string());
        }
        assert!(would_block(accept_from(&listener)));
    }

    #[test]
    fn a_deferred_connection_is_accepted_when_data_came() {
        let (listener, address) = listen(ListenOptions { defer_accept: Some(5), ..Default::default() });
        let mut client = TcpStream::connect(address).unwrap();
        sleep(Duration::from_millis(20));
        assert!(would_block(accept(&listener)));
        client.write_all(b"x").unwrap();
        let accepted = accept(&listener).unwrap();
        assert_eq!(recv(&accepted, &mut [0; 8]).unwrap(), 1);
    }
}
