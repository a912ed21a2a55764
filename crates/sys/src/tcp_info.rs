//! What the kernel reports about a TCP socket (`TCP_INFO`, tcp(7)).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use crate::socket::option;

/// `TCP_LISTEN` in the kernel's `net/tcp_states.h`.
const LISTEN: u8 = 10;

/// The accept queue of a listening socket: established connections that wait to be accepted. listen(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptQueue {
    /// Connections that wait now.
    pub length: u32,
    /// How many connections the kernel lets wait: the smaller of the backlog and net.core.somaxconn. The
    /// kernel's comparison allows one more.
    pub limit: u32,
}

/// The accept queue of a listening TCP socket. `EINVAL` if the socket does not listen, `ENOPROTOOPT` or
/// `EOPNOTSUPP` if it is not a TCP socket.
///
/// A listener's `TCP_INFO` has the length in `tcpi_unacked` and the limit in `tcpi_sacked`
/// (`tcp_get_info` in the kernel's `net/ipv4/tcp.c`).
pub fn accept_queue(listener: impl AsFd) -> io::Result<AcceptQueue> {
    let info = tcp_info(listener)?;
    if info.tcpi_state != LISTEN {
        return Err(rustix::io::Errno::INVAL.into());
    }
    Ok(AcceptQueue { length: info.tcpi_unacked, limit: info.tcpi_sacked })
}

/// Milliseconds since the last segment arrived on a TCP connection. The client of a connection just accepted
/// was last heard from at most this long ago. So the connection has waited in the accept queue for at least
/// this long, to the precision of the kernel's timer tick.
///
/// This is the larger of `tcpi_last_data_recv` and `tcpi_last_ack_recv`. If a client sends its request at
/// once, the data arrives at most one round trip after its handshake.
pub fn waited_ms(accepted: impl AsFd) -> io::Result<u32> {
    let info = tcp_info(accepted)?;
    Ok(info.tcpi_last_data_recv.max(info.tcpi_last_ack_recv))
}

/// Bytes that were sent and, as far as is known, have not reached the peer: `SIOCOUTQ`, tcp(7). For a
/// Unix socket: the memory taken by what the peer has not read.
pub fn send_queue(socket: impl AsFd) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes an int, which lives through the call.
    if unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(bytes.max(0).cast_unsigned())
}

/// How much of the data written to a TCP socket has arrived, whichever process wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that the peer has acknowledged since the connection was established.
    pub acknowledged: u64,
    /// Bytes that it has not acknowledged.
    pub queued: u32,
}

impl Progress {
    /// Bytes written since the connection was established. Bytes acknowledged between the two calls are
    /// counted twice: in that case, read it again.
    pub fn written(self) -> u64 {
        self.acknowledged + u64::from(self.queued)
    }
}

/// The current progress. `SIOCOUTQ` and `tcpi_bytes_acked`, tcp(7): two calls.
pub fn progress(socket: impl AsFd) -> io::Result<Progress> {
    let queued = send_queue(&socket)?;
    let info = tcp_info(socket)?;
    Ok(Progress { acknowledged: info.tcpi_bytes_acked, queued })
}

/// Packets that the kernel has dropped at this socket, for any reason; wraps at 2^32. `SO_MEMINFO` (the
/// kernel's `sk_drops`).
///
/// A listening socket counts more than `ListenDrops` does. The last packet of a handshake counts twice if
/// the accept queue has no room for it. Each packet that does not advance a half-open connection, such as
/// a repeated SYN, counts once.
pub fn dropped(socket: impl AsFd) -> io::Result<u32> {
    // The number of entries is `SK_MEMINFO_VARS` in `linux/sock_diag.h`; the last is `SK_MEMINFO_DROPS`.
    // SAFETY: integers.
    let figures: [u32; 9] = unsafe { option::get(socket, libc::SOL_SOCKET, libc::SO_MEMINFO) }?;
    Ok(figures[8])
}

