//! `relay`: what it costs at least to have a reply made by another process, by each of four transports, as
//! the yardstick for a server and its FastCGI applications.
//!
//! Clients ask the relay; it hands each request to one of its applications, processes that answer with a
//! constant; the reply goes to the client. Nothing is parsed, neither requests nor replies, and no FastCGI is
//! spoken: what remains are the system calls and the copies that a [`Transport`] can't do without.
//! Connections to applications are kept. So one transport's CPU time per reply over another's is the most
//! that changing the transport can bring.
//!
//! How long replies are is said by the first request of each connection, as the lab's workload `constant`
//! does: `bytes=32768` somewhere in it. [`message`] is what the processes say to each other, [`application`]
//! those that answer, [`relay`] the one that clients talk to.

mod application;
#[path = "../bare.rs"]
mod bare;
mod message;
mod relay;

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use anyhow::{Context as _, Result};
use clap::{Parser, ValueEnum};
use sys::memory_file::{Access, Mapping, MemoryFile};
use sys::signal::Signal;
use sys::socket::{self, ListenOptions};

use crate::application::Application;
use crate::relay::{Link, Relay};

/// A web server that has constant replies made by other processes: the least that a transport can cost.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    /// Where to listen; port 0 picks a port, which is printed
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// How replies come to their clients
    #[arg(long, value_enum)]
    transport: Transport,
    /// How many processes answer, one request at a time each
    #[arg(long, value_name = "N", default_value_t = 16,
          value_parser = clap::value_parser!(u16).range(1..=4096))]
    workers: u16,
}

/// How a reply comes from an application to its client (Yeung 2010, chapters 2 and 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Transport {
    /// Over a TCP connection to the relay, which sends it on: three copies
    Tcp,
    /// Over a Unix socket to the relay, which sends it on: three copies
    Unix,
    /// In memory that both have, from where the relay sends it: the application's own copy, and one
    SharedMemory,
    /// The application gets the client's socket and sends to it: one copy
    PassFd,
}

/// Bytes of a chunk of shared memory, and how many each application has: 256 KiB in all, about as much as a
/// Unix socket holds, so that all of it stays in the caches.
const CHUNK: usize = 64 << 10;
const CHUNKS: usize = 4;

/// The longest reply.
const MOST: u32 = 64 << 20;

fn main() -> Result<()> {
    let options = Options::parse();
    sys::signal::ignore_broken_pipe()?;
    let listener = socket::listen_tcp(options.listen, &ListenOptions::default())
        .with_context(|| format!("cannot listen on {}", options.listen))?;
    let address = socket::local_address(&listener)?;
    // All applications have it from here on, and nobody writes to it.
    let body = vec![b'='; MOST as usize];
    let links = (0..options.workers).map(|_| employ(options.transport, &body)).collect::<Result<_>>()?;
    let mut relay = Relay::new(listener, links, options.transport)?;
    eprintln!("listening on http://{address}/ (relay, {:?})", options.transport);
    relay.run()
}

/// Starts an application, which ends with this process.
fn employ(transport: Transport, body: &[u8]) -> Result<Link> {
    let (near, far) = connected(transport)?;
    socket::set_nonblocking(&near, true)?;
    // Nobody touches it but with that transport.
    let shared = MemoryFile::new("relay", (CHUNK * CHUNKS) as u64)?;
    let own = Mapping::new(&shared, shared.size(), Access::Read)?;
    let other = Mapping::new(&shared, shared.size(), Access::Write)?;
    sys::process::fork(|| {
        let ends = sys::process::signal_at_end_of_parent(Signal::Terminate).map_err(anyhow::Error::from);
        let answers = || Application { body, link: far, transport, area: other }.run();
        match ends.and_then(|()| answers()) {
            Ok(()) => 0,
            Err(error) => {
                eprintln!("relay: an application: {error:#}");
                1
            }
        }
    })?;
    Ok(Link::new(near, transport, own))
}

/// Two ends of what they talk over.
fn connected(transport: Transport) -> Result<(OwnedFd, OwnedFd)> {
    if transport != Transport::Tcp {
        let (near, far) = UnixStream::pair()?;
        return Ok((near.into(), far.into()));
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    Ok((near.into(), far.into()))
}

/// The head of a reply.
fn head(bytes: u32) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nServer: relay\r\nContent-Type: text/html\r\nContent-Length: {bytes}\r\n\r\n")
        .into_bytes()
}
