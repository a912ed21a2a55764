//! Lets applications that only speak the FastCGI stream use another transport. The application's reply
//! then reaches the server's client through the client's passed connection, or through shared memory. So
//! every test for the stream can run with every transport. This module counts the replies that were
//! conveyed. When the test is done with the server, it compares them with the server's counts.
//!
//! It does what a library does for its program, as far as these applications need it. It shares no code
//! with the project's library.

use std::cell::{Cell, RefCell};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::guest::{self, Area, Asked, Connection, FILLED, FREE, Lent, RETURN, filled, record, returned};

thread_local! {
    static TRANSPORT: Cell<&'static str> = const { Cell::new("stream") };
    static COUNTS: RefCell<Arc<Counts>> = RefCell::default();
}

/// Counts of what a test's applications did.
#[derive(Debug, Default)]
struct Counts {
    /// Requests received.
    asked: AtomicU64,
    /// Replies that were sent completely with the transport.
    conveyed: AtomicU64,
    /// Replies that the server had to see, or that had nothing to convey.
    left_to_stream: AtomicU64,
}

/// The transport of the test in this thread.
pub fn transport() -> &'static str {
    TRANSPORT.get()
}

/// Makes this thread's applications use this transport.
pub(crate) fn set_transport(transport: &'static str) {
    TRANSPORT.set(transport);
    COUNTS.take();
}

