//! An application that receives clients' connections or shares memory, and uses them as a test says. It
//! shares no code with the server.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::TIMEOUT;

/// A request, and what came with it.
pub struct Asked {
    /// The parameters, by name.
    pub params: BTreeMap<String, String>,
    /// The body.
    pub body: Vec<u8>,
    /// The client's connection, if it was passed.
    pub lent: Option<Lent>,
    /// The connection that the answer is sent on.
    pub connection: Connection,
    /// The number of the request on its connection.
    pub number: u8,
    keeps: bool,
    /// How many requests came on the connection before this one.
    pub before: usize,
}

/// A passed client connection, and its terms.
pub struct Lent {
    /// The client's connection.
    pub client: TcpStream,
    /// Whether the client speaks HTTP/1.1.
    pub is_http11: bool,
    /// Whether the client's connection must stay open.
    pub is_persistent: bool,
    /// Whether the reply has a body: the reply to HEAD has none.
    pub has_body: bool,
    /// The value of the reply's `Server` field.
    pub server: String,
}

/// A connection from the server.
pub struct Connection {
    /// The Unix socket.
    pub stream: UnixStream,
    input: Vec<u8>,
    passed: Vec<OwnedFd>,
    /// The memory that the connection shares.
    pub area: Option<Area>,
    /// Whether it says, after the end of a request, that it waits for another one.
    says_that_it_waits: bool,
}

/// Memory that is shared.
pub struct Area {
    /// The memory as a file.
    pub file: File,
    /// The number of chunks.
    pub chunks: u16,
    /// The size of each chunk in bytes.
    pub chunk_size: u32,
    /// The chunks that may be filled.
    pub free: VecDeque<u16>,
}

/// `FCGI_ABORT_REQUEST`.
const ABORT: u8 = 2;
/// The record that passes a client's connection.
const LEND: u8 = 128;
/// The record that gives a client's connection back.
pub const RETURN: u8 = 129;
/// The record that shares memory.
const AREA: u8 = 130;
/// The record that says that a chunk is filled.
pub const FILLED: u8 = 131;
/// The record that says that a chunk is free again.
pub const FREE: u8 = 132;
const WAITS: u8 = 133;

/// A record.
pub fn record(kind: u8, number: u8, content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u16).to_be_bytes();
    [&[1, kind, 0, number, length[0], length[1], 0, 0], content].concat()
}

/// Starts an application that supports these transports. It answers each connection in its own thread,
/// until `serve` ends it.
pub fn start(
    directory: &Path,
    name: &str,
    knows: &'static str,
    serve: impl Fn(Asked) -> Option<Connection> + Send + Sync + 'static,
) -> PathBuf {
    start_learning(directory, name, move |_| knows, serve)
}

/// Starts an application that supports other transports on each connection, depending on the connection's
/// number.
pub fn start_learning(
    directory: &Path,
    name: &str,
    knows: impl Fn(usize) -> &'static str + Send + 'static,
    serve: impl Fn(Asked) -> Option<Connection> + Send + Sync + 'static,
) -> PathBuf {
    let path = directory.join(name);
    let listener = UnixListener::bind(&path).expect("a socket");
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let (serve, stream) = (Arc::clone(&serve), stream.expect("a connection"));
            let knows = knows(number);
            thread::spawn(move || {
                let mut connection = Connection {
                    stream,
                    input: Vec::new(),
                    passed: Vec::new(),
                    area: None,
                    says_that_it_waits: knows.ends_with("waits"),
                };
                for before in 0.. {
                    let Ok(asked) = connection.request(knows, before) else { return };
                    let keeps = asked.keeps;
                    match serve(asked) {
                        Some(next) if keeps => connection = next,
                        _ => return,
                    }
                }
            });
        }
    });
    path
}

impl Connection {
    /// Reads the next record: kind, number, content.
    pub fn record(&mut self) -> io::Result<(u8, u8, Vec<u8>)> {
        loop {
            if self.input.len() >= 8 {
                let header: Vec<u8> = self.input[..8].to_vec();
                assert_eq!((header[0], header[2]), (1, 0), "{header:?}");
                let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
                let end = 8 + length + usize::from(header[6]);
                if self.input.len() >= end {
                    let content = self.input[8..8 + length].to_vec();
                    self.input.drain(..end);
                    return Ok((header[1], header[3], content));
                }
            }
            let mut piece = [0; 16 << 10];
            let count = receive(&self.stream, &mut piece, &mut self.passed)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.input.extend_from_slice(&piece[..count]);
        }
    }

