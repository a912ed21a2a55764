//! An application in a thread, and a web server that asks it: `fastcgi`'s own state machine over blocking
//! sockets.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use fastcgi::record::{self, Kind};
use fastcgi::transport::{self, Area, Filled, Lent, Returned};
use fastcgi::{Output, Params, Role, Transports};
use fcgi::{Listener, Request, Session};
use sys::event::Interest;
use sys::memory_file::Mapping;
use sys::socket::Slice;
use tempfile::TempDir;

/// An application whose requests a thread answers; the thread ends with the test's process.
pub(crate) struct Application {
    directory: TempDir,
}

/// One connection to it.
pub(crate) struct WebServer {
    socket: UnixStream,
    protocol: fastcgi::WebServer,
    request: u16,
    /// The chunk that was looked at last and is not freed yet.
    used: Option<u16>,
    /// How often it has said that it waits for the next request.
    pub(crate) waits: usize,
}

/// What an application said. Pieces of a stream that follow each other are one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    Returned(Returned),
    Filled(Filled),
    End(u32),
}

impl Said {
    /// It, unless it is a stream without a byte.
    pub(crate) fn or_nothing(self) -> Option<Self> {
        match &self {
            Self::Stdout(bytes) | Self::Stderr(bytes) if bytes.is_empty() => None,
            _ => Some(self),
        }
    }
}

impl Application {
    /// One that answers each request so, and ends it with what that gives.
    pub(crate) fn start(answer: impl Fn(&mut Request<'_>) -> io::Result<u32> + Send + 'static) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join("socket")).unwrap();
        std::thread::spawn(move || {
            let listener = Listener::of(listener).unwrap();
            let mut session = Session::new();
            while let Some(mut request) = session.accept(&listener).unwrap() {
                let exit = answer(&mut request).unwrap_or(99);
                let _ = request.finish(exit);
            }
        });
        Self { directory }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    pub(crate) fn connect(&self) -> WebServer {
        WebServer::connect(&self.path())
    }
}

impl WebServer {
    /// A connection to the application that listens there.
    pub(crate) fn connect(path: &Path) -> Self {
        let protocol = fastcgi::WebServer::default();
        Self { socket: UnixStream::connect(path).unwrap(), protocol, request: 0, used: None, waits: 0 }
    }

    /// Asks which transports it knows.
    pub(crate) fn ask(&mut self) -> Transports {
        let mut out = Vec::new();
        transport::question(&mut out);
        self.socket.write_all(&out).unwrap();
        let mut knows = None;
        self.receive(|_, output, _| {
            if let Output::Knows(transports) = output {
                knows = Some(*transports);
            }
            knows.is_some()
        });
        knows.expect("an answer")
    }

    /// Begins a request.
    pub(crate) fn begin(&mut self, role: Role, keeps: bool, params: &[(&str, &str)], body: &[u8]) {
        let mut out = Vec::new();
        self.request = self.protocol.begin(&mut out, role, keeps);
        self.write_params(&mut out, params);
        self.write_body(out, body);
    }

    /// Begins a request whose client is lent.
    pub(crate) fn lend(
        &mut self,
        lent: Lent<'_>,
        client: BorrowedFd<'_>,
        params: &[(&str, &str)],
        body: &[u8],
    ) {
        let mut out = Vec::new();
        self.request = self.protocol.begin(&mut out, Role::Responder, true);
        transport::lend(&mut out, self.request, lent);
        self.write_params(&mut out, params);
        let count = sys::socket::send_with(&self.socket, &[Slice::new(&out)], client).unwrap();
        assert_eq!(count, out.len());
        self.write_body(Vec::new(), body);
    }

    /// The same without waiting for the application to take all of the body.
    pub(crate) fn lend_at_once(&mut self, lent: Lent<'_>, client: BorrowedFd<'_>, body: &[u8]) {
        self.lend(lent, client, &[], b"");
        // The body had ended: what follows is ignored as a stream, and is in the way as bytes.
        let mut out = Vec::new();
        record::stream(&mut out, Kind::Stdin, self.request, body);
        let _ = sys::socket::send_at_once(&self.socket, &out);
    }

    /// Begins a request whose client does not come.
    pub(crate) fn send_loan_of_nothing(&mut self, lent: Lent<'_>) {
        let mut out = Vec::new();
        self.request = self.protocol.begin(&mut out, Role::Responder, true);
        transport::lend(&mut out, self.request, lent);
        self.socket.write_all(&out).unwrap();
    }

    /// The second stream of a filter's request.
    pub(crate) fn data(&mut self, bytes: &[u8]) {
        let mut out = Vec::new();
        record::stream(&mut out, Kind::Data, self.request, bytes);
        record::end_of_stream(&mut out, Kind::Data, self.request);
        self.socket.write_all(&out).unwrap();
    }

    pub(crate) fn abort(&mut self) {
        let mut out = Vec::new();
        self.protocol.abort(&mut out);
        self.socket.write_all(&out).unwrap();
    }

    pub(crate) fn share(&mut self, area: Area, file: BorrowedFd<'_>) {
        let mut out = Vec::new();
        transport::area(&mut out, area);
        sys::socket::send_with(&self.socket, &[Slice::new(&out)], file).unwrap();
    }

    pub(crate) fn free(&mut self, chunk: u16) {
        let mut out = Vec::new();
        transport::free(&mut out, chunk);
        self.socket.write_all(&out).unwrap();
    }

