//! A small keep-alive client for counted requests: what wrk can't do, which knows only durations.

use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// Makes `rounds` requests on each of so many connections: all are sent, then all replies are read, so that a
/// server with many connections finds many requests at once, as under load.
pub(crate) fn ask(address: SocketAddr, target: &str, connections: usize, rounds: usize) -> Result<()> {
    let mut connections = (0..connections).map(|_| connect(address)).collect::<Result<Vec<_>>>()?;
    let request = request(address, target);
    for _ in 0..rounds {
        for connection in &mut connections {
            connection.write_all(&request)?;
        }
        for connection in &connections {
            read_reply(connection)?;
        }
    }
    Ok(())
}

/// A connection on which nothing takes longer than a slow server under valgrind needs.
pub(crate) fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// The request that wrk would send.
pub(crate) fn request(address: SocketAddr, target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: {address}\r\n\r\n").into_bytes()
}

/// Reads one whole reply, which must be a 200 with a Content-Length and must keep the connection open.
pub(crate) fn read_reply(stream: impl Read) -> Result<()> {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        ensure!(stream.read_line(&mut head)? > 0, "the server closed the connection in a reply");
    }
    ensure!(head.starts_with("HTTP/1.1 200 "), "not a 200: {head}");
    head.make_ascii_lowercase();
    ensure!(!head.contains("\r\nconnection: close"), "the server does not keep connections");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    let length: u64 = length.context("no Content-Length")?;
    let received = io::copy(&mut stream.by_ref().take(length), &mut io::sink())?;
    ensure!(received == length, "the server closed the connection in a reply");
    ensure!(stream.buffer().is_empty(), "too much sent");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_longer_than_the_buffer_are_read_to_their_end() {
        let head = b"HTTP/1.1 200 OK\r\nContent-length: 50000\r\n\r\n";
        let reply = [head.as_slice(), &vec![b'x'; 50_000]].concat();
        read_reply(&reply[..]).unwrap();
        assert!(read_reply(&reply[..reply.len() - 1]).is_err());
    }

    #[test]
    fn what_cannot_be_counted_is_refused() {
        for reply in [
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxx",
        ] {
            assert!(read_reply(reply.as_bytes()).is_err(), "{reply}");
        }
    }
}
