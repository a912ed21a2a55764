//! A test client that shares no code with the server. It sends any bytes, and checks that the syntax and
//! framing of every reply are correct.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant, SystemTime};

use socket2::{Domain, SockRef, Socket, Type};

use crate::{TIMEOUT, tunnel};

/// A connection to a server, and the bytes that have arrived on it but have not been read as a reply yet.
pub struct Client {
    /// The connection.
    pub stream: TcpStream,
    buffer: Vec<u8>,
    takes_chunks: bool,
    /// When it connected, or last sent something. A reply may be this old, however slowly it is read.
    asked: SystemTime,
}

/// A complete reply.
#[derive(Clone, PartialEq, Eq)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// The reason phrase.
    pub reason: String,
    /// The header fields, in the order in which they arrived.
    pub fields: Vec<(String, String)>,
    /// The body, without chunk framing.
    pub body: Vec<u8>,
}

/// Why there is no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The server closed the connection before the first byte of a reply.
    Closed,
    /// The server closed the connection within a reply, after this many bytes.
    CutShort(usize),
    /// The connection was reset.
    Reset,
    /// Nothing arrived for [`TIMEOUT`].
    Silent,
    /// The reply breaks the rules of HTTP.
    Malformed(String),
}

impl Client {
    /// Connects to an address.
    pub fn connect(address: SocketAddr) -> Self {
        Self::over(connect(address).expect("the server takes connections"))
    }

    /// A connection that accepts at most a few kilobytes that the test does not read.
    pub fn connect_narrow(address: SocketAddr) -> Self {
        Self::try_connect_narrow(address).expect("the server takes connections")
    }

    /// Like [`connect_narrow`](Self::connect_narrow), to a server that may have exited.
    pub fn try_connect_narrow(address: SocketAddr) -> io::Result<Self> {
        Self::connect_with_room(address, 4096)
    }