    fn request(&mut self, knows: &str, before: usize) -> io::Result<Asked> {
        let (mut number, mut keeps, mut lent) = (0, false, None);
        let (mut params, mut body) = (Vec::new(), Vec::new());
        loop {
            let (kind, of, content) = self.record()?;
            match kind {
                1 => (number, keeps) = (of, content[2] != 0),
                9 => {
                    assert_eq!((number, &content[2..]), (0, &b"SLUICE_TRANSPORTS"[..]), "the first question");
                    let mut answer = vec![content[0], knows.len() as u8];
                    answer.extend_from_slice(&content[2..]);
                    answer.extend_from_slice(knows.as_bytes());
                    // The answer is padded, as the specification advises (section 3.3).
                    let mut answer = record(10, 0, &answer);
                    let padding = answer.len().next_multiple_of(8) - answer.len();
                    answer[6] = padding as u8;
                    answer.resize(answer.len() + padding, 0);
                    self.stream.write_all(&answer)?;
                }
                AREA => {
                    let number = |bytes: &[u8]| bytes.iter().fold(0, |all, byte| all << 8 | u32::from(*byte));
                    let file = self.passed.pop().expect("a file comes along");
                    let chunks = number(&content[4..6]) as u16;
                    let chunk_size = number(&content[..4]);
                    let free = (0..chunks).collect();
                    self.area = Some(Area { file: file.into(), chunks, chunk_size, free });
                }
                FREE => self.take_free(&content),
                // The server gave up a request that has already ended here.
                ABORT if of != number => {}
                ABORT => return Err(io::ErrorKind::Interrupted.into()),
                _ if of != number => panic!("a record of request {of} in {number}"),
                LEND => {
                    let client = self.passed.pop().expect("a client comes along");
                    let has = |flag| content[0] & flag != 0;
                    let server = String::from_utf8(content[1..].to_vec()).expect("a name");
                    lent = Some(Lent {
                        client: client.into(),
                        is_http11: has(1),
                        is_persistent: has(2),
                        has_body: has(4),
                        server,
                    });
                }
                4 => params.extend_from_slice(&content),
                5 if content.is_empty() => break,
                5 => body.extend_from_slice(&content),
                other => panic!("a record of kind {other}"),
            }
        }
        assert!(self.passed.is_empty(), "nothing else is passed");
        let stream = self.stream.try_clone()?;
        let connection = Connection {
            stream,
            input: std::mem::take(&mut self.input),
            passed: Vec::new(),
            area: self.area.take(),
            says_that_it_waits: self.says_that_it_waits,
        };
        Ok(Asked { params: pairs(&params), body, lent, connection, number, keeps, before })
    }

    fn take_free(&mut self, content: &[u8]) {
        let chunk = u16::from_be_bytes([content[0], content[1]]);
        let area = self.area.as_mut().expect("memory is shared");
        assert!(chunk < area.chunks && !area.free.contains(&chunk), "chunk {chunk} is free twice");
        area.free.push_back(chunk);
    }
}

impl Asked {
    /// Sends records. Returns false if the server no longer reads them, which does not concern the
    /// application.
    pub fn say(&mut self, records: &[(u8, &[u8])]) -> bool {
        let mut bytes: Vec<u8> =
            records.iter().flat_map(|(kind, content)| record(*kind, self.number, content)).collect();
        if self.connection.says_that_it_waits && self.keeps && records.iter().any(|(kind, _)| *kind == 3) {
            bytes.extend(record(WAITS, 0, b""));
        }
        self.connection.stream.write_all(&bytes).is_ok()
    }

    /// Answers through the stream.
    pub fn answer(mut self, response: &str) -> Option<Connection> {
        self.say(&[(6, response.as_bytes()), (3, &[0; 8])]).then_some(self.connection)
    }

    /// Closes the client's connection, gives it back with these claims, and ends the request.
    pub fn give_back(mut self, status: u16, flags: u8, body: u64, sent: u64) -> Option<Connection> {
        self.lent = None;
        let content = returned(status, flags, body, sent);
        self.say(&[(RETURN, &content), (3, &[0; 8])]).then_some(self.connection)
    }

    /// Sends the client a whole reply with this body, and gives the connection back.
    pub fn serve(mut self, body: &[u8]) -> Option<Connection> {
        let Some(lent) = &mut self.lent else { return self.answer("X: y\n\nby the stream") };
        let is_persistent = lent.is_persistent;
        let head = lent.head(&format!("Content-Length: {}\r\n", body.len()));
        let body = if lent.has_body { body } else { b"" };
        let reply = [head.as_bytes(), body].concat();
        let is_whole = lent.write(&reply);
        self.give_back(
            200,
            u8::from(is_whole) | u8::from(is_persistent) << 1,
            body.len() as u64,
            reply.len() as u64,
        )
    }

