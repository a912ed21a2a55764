//! The reply of an application, on any transport.
//!
//! ```text
//!             nothing passed or shared: -----------> Stdout   records of the connection
//! request --> memory is shared: -------------------> Memory   chunks of it, filled with the body
//!             descriptor passed: -> Undecided -----> Client   the reply itself, to the client
//!                                       \----------> Stdout or Memory, the descriptor returned unused
//! ```
//!
//! An application's output is a CGI response. The library parses its head only if it sends the reply to the
//! client itself, and needs the whole head first.

use std::io;
use std::os::fd::OwnedFd;
use std::time::SystemTime;

use fastcgi::record::{self, Kind, MOST_CONTENT, ProtocolStatus};
use fastcgi::response;
use fastcgi::transport;
use http1::{Stamp, Terms};
use sys::socket::Slice;

use crate::area::Chunk;
use crate::connection::{Connection, UNTOUCHED};
use crate::delivery::{self, Delivery};

/// The output of the request under way.
#[derive(Debug)]
pub(crate) struct Reply {
    request: u16,
    way: Way,
    /// Output that waits for more output.
    buffer: Vec<u8>,
    /// Text for the error log that waits for more of it, and whether any was sent before.
    errors: Vec<u8>,
    has_errors: bool,
}

#[derive(Debug)]
enum Way {
    Stdout,
    Memory(Option<Chunk>),
    Undecided(OwnedFd, Terms, response::Scan),
    Client(Box<Delivery>),
}

/// Bytes that wait for more before they are sent.
const ROOM: usize = 8 << 10;
/// Bytes for the error log that wait before they are sent.
const ERROR_ROOM: usize = 512;
/// The longest head of a reply that the library sends itself.
const MOST_HEAD: usize = 64 << 10;
/// Content of full records, a multiple of eight bytes as the specification recommends (section 3.3).
const FULL: usize = MOST_CONTENT / 8 * 8;
/// Most bytes that one call sends to the web server: their records fit into one call.
const AT_ONCE: usize = 256 * FULL;
/// Records about filled chunks wait until they have this many bytes.
const TOLD_AT_ONCE: usize = 4 * (record::HEADER_LENGTH + 8);

impl Reply {
    /// Begins the reply to the request under way.
    pub(crate) fn new(connection: &mut Connection, request: u16, stamp: &mut ServerStamp) -> Self {
        let way = match connection.take_client() {
            Some((client, lent)) => {
                stamp.set_server(lent.server);
                Way::Undecided(client, delivery::terms(lent), response::Scan::default())
            }
            None => Way::without_client(connection),
        };
        Self { request, way, buffer: Vec::new(), errors: Vec::new(), has_errors: false }
    }

    /// Takes more of the output.
    ///
    /// # Errors
    ///
    /// No more can be sent: the web server has given up the request, or the receiver is gone.
    pub(crate) fn write(
        &mut self,
        connection: &mut Connection,
        stamp: &mut ServerStamp,
        mut bytes: &[u8],
    ) -> io::Result<()> {
        // Only as much is copied as is needed to find the end of the head.
        while !bytes.is_empty() && matches!(self.way, Way::Undecided(..)) {
            let (piece, rest) = bytes.split_at(bytes.len().min(ROOM));
            self.buffer.extend_from_slice(piece);
            bytes = rest;
            self.decide(connection, stamp)?;
        }
        self.put(connection, bytes)
    }

    /// Sends waiting output, if its transport is known.
    ///
    /// # Errors
    ///
    /// Those of [`write`](Self::write).
    pub(crate) fn flush(&mut self, connection: &mut Connection) -> io::Result<()> {
        match &mut self.way {
            Way::Stdout => self.send(connection, &[]),
            Way::Memory(chunk) => {
                tell_of(connection, self.request, chunk.take());
                connection.flush()
            }
            Way::Undecided(..) => Ok(()),
            Way::Client(delivery) => delivery.flush(connection),
        }
    }

    /// Takes text for the error log.
    ///
    /// # Errors
    ///
    /// The web server is gone.
    pub(crate) fn complain(&mut self, connection: &mut Connection, bytes: &[u8]) -> io::Result<()> {
        self.errors.extend_from_slice(bytes);
        if self.errors.len() > ERROR_ROOM { self.flush_errors(connection) } else { Ok(()) }
    }

    /// Sends waiting text for the error log.
    ///
    /// # Errors
    ///
    /// The web server is gone.
    pub(crate) fn flush_errors(&mut self, connection: &mut Connection) -> io::Result<()> {
        self.put_errors(connection);
        connection.flush()
    }

    /// Ends the reply and the request. The last records then wait in the connection. `exit` is the exit
    /// status of a CGI program.
    ///
    /// # Errors
    ///
    /// The web server is gone.
    pub(crate) fn end(mut self, connection: &mut Connection, exit: u32) -> io::Result<()> {
        let request = self.request;
        self.put_errors(connection);
        if self.has_errors {
            record::end_of_stream(&mut connection.out, Kind::Stderr, request);
        }
        // The output has no complete head. The web server decides what that means.
        if matches!(self.way, Way::Undecided(..)) {
            self.give_back(connection)?;
        }
        match self.way {
            Way::Stdout | Way::Undecided(..) => {
                record::stream(&mut connection.out, Kind::Stdout, request, &self.buffer);
                record::end_of_stream(&mut connection.out, Kind::Stdout, request);
            }
            Way::Memory(chunk) => tell_of(connection, request, chunk),
            Way::Client(delivery) => {
                let returned = delivery.finish(connection);
                transport::give_back(&mut connection.out, request, returned);
            }
        }
        record::end_request(&mut connection.out, request, exit, ProtocolStatus::RequestComplete);
        Ok(())
    }