    /// A connection with a receive buffer of about that size (`SO_RCVBUF`).
    pub fn connect_with_room(address: SocketAddr, bytes: usize) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.set_recv_buffer_size(bytes)?;
        tunnel::connect(&socket, address, TIMEOUT)?;
        Ok(Self::over(socket.into()))
    }

    /// Uses an existing connection.
    pub fn over(stream: TcpStream) -> Self {
        stream.set_nodelay(true).expect("an option of TCP");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        stream.set_write_timeout(Some(TIMEOUT)).expect("a timeout");
        Self { stream, buffer: Vec::new(), takes_chunks: false, asked: SystemTime::now() }
    }

    /// Accepts replies of unknown length, which applications send.
    pub fn taking_chunks(self) -> Self {
        Self { takes_chunks: true, ..self }
    }

    /// Sends bytes as they are.
    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.asked = SystemTime::now();
        self.stream.write_all(bytes.as_ref()).expect("the server takes bytes");
    }

    /// Sends bytes to a server that may have exited. Returns whether they were sent.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.asked = SystemTime::now();
        self.stream.write_all(bytes.as_ref()).is_ok()
    }

    /// Sends a request without a body.
    #[track_caller]
    pub fn ask(&mut self, method: &str, target: &str, fields: &[(&str, &str)]) {
        self.send(request(method, target, fields));
    }

    /// Sends a request and reads its reply.
    #[track_caller]
    pub fn fetch(&mut self, method: &str, target: &str, fields: &[(&str, &str)]) -> Reply {
        self.ask(method, target, fields);
        self.reply_to(method)
    }

    /// Sends a GET request and reads its reply.
    #[track_caller]
    pub fn get(&mut self, target: &str) -> Reply {
        self.fetch("GET", target, &[])
    }

    /// Reads the reply to a request with any method except HEAD.
    #[track_caller]
    pub fn reply(&mut self) -> Reply {
        self.reply_to("GET")
    }

    /// Reads the reply to a request with this method.
    #[track_caller]
    pub fn reply_to(&mut self, method: &str) -> Reply {
        match self.try_reply_to(method) {
            Ok(reply) => reply,
            Err(broken) => panic!("no reply: {broken:?}; {:?}", String::from_utf8_lossy(&self.buffer)),
        }
    }

    /// Reads the reply to a request with any method except HEAD, or returns why there is none.
    pub fn try_reply(&mut self) -> Result<Reply, Broken> {
        self.try_reply_to("GET")
    }

    /// Reads the reply to a request with this method, or returns why there is none.
    pub fn try_reply_to(&mut self, method: &str) -> Result<Reply, Broken> {
        let head_len = loop {
            if let Some(at) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            if self.fill()? == 0 {
                return Err(self.ended());
            }
        };
        let mut reply = parse_head(&self.buffer[..head_len], self.asked).map_err(Broken::Malformed)?;
        if self.takes_chunks && reply.is_of_unknown_length() {
            self.buffer.drain(..head_len);
            reply.body = match reply.field("Transfer-Encoding") {
                _ if method == "HEAD" => Vec::new(),
                Some("chunked") => self.read_chunks()?,
                Some(other) => return Err(Broken::Malformed(format!("Transfer-Encoding {other:?}"))),
                None => self.read_to_end()?,
            };
            return Ok(reply);
        }
        let length = reply.body_length(method).map_err(Broken::Malformed)?;
        while self.buffer.len() < head_len + length {
            if self.fill()? == 0 {
                return Err(self.ended());
            }
        }
        reply.body = self.buffer[head_len..head_len + length].to_vec();
        self.buffer.drain(..head_len + length);
        Ok(reply)
    }

    fn read_chunks(&mut self) -> Result<Vec<u8>, Broken> {
        let mut body = Vec::new();
        loop {
            let line_end = loop {
                if let Some(at) = self.buffer.windows(2).position(|two| two == b"\r\n") {
                    break at;
                }
                if self.fill()? == 0 {
                    return Err(Broken::CutShort(body.len()));
                }
            };
            let size = String::from_utf8_lossy(&self.buffer[..line_end]).into_owned();
            let malformed = || Broken::Malformed(format!("a chunk of {size:?}"));
            let size = usize::from_str_radix(&size, 16).map_err(|_| malformed())?;
            let (from, to) = (line_end + 2, line_end + 2 + size);
            while self.buffer.len() < to + 2 {
                if self.fill()? == 0 {
                    return Err(Broken::CutShort(body.len()));
                }
            }
            body.extend_from_slice(&self.buffer[from..to]);
            if self.buffer[to..to + 2] != *b"\r\n" {
                return Err(malformed());
            }
            self.buffer.drain(..to + 2);
            if size == 0 {
                return Ok(body);
            }
        }
    }

    fn read_to_end(&mut self) -> Result<Vec<u8>, Broken> {
        while self.fill()? > 0 {}
        Ok(std::mem::take(&mut self.buffer))
    }

    /// Reads replies until the connection ends, in any way.
    pub fn replies_until_end(&mut self) -> (Vec<Reply>, Broken) {
        let mut replies = Vec::new();
        loop {
            match self.try_reply() {
                Ok(reply) => replies.push(reply),
                Err(broken) => return (replies, broken),
            }
        }
    }

    /// Expects that the server closes the connection normally, and that nothing arrives before that.
    #[track_caller]
    pub fn expect_close(&mut self) {
        assert_eq!(self.try_reply(), Err(Broken::Closed));
    }

    /// Expects that the server ends the connection, possibly by a reset, and that nothing arrives before
    /// that.
    #[track_caller]
    pub fn expect_end(&mut self) {
        let end = self.try_reply();
        assert!(matches!(end, Err(Broken::Closed | Broken::Reset)), "{end:?}");
    }

    /// Expects that nothing arrives for this time, not even the end.
    #[track_caller]
    pub fn expect_silence(&mut self, ms: u64) {
        assert_eq!(self.try_reply_within(Duration::from_millis(ms)), Err(Broken::Silent));
    }

    /// Reads a reply that begins within this time, or returns why there is none.
    pub fn try_reply_within(&mut self, time: Duration) -> Result<Reply, Broken> {
        self.stream.set_read_timeout(Some(time)).expect("a timeout");
        let reply = self.try_reply();
        self.stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        reply
    }

    /// Reads raw bytes, until the end or `most`. Returns fewer at the end of the connection.
    pub fn read_raw(&mut self, most: usize) -> Result<Vec<u8>, Broken> {
        while self.buffer.len() < most && self.fill()? > 0 {}
        let taken = self.buffer.len().min(most);
        Ok(self.buffer.drain(..taken).collect())
    }

    /// Returns raw bytes to the buffer, to be read again.
    pub fn unread(&mut self, bytes: Vec<u8>) {
        self.buffer.splice(..0, bytes);
    }

    /// Shuts down the sending direction. Reading continues.
    pub fn half_close(&mut self) {
        self.stream.shutdown(Shutdown::Write).expect("a connection that can be half-closed");
    }

    /// Ends the connection with a reset.
    pub fn reset(self) {
        SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)).expect("an option of sockets");
    }

    fn fill(&mut self) -> Result<usize, Broken> {
        let mut piece = [0; 16 << 10];
        loop {
            match self.stream.read(&mut piece) {
                Ok(count) => {
                    self.buffer.extend_from_slice(&piece[..count]);
                    return Ok(count);
                }
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => return Err(Broken::Silent),
                    ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => return Err(Broken::Reset),
                    _ => panic!("reading from the server: {error}"),
                },
            }
        }
    }

    fn ended(&self) -> Broken {
        if self.buffer.is_empty() { Broken::Closed } else { Broken::CutShort(self.buffer.len()) }
    }
}