/// What is wrong with a server's counts. `ask` returns them: replies that were passed, were shared, and
/// fell back to the stream, and clients that disconnected. No reply may use another transport than the
/// test's, and no reply may fall back without need. A failed reply counts as neither. The server may
/// count a reply after its client has it, or not at all if the client has disconnected by then.
pub(crate) fn miscounted(ask: impl Fn() -> Option<[u64; 4]>) -> Option<String> {
    if transport() == "stream" {
        return None;
    }
    let counts = COUNTS.with_borrow(Arc::clone);
    let began = Instant::now();
    loop {
        // The server may have been stopped.
        let [passed, shared, fell_back, gone] = ask()?;
        let [asked, conveyed, left] = [&counts.asked, &counts.conveyed, &counts.left_to_stream]
            .map(|count| count.load(Ordering::SeqCst));
        let (used, other) = if transport() == "pass-fd" { (passed, shared) } else { (shared, passed) };
        let is_used = used + gone > 0 || conveyed == 0;
        if is_used && used <= asked && other == 0 && fell_back <= left {
            return None;
        }
        if began.elapsed() > Duration::from_secs(5) {
            return Some(format!(
                "{passed} passed, {shared} shared, {fell_back} fell back, {gone} left, of {asked}, of which \
                 {conveyed} were conveyed by {} and {left} left to the stream",
                transport()
            ));
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Starts an application at this socket path. `serve` gets a connection for each request.
pub fn start(path: &Path, serve: impl Fn(UnixStream) + Send + Sync + 'static) -> PathBuf {
    let (directory, name) = (path.parent().expect("a directory"), path.file_name().expect("a name"));
    let (transport, serve) = (transport(), Arc::new(serve));
    let counts = COUNTS.with_borrow(Arc::clone);
    let name = name.to_str().expect("text");
    guest::start(directory, name, transport, move |asked| {
        let is_lent = asked.lent.is_some();
        assert_eq!(is_lent, transport == "pass-fd", "every client is lent");
        assert_eq!(asked.connection.area.is_some(), !is_lent, "memory is shared");
        let (near, far) = UnixStream::pair().expect("a pair");
        let serve = Arc::clone(&serve);
        thread::spawn(move || serve(far));
        counts.asked.fetch_add(1, Ordering::SeqCst);
        // A lost connection is detected where it matters.
        let _ = convey(asked, near, &counts);
        None
    })
}

/// The state of the shared memory, used by both directions.
struct Shared {
    area: Mutex<(Option<Area>, bool)>,
    changed: Condvar,
}

/// A reply in progress.
struct Reply<'c> {
    counts: &'c Counts,
    number: u8,
    server: UnixStream,
    lent: Option<Lent>,
    shared: Arc<Shared>,
    /// The head, until it is complete.
    head: Option<Vec<u8>>,
    /// What is left of a declared length. Without one, the body is chunked, if there may be a body.
    left: Option<u64>,
    is_chunked: bool,
    has_body: bool,
    is_persistent: bool,
    status: u16,
    body: u64,
    /// Bytes that have been sent with the transport.
    sent: u64,
}

fn convey(mut asked: Asked, mut application: UnixStream, counts: &Counts) -> io::Result<()> {
    let number = asked.number;
    application.write_all(&request(&asked))?;
    let server = asked.connection.stream.try_clone()?;
    let area = Mutex::new((asked.connection.area.take(), false));
    let shared = Arc::new(Shared { area, changed: Condvar::new() });
    let (listening, to_application) = (Arc::clone(&shared), application.try_clone()?);
    thread::spawn(move || listen(asked.connection, to_application, &listening));
    let lent = asked.lent.take();
    let is_persistent = lent.as_ref().is_some_and(|lent| lent.is_persistent);
    let has_body = lent.as_ref().is_some_and(|lent| lent.has_body);
    let (head, status) = (Some(Vec::new()), 0);
    let mut reply = Reply {
        counts,
        number,
        server,
        lent,
        shared,
        head,
        left: None,
        is_chunked: false,
        has_body,
        is_persistent,
        status,
        body: 0,
        sent: 0,
    };
    let conveyed = reply.convey(&mut application);
    // The end of a process closes everything that it has.
    drop(reply.lent);
    let _ = reply.server.shutdown(Shutdown::Both);
    let _ = application.shutdown(Shutdown::Both);
    conveyed
}

/// The request as the stream would send it.
fn request(asked: &Asked) -> Vec<u8> {
    let mut params = Vec::new();
    let length = |length: usize| match u8::try_from(length) {
        Ok(short @ ..128) => vec![short],
        _ => (length as u32 | 1 << 31).to_be_bytes().to_vec(),
    };
    for (name, value) in &asked.params {
        params.extend([length(name.len()), length(value.len())].concat());
        params.extend([name.as_bytes(), value.as_bytes()].concat());
    }
    let mut records = record(1, 1, &[0, 1, 0, 0, 0, 0, 0, 0]);
    for (kind, content) in [(4, &params), (5, &asked.body)] {
        content.chunks(60_000).for_each(|part| records.extend(record(kind, 1, part)));
        records.extend(record(kind, 1, b""));
    }
    records
}

/// Receives the server's records meanwhile.
fn listen(mut connection: Connection, mut application: UnixStream, shared: &Shared) {
    loop {
        match connection.record() {
            Ok((FREE, 0, content)) => {
                let chunk = u16::from_be_bytes([content[0], content[1]]);
                let mut known = shared.area.lock().expect("no panic");
                known.0.as_mut().expect("memory is shared").free.push_back(chunk);
            }
            Ok((kind, _, content)) => drop(application.write_all(&record(kind, 1, &content))),
            Err(_) => {
                shared.area.lock().expect("no panic").1 = true;
                let _ = application.shutdown(Shutdown::Write);
                return shared.changed.notify_all();
            }
        }
        shared.changed.notify_all();
    }
}

impl Reply<'_> {
    fn convey(&mut self, application: &mut UnixStream) -> io::Result<()> {
        loop {
            let mut header = [0; 8];
            application.read_exact(&mut header)?;
            let mut content = vec![0; usize::from(u16::from_be_bytes([header[4], header[5]]))];
            application.read_exact(&mut content)?;
            match header[1] {
                6 => self.say(&content)?,
                3 => return self.end(&content),
                // Passes other records on, valid or not: the server must judge them.
                kind => self
                    .server
                    .write_all(&[&[header[0], kind, 0, self.number][..], &header[4..], &content].concat())?,
            }
        }
    }

    fn say(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.lent.is_none() {
            return self.pass_on(bytes);
        }
        let Some(head) = &mut self.head else { return self.send_body(bytes) };
        head.extend_from_slice(bytes);
        let ends = [&b"\n\n"[..], b"\n\r\n"];
        let end = ends
            .iter()
            .filter_map(|end| head.windows(end.len()).position(|at| at == *end).map(|at| at + end.len()));
        let Some(end) = end.min() else { return Ok(()) };
        let head = self.head.take().expect("it is there");
        match self.begin(&head[..end]) {
            Some(http) => {
                self.send(http.as_bytes())?;
                self.send_body(&head[end..])
            }
            // The server has to see this head.
            None => self.give_up_client(&head),
        }
    }

    /// The head of the HTTP reply, if the application's head can become one.
    fn begin(&mut self, head: &[u8]) -> Option<String> {
        const OF_THE_CONNECTION: [&str; 4] = ["connection", "keep-alive", "transfer-encoding", "upgrade"];
        let text = std::str::from_utf8(head).ok()?;
        let (mut status, mut fields, mut length) = (None, String::new(), None);
        for line in text.lines().filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':')?;
            let value = value.trim();
            match &*name.to_ascii_lowercase() {
                "status" => status = Some(value.split(' ').next()?.parse::<u16>().ok()?),
                "x-sendfile" | "x-accel-redirect" | "server" | "date" | "location" | "trailer" | "te" => {
                    return None;
                }
                "content-length" => length = Some(value.parse::<u64>().ok()?),
                other if OF_THE_CONNECTION.contains(&other) => {}
                _ => fields.extend([name, ": ", value, "\r\n"]),
            }
        }
        self.status = status.unwrap_or(200);
        if !(200..600).contains(&self.status) {
            return None;
        }
        let lent = self.lent.as_ref()?;
        let is_bodiless = matches!(self.status, 204 | 304);
        if let Some(length) = length.filter(|_| !is_bodiless) {
            fields.extend(["Content-Length: ", &length.to_string(), "\r\n"]);
        }
        self.has_body &= !is_bodiless;
        self.left = length;
        self.is_chunked = length.is_none() && lent.is_http11 && self.has_body;
        if self.is_chunked {
            fields += "Transfer-Encoding: chunked\r\n";
        }
        // Without a length, only chunks show the end.
        let is_told = length.is_some() || lent.is_http11;
        self.is_persistent &= is_told;
        let lent = self.lent.as_mut()?;
        lent.is_persistent = self.is_persistent;
        Some(lent.head(&fields).replacen("200 OK", &format!("{} Some", self.status), 1))
    }

    fn send_body(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut bytes = bytes;
        if let Some(left) = &mut self.left {
            bytes = &bytes[..bytes.len().min(*left as usize)];
            *left -= bytes.len() as u64;
        }
        if bytes.is_empty() || !self.has_body {
            return Ok(());
        }
        self.body += bytes.len() as u64;
        if self.is_chunked {
            self.send(&[format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat())
        } else {
            self.send(bytes)
        }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(lent) = &mut self.lent else { return Ok(()) };
        self.sent += bytes.len() as u64;
        if lent.write(bytes) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }

    /// Gives the client's connection back unused, and sends the server what the stream would have sent.
    fn give_up_client(&mut self, head: &[u8]) -> io::Result<()> {
        self.lent = None;
        self.counts.left_to_stream.fetch_add(1, Ordering::SeqCst);
        self.server.write_all(&record(RETURN, self.number, &returned(0, 0, 0, 0)))?;
        head.chunks(60_000).try_for_each(|part| self.server.write_all(&record(6, self.number, part)))
    }

    fn end(&mut self, content: &[u8]) -> io::Result<()> {
        let mut is_whole = content[4] == 0;
        if let Some(head) = self.head.take().filter(|_| self.lent.is_some()) {
            self.give_up_client(&head)?;
        }
        if self.lent.is_some() {
            is_whole &= !(self.has_body && self.left.is_some_and(|left| left > 0));
            if is_whole && self.is_chunked {
                self.send(b"0\r\n\r\n")?;
            }
            self.lent = None;
            let flags = u8::from(is_whole) | u8::from(self.is_persistent) << 1;
            let content = returned(self.status, flags, self.body, self.sent);
            self.server.write_all(&record(RETURN, self.number, &content))?;
        }
        self.server.write_all(&record(3, self.number, content))?;
        let count = match self.sent {
            0 => &self.counts.left_to_stream,
            _ if is_whole => &self.counts.conveyed,
            _ => return Ok(()),
        };
        count.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    /// Copies bytes of the stream into shared memory, if there is any.
    fn pass_on(&mut self, bytes: &[u8]) -> io::Result<()> {
        use std::os::unix::fs::FileExt;
        let mut known = self.shared.area.lock().expect("no panic");
        if known.0.is_none() {
            drop(known);
            return self.server.write_all(&record(6, self.number, bytes));
        }
        for part in bytes.chunks(20_000) {
            let chunk = loop {
                match known.0.as_mut().and_then(|area| area.free.pop_front()) {
                    Some(chunk) => break chunk,
                    None if known.1 => return Err(io::ErrorKind::BrokenPipe.into()),
                    None => known = self.shared.changed.wait(known).expect("no panic"),
                }
            };
            let area = known.0.as_ref().expect("memory is shared");
            area.file.write_all_at(part, u64::from(chunk) * u64::from(area.chunk_size))?;
            let content = filled(chunk, part.len() as u32);
            self.server.write_all(&record(FILLED, self.number, &content))?;
            self.sent += part.len() as u64;
        }
        Ok(())
    }
}
