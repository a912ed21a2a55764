//! Blocking connections over TCP or a Unix socket, bounded by a deadline for the whole exchange.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::config::StatusAddress;

/// A connection that must end by its deadline. After that, reads and writes fail with `TimedOut`, even if
/// the peer keeps sending single bytes.
#[derive(Debug)]
pub(super) struct Stream {
    /// A socket of either family. The calls used here work for both, and this type does not check the
    /// family.
    socket: TcpStream,
    deadline: Instant,
}

impl Stream {
    /// Connects within `time`, which then bounds the whole exchange.
    pub(super) fn connect(address: &StatusAddress, time: Duration) -> io::Result<Self> {
        let deadline = Instant::now() + time;
        let socket = match address {
            StatusAddress::Tcp(address) => TcpStream::connect_timeout(address, time)?,
            StatusAddress::Unix(path) => OwnedFd::from(UnixStream::connect(path)?).into(),
        };
        Ok(Self { socket, deadline })
    }

    /// Takes over an accepted connection, which may last for `time`.
    pub(super) fn accepted(socket: OwnedFd, time: Duration) -> io::Result<Self> {
        let socket = TcpStream::from(socket);
        socket.set_nonblocking(false)?;
        Ok(Self { socket, deadline: Instant::now() + time })
    }

    /// Shuts down the sending direction.
    pub(super) fn shut_down_writing(&self) -> io::Result<()> {
        self.socket.shutdown(Shutdown::Write)
    }

    fn time_left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(self.time_left()?))?;
        self.socket.read(buffer).map_err(timed_out)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(self.time_left()?))?;
        self.socket.write(bytes).map_err(timed_out)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A blocking socket reports a timeout as `WouldBlock`.
fn timed_out(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { io::ErrorKind::TimedOut.into() } else { error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_trickles_gains_no_time() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut stream = Stream::accepted(ours.into(), Duration::from_millis(100)).unwrap();
        let trickle = std::thread::spawn(move || {
            while theirs.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let error = std::io::copy(&mut stream, &mut io::sink()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(stream);
        trickle.join().unwrap();
    }
}