impl Reply {
    /// The value of a field that is present at most once.
    #[track_caller]
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.fields.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        let value = values.next();
        assert_eq!(values.next(), None, "{name} is repeated");
        value.map(|(_, value)| value.as_str())
    }

    /// The value of a required field.
    #[track_caller]
    pub fn need(&self, name: &str) -> &str {
        self.field(name).unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Whether the reply says that the connection ends after it.
    pub fn closes(&self) -> bool {
        self.field("Connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    /// The elements of a field whose value is a list, in lower case.
    pub fn list(&self, name: &str) -> Vec<String> {
        let value = self.field(name).unwrap_or_default().to_ascii_lowercase();
        value.split(',').map(|element| element.trim().to_owned()).collect()
    }

    /// Whether there may be a body of unknown length.
    fn is_of_unknown_length(&self) -> bool {
        self.field("Content-Length").is_none() && !matches!(self.status, 100..=199 | 204 | 304)
    }

    /// The length of the body that follows (RFC 9112 section 6.3). A file server knows all lengths in
    /// advance.
    fn body_length(&self, method: &str) -> Result<usize, String> {
        let length = match self.field("Content-Length") {
            Some(text) if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) => {
                Some(text.parse().map_err(|_| format!("Content-Length {text:?}"))?)
            }
            Some(text) => return Err(format!("Content-Length {text:?}")),
            None => None,
        };
        if self.field("Transfer-Encoding").is_some() {
            return Err("a file's length is known, and yet it is chunked".to_owned());
        }
        match (self.status, length) {
            (100..=199 | 204, Some(_)) => Err(format!("Content-Length in a {}", self.status)),
            (100..=199 | 204 | 304, _) => Ok(0),
            (_, length) if method == "HEAD" => {
                length.map(|_| 0).ok_or_else(|| "no Content-Length".to_owned())
            }
            (_, length) => length.ok_or_else(|| "no Content-Length".to_owned()),
        }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.body.len().min(200);
        write!(f, "{} {} {:?} ", self.status, self.reason, self.fields)?;
        write!(f, "{} bytes {:?}", self.body.len(), String::from_utf8_lossy(&self.body[..shown]))
    }
}

/// Connects to a server. Through a tunnel to it, this ends as it would without the tunnel.
pub fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    connect_within(address, TIMEOUT)
}