fn tcp_info(socket: impl AsFd) -> io::Result<libc::tcp_info> {
    // SAFETY: the structure consists of integers.
    unsafe { option::get(socket, libc::IPPROTO_TCP, libc::TCP_INFO) }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};
    use std::thread::sleep;
    use std::time::Duration;

    use super::*;
    use crate::socket::{ListenOptions, LocalAddress, accept, listen_tcp, local_address};

    fn listener(backlog: u32) -> (std::os::fd::OwnedFd, SocketAddr) {
        let options = ListenOptions { backlog, ..ListenOptions::default() };
        let listener = listen_tcp("127.0.0.1:0".parse().unwrap(), &options).unwrap();
        match local_address(&listener).unwrap() {
            LocalAddress::Inet(address) => (listener, address),
            LocalAddress::Unix(_) => unreachable!("a TCP socket was asked for"),
        }
    }

    #[test]
    fn counts_the_connections_that_wait() {
        let (listener, address) = listener(5);
        assert_eq!(accept_queue(&listener).unwrap(), AcceptQueue { length: 0, limit: 5 });
        let _clients: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
        assert_eq!(accept_queue(&listener).unwrap(), AcceptQueue { length: 3, limit: 5 });
        let _accepted = accept(&listener).unwrap();
        assert_eq!(accept_queue(&listener).unwrap().length, 2);
    }

    #[test]
    fn what_was_written_is_known_whether_it_has_arrived_or_not() {
        let (listener, address) = listener(5);
        let client = TcpStream::connect(address).unwrap();
        let socket = accept(&listener).unwrap();
        let before = progress(&socket).unwrap();
        assert_eq!(before.queued, 0);
        let block = vec![1; 1 << 20];
        let mut sent = 0;
        while let Ok(n) = crate::socket::send(&socket, &block) {
            sent += n as u64;
        }
        let full = progress(&socket).unwrap();
        assert!(full.queued > 0, "the client takes nothing");
        assert!((0..100).any(|_| progress(&socket).unwrap().written() - before.written() == sent));
        let mut taken = vec![0; sent as usize];
        (&client).read_exact(&mut taken).unwrap();
        while progress(&socket).unwrap().queued > 0 {
            sleep(Duration::from_millis(1));
        }
        let after = progress(&socket).unwrap();
        assert_eq!(
            (after.acknowledged - before.acknowledged, after.written() - before.written()),
            (sent, sent)
        );
    }

    #[test]
    fn only_listening_tcp_sockets_have_an_accept_queue() {
        let (listener, address) = listener(1);
        let client = TcpStream::connect(address).unwrap();
        assert_eq!(accept_queue(&client).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        drop(listener);
        let (unix, _) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(accept_queue(&unix).unwrap_err().raw_os_error(), Some(libc::EOPNOTSUPP));
    }

    #[test]
    fn what_the_client_has_not_taken_is_in_the_queue() {
        let (listener, address) = listener(1);
        let mut client = TcpStream::connect(address).unwrap();
        let mut server = TcpStream::from(accept(&listener).unwrap());
        assert_eq!(send_queue(&server).unwrap(), 0);
        server.set_nonblocking(true).unwrap();
        let mut sent = 0;
        while let Ok(count) = server.write(&[b'x'; 4096]) {
            sent += count as u64;
        }
        let kept = u64::from(send_queue(&server).unwrap());
        assert!(kept > 0 && kept < sent, "{kept} of {sent}");
        std::io::copy(&mut (&mut client).take(sent), &mut std::io::sink()).unwrap();
        while send_queue(&server).unwrap() > 0 {
            sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn drops_of_a_socket_are_its_own() {
        let (full, address) = listener(1);
        let (other, _) = listener(1);
        assert_eq!(dropped(&full).unwrap(), 0);
        let _clients: Vec<_> = (0..4).map(|_| crate::client::connect(None, address).unwrap()).collect();
        // One connection more than the backlog fits.
        assert!(dropped(&full).unwrap() >= 2, "{}", dropped(&full).unwrap());
        assert_eq!(dropped(&other).unwrap(), 0);
    }

    #[test]
    fn knows_how_long_a_connection_has_waited() {
        let (listener, address) = listener(5);
        let _silent = TcpStream::connect(address).unwrap();
        let mut talking = TcpStream::connect(address).unwrap();
        talking.write_all(b"x").unwrap();
        sleep(Duration::from_millis(150));
        for _ in 0..2 {
            let waited = waited_ms(accept(&listener).unwrap()).unwrap();
            assert!((130..60_000).contains(&waited), "{waited} ms");
        }
    }
}
