//! `ceiling`: a server that parses nothing and always sends the same reply, as the yardstick for servers that
//! do work.
//!
//! It makes the system calls that ours makes, in the same order and number, and writes replies of the same
//! length in the same pieces; what it leaves out is everything in between. So a server's CPU time per request
//! divided by this one's is what HTTP and the files cost, and nothing can be much below 1.
//!
//! As an event loop, in one thread: edge-triggered epoll; accept until the queue is empty, receiving from
//! each new connection at once; one receive per event (a short one has drained the socket); one writev for a
//! reply from memory, or the head and one sendfile. A connection is registered for reading and writing once,
//! and not at all when it ends with its first reply.
//!
//! With `--ring`, as an event loop over `io_uring(7)`: see [`ringed`].
//!
//! With `--workers`, as processes that serve a client each: a receive that waits, and a reply, which are the
//! two system calls that a request costs at least. Before it waits a worker yields the CPU, as ours do where
//! that pays: the next request is there by then, and nobody is put to sleep and woken.

mod bare;
mod ringed;

use std::fs::File;
use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::{ArgAction, Parser, ValueEnum};
use sys::epoll::Epoll;
use sys::event::{Events, Interest};
use sys::signal::Signal;
use sys::socket::{self, ListenOptions};

use crate::bare::{Requests, next_client, unless_blocked, unsent};

/// A web server that parses nothing and sends a constant: the least that a request can cost.
#[derive(Debug, Parser)]
#[command(version)]
#[expect(clippy::struct_excessive_bools, reason = "options of a command line")]
struct Options {
    /// Where to listen; port 0 picks a port, which is printed
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Length of the body in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    body: usize,
    /// How the body is sent
    #[arg(long, value_enum, default_value_t = Variant::Memory)]
    variant: Variant,
    /// The file that holds the body; from memory, a body of `x` will do
    #[arg(long, required_if_eq("variant", "sendfile"))]
    file: Option<PathBuf>,
    /// Say `Connection: close` and close after each reply
    #[arg(long)]
    close: bool,
    /// Fixed send buffer of each connection (`SO_SNDBUF`); the kernel's own choice if left out
    #[arg(long, value_name = "BYTES")]
    send_buffer: Option<u32>,
    /// Take connections out of the accept queue only when a request has come (`TCP_DEFER_ACCEPT`)
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_value_t = false, default_missing_value = "true")]
    defer_accept: bool,
    /// Serve with so many processes that have one client each, rather than by an event loop; 0 for that
    #[arg(long, value_name = "N", default_value_t = 0)]
    workers: usize,
    /// Have the kernel accept, receive and send, by a ring. Only from memory
    #[arg(long, conflicts_with = "workers", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_value_t = false, default_missing_value = "true")]
    ring: bool,
    /// With --ring: send from memory without a copy
    #[arg(long, requires = "ring")]
    zero_copy: bool,
    /// With --ring: register clients' sockets with the ring
    #[arg(long, requires = "ring")]
    registered: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Variant {
    /// Head and body in one writev
    Memory,
    /// Head by sendmsg with `MSG_MORE`, body by sendfile
    Sendfile,
    /// Head by a writev that does not say that more follows, body by sendfile: a segment more, but see
    /// README.md on pacing
    Push,
}

/// How long a client may be silent before its connection is handed over all the same: what Apache and nginx
/// choose as well.
const DEFER_ACCEPT_SECS: u32 = 1;

fn main() -> Result<()> {
    let options = Options::parse();
    let reply = Reply::new(&options)?;
    let listen = ListenOptions {
        send_buffer: options.send_buffer,
        defer_accept: options.defer_accept.then_some(DEFER_ACCEPT_SECS),
        ..ListenOptions::default()
    };
    let listener = socket::listen_tcp(options.listen, &listen)
        .with_context(|| format!("cannot listen on {}", options.listen))?;
    let address = socket::local_address(&listener)?;
    eprintln!("listening on http://{address}/ (ceiling, {:?}, {} bytes)", options.variant, options.body);
    if options.ring {
        ensure!(options.variant == Variant::Memory, "--ring sends from memory: leave --variant out");
        let ringed = ringed::Options {
            closes: options.close,
            zero_copy: options.zero_copy,
            registered: options.registered,
        };
        return ringed::serve(&listener, &reply.own, &reply.pinned.into(), ringed);
    }
    if options.workers > 0 {
        return serve_by_processes(options.workers, &listener, &reply);
    }
    Ceiling::new(listener, reply)?.run()
}