/// Like [`connect`], within this time.
pub fn connect_within(address: SocketAddr, time: Duration) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    tunnel::connect(&socket, address, time)?;
    Ok(socket.into())
}

/// A request without a body.
pub fn request(method: &str, target: &str, fields: &[(&str, &str)]) -> String {
    let mut text = format!("{method} {target} HTTP/1.1\r\nHost: test\r\n");
    for (name, value) in fields {
        for part in [name, ": ", value, "\r\n"] {
            text.push_str(part);
        }
    }
    text + "\r\n"
}

/// A POST request with this body.
pub fn post(target: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len().to_string();
    [request("POST", target, &[("Content-Length", &length)]).as_bytes(), body].concat()
}

/// Sends bytes on a new connection and reads one reply.
#[track_caller]
pub fn one(address: SocketAddr, bytes: impl AsRef<[u8]>) -> Reply {
    let mut client = Client::connect(address);
    client.send(bytes);
    client.reply()
}

/// Fields that may be sent on several lines.
const LISTS: [&str; 7] =
    ["allow", "cache-control", "connection", "content-encoding", "link", "set-cookie", "vary"];

fn parse_head(head: &[u8], asked: SystemTime) -> Result<Reply, String> {
    let text = std::str::from_utf8(head).map_err(|_| "a head that is not UTF-8")?;
    let mut lines = text.strip_suffix("\r\n\r\n").expect("ends so").split("\r\n");
    let line = lines.next().unwrap_or_default();
    let (status, reason) = parse_status_line(line).ok_or_else(|| format!("status line {line:?}"))?;
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in lines {
        let (name, value) = line.split_once(": ").ok_or_else(|| format!("field line {line:?}"))?;
        let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        let is_text = |b: u8| matches!(b, b'\t' | b' '..=b'~' | 0x80..);
        if name.is_empty()
            || !name.bytes().all(is_token)
            || !value.bytes().all(is_text)
            || value.trim() != value
        {
            return Err(format!("field line {line:?}"));
        }
        if fields.iter().any(|(other, _)| other.eq_ignore_ascii_case(name))
            && !LISTS.contains(&name.to_ascii_lowercase().as_str())
        {
            return Err(format!("{name} is repeated"));
        }
        fields.push((name.to_owned(), value.to_owned()));
    }
    let reply = Reply { status, reason, fields, body: Vec::new() };
    if status >= 200 {
        check_date(&reply, asked)?;
    }
    Ok(reply)
}

/// Checks that a final reply says when it was made (RFC 9110 section 6.6.1): after the request and before
/// now, with a tolerance for a busy machine.
fn check_date(reply: &Reply, asked: SystemTime) -> Result<(), String> {
    const OFF: Duration = Duration::from_secs(5);
    let date = reply.field("Date").ok_or("no Date")?;
    let time = httpdate::parse_http_date(date).map_err(|_| format!("Date {date:?}"))?;
    let now = SystemTime::now();
    if !(asked - OFF..=now + OFF).contains(&time) {
        return Err(format!("Date {date:?}, asked {asked:?}, now {now:?}"));
    }
    Ok(())
}

fn parse_status_line(line: &str) -> Option<(u16, String)> {
    let (code, reason) = line.strip_prefix("HTTP/1.1 ")?.split_once(' ')?;
    let good = code.len() == 3 && code.bytes().all(|b| b.is_ascii_digit());
    good.then(|| (code.parse().expect("three digits"), reason.to_owned()))
}

/// How long `act` takes.
pub fn time(act: impl FnOnce()) -> Duration {
    let began = Instant::now();
    act();
    began.elapsed()
}