    /// Says what is to be answered, as long as the application takes any within a while, or up to so many
    /// bytes; and how many were taken.
    pub(crate) fn ask_without_end(&mut self, most: usize) -> usize {
        let unknown = [1, 99, 0, 0, 0, 0, 0, 0].repeat(4_096);
        let mut taken = 0;
        loop {
            let interest = (self.socket.as_fd(), Interest::WRITABLE);
            let [ready] = sys::poll::wait_for([interest], Some(300)).unwrap();
            if !ready.writable || taken > most {
                return taken;
            }
            taken += sys::socket::send_at_once(&self.socket, &unknown[taken % 8..]).unwrap();
        }
    }

    /// Waits until it says something.
    pub(crate) fn await_input(&self) {
        sys::poll::wait_for([(self.socket.as_fd(), Interest::READABLE)], None).unwrap();
    }

    /// Waits until it has said so often that it waits.
    pub(crate) fn await_waits(&mut self, times: usize) {
        while self.waits < times {
            let mut buffer = [0; 64];
            let count = self.socket.read(&mut buffer).unwrap();
            assert!(count > 0, "the application has closed the connection");
            self.hear_that_it_waits(&buffer[..count]);
        }
        assert_eq!(self.waits, times);
    }

    /// It says nothing but that.
    fn hear_that_it_waits(&mut self, mut input: &[u8]) {
        loop {
            match self.protocol.receive(input).unwrap() {
                (_, Output::NeedInput) => return,
                (used, Output::Waits) => {
                    self.waits += 1;
                    input = &input[used..];
                }
                other => panic!("it has said more than it should: {other:?}"),
            }
        }
    }

    /// All that it says until the request is over.
    pub(crate) fn said(&mut self) -> Vec<Said> {
        let mut all: Vec<Said> = Vec::new();
        self.receive(|_, output, bytes| {
            match (output, all.last_mut()) {
                (Output::Stdout(_), Some(Said::Stdout(before)))
                | (Output::Stderr(_), Some(Said::Stderr(before))) => before.extend_from_slice(bytes),
                (Output::Stdout(_), _) => all.push(Said::Stdout(bytes.to_vec())),
                (Output::Stderr(_), _) => all.push(Said::Stderr(bytes.to_vec())),
                (Output::Returned(returned), _) => all.push(Said::Returned(*returned)),
                (Output::Filled(filled), _) => all.push(Said::Filled(*filled)),
                (Output::End { exit }, _) => all.push(Said::End(*exit)),
                (other, _) => panic!("{other:?}"),
            }
            matches!(output, Output::End { .. })
        });
        all
    }

    /// A reply that lies in chunks of shared memory, how many they were, and what is said beside. Each is
    /// freed when the next one is told of, in the next request if need be.
    pub(crate) fn read_shared(&mut self, memory: &Mapping, chunk_size: u32) -> (Vec<u8>, usize, Vec<Said>) {
        let (mut reply, mut count, mut rest) = (Vec::new(), 0, Vec::new());
        self.receive(|this, output, bytes| {
            match output {
                Output::Filled(filled) => {
                    let from = reply.len();
                    reply.resize(from + filled.length as usize, 0);
                    memory.read(usize::from(filled.chunk) * chunk_size as usize, &mut reply[from..]);
                    if let Some(used) = this.used.replace(filled.chunk) {
                        this.free(used);
                    }
                    count += 1;
                }
                Output::Stderr(_) => rest.push(Said::Stderr(bytes.to_vec())),
                Output::End { exit } => rest.push(Said::End(*exit)),
                other => panic!("{other:?}"),
            }
            matches!(output, Output::End { .. })
        });
        (reply, count, rest)
    }

    /// Whether it has closed the connection, after whatever it says.
    pub(crate) fn has_ended(&mut self) -> bool {
        matches!(self.socket.read(&mut [0; 4_096]), Ok(0) | Err(_))
    }

    /// Hands on what it says, with the bytes, until that is enough.
    fn receive(&mut self, mut take: impl FnMut(&mut Self, &Output, &[u8]) -> bool) {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let count = self.socket.read(&mut buffer).unwrap();
            assert!(count > 0, "the application has closed the connection");
            let mut input = &buffer[..count];
            loop {
                let (used, output) = self.protocol.receive(input).unwrap();
                let bytes = match &output {
                    Output::NeedInput => break,
                    Output::Waits => {
                        self.waits += 1;
                        input = &input[used..];
                        continue;
                    }
                    Output::Stdout(range) | Output::Stderr(range) => &input[range.clone()],
                    _ => &[],
                };
                if take(self, &output, bytes) {
                    self.hear_that_it_waits(&input[used..]);
                    return;
                }
                input = &input[used..];
            }
        }
    }

    fn write_params(&self, out: &mut Vec<u8>, pairs: &[(&str, &str)]) {
        let mut params = Params::new(out, self.request);
        for (name, value) in pairs {
            params.pair(name.as_bytes(), value.as_bytes()).unwrap();
        }
        params.finish();
    }

    /// Sends the body behind what is to be sent already. The application may begin to answer while it comes,
    /// so a long one is sent beside.
    fn write_body(&self, mut out: Vec<u8>, body: &[u8]) {
        record::stream(&mut out, Kind::Stdin, self.request, body);
        record::end_of_stream(&mut out, Kind::Stdin, self.request);
        let mut socket = self.socket.try_clone().unwrap();
        let is_short = out.len() < 100_000;
        // The application may answer and end before it has taken all.
        let mut write = move || match socket.write_all(&out) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => panic!("{error}"),
            _ => {}
        };
        if is_short {
            write();
        } else {
            std::thread::spawn(write);
        }
    }
}