    /// Waits for a free chunk, fills it with bytes, and reports it.
    pub fn fill(&mut self, bytes: &[u8]) -> bool {
        let area =
            |asked: &mut Self| asked.connection.area.as_mut().expect("memory is shared").free.pop_front();
        let chunk = loop {
            if let Some(chunk) = area(self) {
                break chunk;
            }
            match self.connection.record() {
                Ok((FREE, 0, content)) => self.connection.take_free(&content),
                Ok((ABORT, ..)) | Err(_) => return false,
                Ok(other) => panic!("{other:?} where a chunk is to be freed"),
            }
        };
        let shared = self.connection.area.as_ref().expect("memory is shared");
        assert!(bytes.len() <= shared.chunk_size as usize);
        let at = u64::from(chunk) * u64::from(shared.chunk_size);
        shared.file.write_all_at(bytes, at).expect("a file in memory");
        let content = filled(chunk, bytes.len() as u32);
        self.say(&[(FILLED, &content)])
    }

    /// Answers with a head and a body in shared memory, with `each` bytes in a chunk.
    pub fn share(mut self, response: &[u8], each: usize) -> Option<Connection> {
        if self.connection.area.is_none() {
            return self.answer("X: y\n\nby the stream");
        }
        for piece in response.chunks(each) {
            if !self.fill(piece) {
                return None;
            }
        }
        self.say(&[(3, &[0; 8])]).then_some(self.connection)
    }
}

impl Lent {
    /// The head of a reply with these fields.
    pub fn head(&self, fields: &str) -> String {
        let date = httpdate::fmt_http_date(std::time::SystemTime::now());
        let close = if self.is_persistent { "" } else { "Connection: close\r\n" };
        let keep = if self.is_persistent && !self.is_http11 { "Connection: keep-alive\r\n" } else { "" };
        format!("HTTP/1.1 200 OK\r\nServer: {}\r\nDate: {date}\r\n{close}{keep}{fields}\r\n", self.server)
    }

    /// Writes all bytes, whether the socket blocks or not. Returns whether the client accepted them.
    pub fn write(&mut self, bytes: &[u8]) -> bool {
        write(&mut self.client, bytes)
    }
}

/// Waits for bytes and receives them, with any descriptors. Returns how many bytes arrived. recvmsg(2)
fn receive(stream: &UnixStream, buffer: &mut [u8], passed: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(stream, &mut [IoSliceMut::new(buffer)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            passed.extend(descriptors);
        }
    }
    Ok(received.bytes)
}

/// Writes all bytes, whether the socket blocks or not. Returns whether the client accepted them.
pub fn write(client: &mut TcpStream, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match client.write(bytes) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let timeout = TIMEOUT.try_into().expect("it is not long");
                poll(&mut [PollFd::new(client, PollFlags::OUT)], Some(&timeout)).expect("a descriptor");
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
    true
}

/// The content of a record that gives a client's connection back.
pub fn returned(status: u16, flags: u8, body: u64, sent: u64) -> Vec<u8> {
    let [high, low] = status.to_be_bytes();
    [&[high, low, flags, 0][..], &body.to_be_bytes(), &sent.to_be_bytes()].concat()
}

/// The content of a record that reports a filled chunk.
pub fn filled(chunk: u16, length: u32) -> Vec<u8> {
    [&length.to_be_bytes()[..], &chunk.to_be_bytes(), &[0, 0]].concat()
}

/// Parses the parameters in the content of their records.
pub fn pairs(mut bytes: &[u8]) -> BTreeMap<String, String> {
    fn length(bytes: &mut &[u8]) -> usize {
        if bytes[0] < 128 {
            let length = bytes[0].into();
            *bytes = &bytes[1..];
            return length;
        }
        let length = u32::from_be_bytes(bytes[..4].try_into().expect("four bytes")) & 0x7fff_ffff;
        *bytes = &bytes[4..];
        length as usize
    }
    fn text(bytes: &mut &[u8], length: usize) -> String {
        let (text, rest) = bytes.split_at(length);
        *bytes = rest;
        String::from_utf8_lossy(text).into_owned()
    }
    let mut pairs = BTreeMap::new();
    while !bytes.is_empty() {
        let (name, value) = (length(&mut bytes), length(&mut bytes));
        let name = text(&mut bytes, name);
        assert_eq!(pairs.insert(name, text(&mut bytes, value)), None, "a parameter is there twice");
    }
    pairs
}