    /// If the head is complete, decides whether the library or the web server sends the reply.
    fn decide(&mut self, connection: &mut Connection, stamp: &mut ServerStamp) -> io::Result<()> {
        let Way::Undecided(_, terms, scan) = &mut self.way else { return Ok(()) };
        let terms = *terms;
        let end = match scan.find_end(&self.buffer, MOST_HEAD) {
            Ok(None) => return Ok(()),
            Ok(Some(end)) => end,
            Err(_) => return self.give_back(connection),
        };
        let buffer = std::mem::take(&mut self.buffer);
        match response::parse(&buffer[..end]) {
            Ok(head) if !delivery::is_for_the_web_server(&head) => {
                let undecided = std::mem::replace(&mut self.way, Way::Stdout);
                let Way::Undecided(client, ..) = undecided else { return Ok(()) };
                self.way = Way::Client(Box::new(Delivery::new(client, terms, stamp.now(), &head)));
                self.put(connection, &buffer[end..])
            }
            _ => {
                self.buffer = buffer;
                self.give_back(connection)
            }
        }
    }

    /// Returns the passed descriptor unused, and sends the output so far by the remaining transport.
    fn give_back(&mut self, connection: &mut Connection) -> io::Result<()> {
        // This closes the descriptor, before the web server is told.
        self.way = Way::without_client(connection);
        transport::give_back(&mut connection.out, self.request, UNTOUCHED);
        let buffer = std::mem::take(&mut self.buffer);
        self.put(connection, &buffer)
    }

    /// Takes output whose transport is known.
    fn put(&mut self, connection: &mut Connection, bytes: &[u8]) -> io::Result<()> {
        match &mut self.way {
            Way::Memory(_) => self.fill(connection, bytes),
            Way::Client(delivery) => delivery.write(connection, bytes),
            Way::Stdout | Way::Undecided(..) if self.buffer.len() + bytes.len() <= ROOM => {
                self.buffer.extend_from_slice(bytes);
                Ok(())
            }
            Way::Stdout | Way::Undecided(..) => self.send(connection, bytes),
        }
    }

    /// Copies output to shared memory.
    fn fill(&mut self, connection: &mut Connection, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let Way::Memory(current) = &mut self.way else { break };
            let taken = current.take();
            let taken = if taken.is_some() { taken } else { connection.await_chunk()? };
            let (Some(mut chunk), Some(area)) = (taken, connection.area()) else {
                self.way = Way::Stdout;
                break;
            };
            let count = area.fill(&mut chunk, bytes);
            bytes = &bytes[count..];
            if area.is_full(&chunk) {
                tell_of(connection, self.request, Some(chunk));
                if connection.out.len() >= TOLD_AT_ONCE {
                    connection.flush()?;
                }
            } else {
                *current = Some(chunk);
            }
        }
        if bytes.is_empty() { Ok(()) } else { self.put(connection, bytes) }
    }

    /// Sends output as records, directly from where it is, after the output that waited.
    fn send(&mut self, connection: &mut Connection, mut bytes: &[u8]) -> io::Result<()> {
        let mut waited = std::mem::take(&mut self.buffer);
        loop {
            let (now, later) = bytes.split_at(bytes.len().min(AT_ONCE - waited.len()));
            let total = waited.len() + now.len();
            let header = |from| record::header(Kind::Stdout, self.request, FULL.min(total - from));
            let headers: Vec<_> = (0..total).step_by(FULL).map(header).collect();
            let (first, rest) = now.split_at(now.len().min(FULL - waited.len()));
            let first = std::iter::once((waited.as_slice(), first));
            let contents = first.chain(rest.chunks(FULL).map(|part| (&[][..], part)));
            let slices = headers.iter().zip(contents).flat_map(|(header, (waited, bytes))| {
                [Slice::new(header), Slice::new(waited), Slice::new(bytes)]
            });
            connection.send(&slices.collect::<Vec<_>>())?;
            waited.clear();
            bytes = later;
            if bytes.is_empty() {
                self.buffer = waited;
                return Ok(());
            }
        }
    }

    fn put_errors(&mut self, connection: &mut Connection) {
        record::stream(&mut connection.out, Kind::Stderr, self.request, &self.errors);
        self.has_errors |= !self.errors.is_empty();
        self.errors.clear();
    }
}

impl Way {
    /// The transport without a passed descriptor, or after it was returned.
    fn without_client(connection: &mut Connection) -> Self {
        if connection.area().is_some() { Self::Memory(None) } else { Self::Stdout }
    }
}

/// Appends the record that announces a chunk to the web server.
fn tell_of(connection: &mut Connection, request: u16, chunk: Option<Chunk>) {
    if let Some(chunk) = chunk {
        transport::filled(&mut connection.out, request, chunk.filled());
    }
}

/// The header lines of every reply, with the web server's name as `Server`.
#[derive(Debug)]
pub(crate) struct ServerStamp {
    server: Vec<u8>,
    stamp: Stamp,
}

impl Default for ServerStamp {
    fn default() -> Self {
        Self { server: Vec::new(), stamp: Stamp::new("", 0) }
    }
}

impl ServerStamp {
    /// Sets the server name of the next replies. A name that is not a valid field value is left out.
    fn set_server(&mut self, server: &[u8]) {
        if self.server != server {
            let is_value = server.iter().all(|byte| matches!(byte, b' '..=b'~'));
            self.stamp = Stamp::new(str::from_utf8(server).ok().filter(|_| is_value).unwrap_or_default(), 0);
            self.server = server.to_vec();
        }
    }

    /// The lines with the current date.
    fn now(&mut self) -> &Stamp {
        let since = SystemTime::UNIX_EPOCH.elapsed();
        self.stamp.update(since.map_or(0, |since| since.as_secs()));
        &self.stamp
    }
}
