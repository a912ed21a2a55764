//! A small keep-alive client for counted requests: what wrk can't do, which knows only durations.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// Connections to one server that all ask for the same target.
pub(crate) struct Client {
    connections: Vec<TcpStream>,
    request: Vec<u8>,
    buffer: Vec<u8>,
}

impl Client {
    /// Opens `count` connections, asking nothing yet.
    pub(crate) fn connect(address: SocketAddr, target: &str, count: usize) -> Result<Self> {
        let connections = (0..count).map(|_| connect(address)).collect::<Result<_>>()?;
        Ok(Self { connections, request: request(address, target), buffer: vec![0; 64 << 10] })
    }

    /// Makes `rounds` requests on each connection: all are sent, then all replies are read, so that a server
    /// with many connections finds many requests at once, as under load.
    pub(crate) fn ask(&mut self, rounds: usize) -> Result<()> {
        for _ in 0..rounds {
            for connection in &mut self.connections {
                connection.write_all(&self.request)?;
            }
            for connection in &mut self.connections {
                read_reply(connection, &mut self.buffer)?;
            }
        }
        Ok(())
    }
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
pub(crate) fn read_reply(stream: &mut impl Read, buffer: &mut [u8]) -> Result<()> {
    let mut filled = 0;
    let head_end = loop {
        let count = stream.read(&mut buffer[filled..])?;
        ensure!(count > 0, "the server closed the connection in a reply");
        filled += count;
        if let Some(at) = buffer[..filled].windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
    };
    let head = std::str::from_utf8(&buffer[..head_end])?;
    ensure!(head.starts_with("HTTP/1.1 200 "), "not a 200: {head}");
    let mut length = None;
    for line in head.lines() {
        match line.split_once(':').map(|(name, value)| (name.to_ascii_lowercase(), value.trim())) {
            Some((name, value)) if name == "content-length" => length = Some(value.parse::<usize>()?),
            Some((name, "close")) if name == "connection" => bail!("the server does not keep connections"),
            _ => {}
        }
    }
    let mut missing =
        (head_end + length.context("no Content-Length")?).checked_sub(filled).context("too much sent")?;
    while missing > 0 {
        let room = missing.min(buffer.len());
        let count = stream.read(&mut buffer[..room])?;
        ensure!(count > 0, "the server closed the connection in a reply");
        missing -= count;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mut reply: &[u8]) -> Result<()> {
        read_reply(&mut reply, &mut [0; 100])
    }

    #[test]
    fn replies_longer_than_the_buffer_are_read_to_their_end() {
        let reply = [b"HTTP/1.1 200 OK\r\nContent-length: 500\r\n\r\n".as_slice(), &[b'x'; 500]].concat();
        read(&reply).unwrap();
        assert!(read(&reply[..reply.len() - 1]).is_err());
    }

    #[test]
    fn what_cannot_be_counted_is_refused() {
        assert!(read(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").is_err());
        assert!(read(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
        assert!(read(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").is_err());
    }
}