/// Forks so many, and waits for them for ever: they end with this process.
fn serve_by_processes(workers: usize, listener: &OwnedFd, reply: &Reply) -> Result<()> {
    for _ in 0..workers {
        sys::process::fork(|| {
            let ends_with_parent = sys::process::signal_at_end_of_parent(Signal::Terminate);
            ends_with_parent.and_then(|()| serve_clients(listener, reply)).map_or(1, |()| 0)
        })?;
    }
    loop {
        std::thread::park();
    }
}

/// Serves one client after the other.
fn serve_clients(listener: &OwnedFd, reply: &Reply) -> io::Result<()> {
    socket::set_nonblocking(listener, false)?;
    let mut buffer = vec![0; 16 << 10];
    loop {
        let (client, _) = socket::accept_blocking_from(listener)?;
        // Whatever ends it, the next client is another's.
        let _ = serve_client(client, reply, &mut buffer);
    }
}

fn serve_client(client: OwnedFd, reply: &Reply, buffer: &mut [u8]) -> io::Result<()> {
    let mut connection = Connection::new(client);
    loop {
        let count = socket::recv_waiting(&connection.socket, buffer)?;
        if count == 0 {
            return Ok(());
        }
        connection.requests.count(&buffer[..count]);
        // The socket blocks, so a short write is followed by the rest.
        while connection.requests.owed > 0 {
            if !connection.answer(reply)? {
                return Ok(());
            }
        }
        sys::process::yield_cpu();
    }
}

/// The reply, in the pieces in which ours is kept: what is made for each reply, what the file table holds,
/// the file.
struct Reply {
    own: Vec<u8>,
    pinned: Vec<u8>,
    file: Option<(File, u64)>,
    /// Whether the head waits for what follows: the body of a file, or the FIN, which saves a segment.
    is_held_back: bool,
    close: bool,
}

impl Reply {
    fn new(options: &Options) -> Result<Self> {
        let close = if options.close { "Connection: close\r\n" } else { "" };
        let own =
            format!("HTTP/1.1 200 OK\r\nServer: sluice\r\nDate: Thu, 20 Nov 2025 12:00:00 GMT\r\n{close}");
        let mut pinned = format!(
            "Content-Length: {}\r\nContent-Type: text/html\r\nAccept-Ranges: bytes\r\n\
             ETag: \"0123456789abcdef-0123456789abcdef\"\r\nLast-Modified: Thu, 20 Nov 2025 12:00:00 \
             GMT\r\n\r\n",
            options.body
        )
        .into_bytes();
        let mut file = options.file.as_deref().map(|path| open(path, options.body)).transpose()?;
        if options.variant == Variant::Memory {
            match file.take() {
                Some(mut file) => _ = file.read_to_end(&mut pinned)?,
                None => pinned.resize(pinned.len() + options.body, b'x'),
            }
        }
        let is_held_back = match options.variant {
            Variant::Memory => options.close,
            Variant::Sendfile => true,
            Variant::Push => false,
        };
        let file = file.map(|file| (file, options.body as u64));
        Ok(Self { own: own.into_bytes(), pinned, file, is_held_back, close: options.close })
    }

