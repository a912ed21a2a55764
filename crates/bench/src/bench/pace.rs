//! What a connection costs on a CPU just now.
//!
//! A virtual machine's CPU shares its core and its caches with others of the host. While these work, the same
//! request costs up to four times as much, for seconds at a time, and nothing in the guest tells of it: it is
//! not stolen time. So whoever compares trials has to look: at what a connection with a request and a reply
//! costs on loopback, with both ends in one thread, so that nothing is waited for.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// How long is waited for a packet: one that the kernel drops would be sent again after a fifth of a second,
/// or a whole one.
const PATIENCE: Duration = Duration::from_millis(20);

/// What connections are made to.
#[derive(Debug)]
pub(crate) struct Probe {
    listener: TcpListener,
    address: SocketAddr,
}

impl Probe {
    pub(crate) fn new() -> io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Makes one connection, and says how many nanoseconds it took.
    pub(crate) fn cost_ns(&self) -> io::Result<u64> {
        let (mut request, mut reply) = ([b'q'; 100], [b'r'; 1200]);
        let began = sys::clock::monotonic_ns();
        let mut client = TcpStream::connect_timeout(&self.address, PATIENCE)?;
        // Closing resets: otherwise thousands of ports would be taken for a second, and finding another takes
        // long.
        socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO))?;
        let (mut server, _) = self.listener.accept()?;
        client.set_read_timeout(Some(PATIENCE))?;
        server.set_read_timeout(Some(PATIENCE))?;
        client.write_all(&request)?;
        server.read_exact(&mut request)?;
        server.write_all(&reply)?;
        client.read_exact(&mut reply)?;
        drop((client, server));
        Ok(sys::clock::monotonic_ns() - began)
    }
}