    /// Sends what remains of a reply of which `*sent` bytes are gone, and says whether that was all of it. A
    /// short write has met a full buffer: the next edge tells of room.
    fn send(&self, connection: &OwnedFd, sent: &mut u64) -> io::Result<bool> {
        let head = (self.own.len() + self.pinned.len()) as u64;
        if *sent < head {
            let slices = &unsent(&self.own, &self.pinned, *sent as usize);
            let write = if self.is_held_back { socket::send_more } else { socket::write_vectored };
            let written = write(connection, slices);
            *sent += unless_blocked(written)?.unwrap_or(0) as u64;
        }
        let Some((file, length)) = self.file.as_ref().filter(|_| *sent >= head) else {
            return Ok(*sent >= head);
        };
        let mut offset = *sent - head;
        let rest = (length - offset) as usize;
        unless_blocked(socket::send_file(connection, file, &mut offset, rest))?;
        *sent = head + offset;
        Ok(offset >= *length)
    }
}

struct Connection {
    socket: OwnedFd,
    registered: bool,
    requests: Requests,
    /// Bytes of the reply being sent that are gone.
    sent: u64,
}

struct Ceiling {
    epoll: Epoll,
    listener: OwnedFd,
    reply: Reply,
    /// By descriptor number, which is the epoll token as well.
    connections: Vec<Option<Connection>>,
    buffer: Vec<u8>,
}

const LISTENER: u64 = u64::MAX;

impl Ceiling {
    fn new(listener: OwnedFd, reply: Reply) -> Result<Self> {
        sys::process::raise_descriptor_limit()?;
        let epoll = Epoll::new()?;
        epoll.add(&listener, LISTENER, Interest::READABLE.on_edge())?;
        Ok(Self { epoll, listener, reply, connections: Vec::new(), buffer: vec![0; 16 << 10] })
    }

    fn run(&mut self) -> Result<()> {
        let mut events = Events::default();
        loop {
            self.epoll.wait(&mut events, None)?;
            for ready in events.iter() {
                if ready.token == LISTENER {
                    self.accept()?;
                } else {
                    self.turn(ready.token as usize, ready.readable || ready.hang_up || ready.error);
                }
            }
        }
    }

    fn accept(&mut self) -> Result<()> {
        while let Some(socket) = next_client(|| socket::accept(&self.listener))? {
            let index = socket.as_raw_fd() as usize;
            if index >= self.connections.len() {
                self.connections.resize_with(index + 1, || None);
            }
            self.connections[index] = Some(Connection::new(socket));
            self.turn(index, true);
        }
        Ok(())
    }

    /// Receives (if there may be something), replies, and then registers or closes.
    fn turn(&mut self, index: usize, readable: bool) {
        // The connection may have been closed earlier in the same batch of events.
        let Some(connection) = self.connections.get_mut(index).and_then(Option::as_mut) else { return };
        let stays = connection.serve(readable, &mut self.buffer, &self.reply).unwrap_or(false);
        if stays && !connection.registered {
            let added = self.epoll.add(&connection.socket, index as u64, Interest::BOTH.on_edge());
            connection.registered = added.is_ok();
        }
        if !stays || !connection.registered {
            self.connections[index] = None;
        }
    }
}

impl Connection {
    fn new(socket: OwnedFd) -> Self {
        Self { socket, registered: false, requests: Requests::default(), sent: 0 }
    }

    /// Goes on as far as the socket does, and says whether the connection stays.
    fn serve(&mut self, readable: bool, buffer: &mut [u8], reply: &Reply) -> io::Result<bool> {
        let mut more = readable;
        while more {
            match unless_blocked(socket::recv(&self.socket, buffer))? {
                Some(0) => return Ok(false),
                Some(count) => {
                    self.requests.count(&buffer[..count]);
                    more = count == buffer.len();
                }
                None => more = false,
            }
        }
        self.answer(reply)
    }

    /// Replies as far as the socket takes it, and says whether the connection stays.
    fn answer(&mut self, reply: &Reply) -> io::Result<bool> {
        while self.requests.owed > 0 {
            if !reply.send(&self.socket, &mut self.sent)? {
                return Ok(true);
            }
            (self.requests.owed, self.sent) = (self.requests.owed - 1, 0);
            if reply.close {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn open(path: &Path, length: usize) -> Result<File> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let found = file.metadata()?.len();
    ensure!(found == length as u64, "{} has {found} bytes, but --body says {length}", path.display());
    Ok(file)
}
