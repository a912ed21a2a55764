//! After the first requests of their kind, keep-alive requests allocate nothing: counted by an allocator that
//! the whole program uses, for each event mechanism, with and without an access log. (Left out are requests
//! for several ranges, whose replies of many pieces need lists that are too rare to be kept.)
//!
//! The event loop runs in a thread, its client in another, which between two readings of the allocator's
//! count writes what it prepared and reads into what it has. Everything counted is the server's.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use server::access_log::{AccessLogs, LogFile, Writer};
use server::architecture::sped;
use server::config::{
    AccessLogSettings, Events, HostPattern, ListenAddress, LogFormat, LogTarget, Settings, SiteSettings,
    WhenBehind,
};
use server::content::{Content, Resolvers};
use server::control::{Control, Phase};
use server::counters::Counters;
use server::listeners::{Listener, Share};
use server::queues::{Lines, Queues};
use server::service::Service;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// Requests of each kind between two readings. All of them together must take less than a minute, on a busy
/// machine too: after that the test harness prints that the test is slow, and what it allocates counts.
const REQUESTS: usize = 504;

/// The access log makes so many buffers when its writer falls behind, and then keeps them.
const LOG_BUFFERS: u64 = 16;

/// What is asked for: a name, the request, and how often it stands in one message.
const KINDS: [(&str, &str, usize); 10] = [
    ("a file in memory", "GET /small.html HTTP/1.1\r\nHost: x\r\nUser-Agent: test\r\nAccept: */*\r\n\r\n", 1),
    ("a file by sendfile", "GET /large.bin HTTP/1.1\r\nHost: x\r\n\r\n", 1),
    ("an index file", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 1),
    ("HEAD", "HEAD /small.html HTTP/1.1\r\nHost: x\r\n\r\n", 1),
    ("OPTIONS", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 1),
    (
        "a precompressed sibling",
        "GET /small.html HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip, br\r\n\r\n",
        1,
    ),
    (
        "304",
        "GET /small.html HTTP/1.1\r\nHost: x\r\nIf-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT\r\n\r\n",
        1,
    ),
    ("a range", "GET /large.bin HTTP/1.1\r\nHost: x\r\nRange: bytes=100-299\r\n\r\n", 1),
    ("404", "GET /absent HTTP/1.1\r\nHost: x\r\n\r\n", 1),
    ("pipelined requests", "GET /small.html HTTP/1.1\r\nHost: x\r\n\r\n", 8),
];

/// One test: others would be counted with it.
#[test]
fn keep_alive_requests_allocate_nothing() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let site = tempfile::tempdir().unwrap();
    let root = site.path().join("root");
    fs::create_dir(&root).unwrap();
    for (name, bytes) in
        [("small.html", 1_000), ("small.html.gz", 300), ("index.html", 2_000), ("large.bin", 200_000)]
    {
        fs::write(root.join(name), vec![b'x'; bytes]).unwrap();
    }
    // A file that has just changed is not believed, and read anew.
    thread::sleep(Duration::from_millis(100));
    for mechanism in [Events::Epoll, Events::EpollLevel, Events::Poll, Events::Select] {
        for logged in [false, true] {
            let log = logged.then(|| site.path().join("access.log"));
            count(mechanism, &root, log.as_deref());
        }
    }
}

/// Starts an event loop, asks for everything until it has settled, and then counts.
fn count(mechanism: Events, root: &Path, log: Option<&Path>) {
    let mut settings = Settings::new(root.to_owned());
    settings.listen = vec![ListenAddress::Tcp(([127, 0, 0, 1], 0).into())];
    settings.event.mechanism = mechanism;
    settings.connections.requests = u32::MAX.try_into().unwrap();
    settings.files.precompressed = true;
    // Within this time, what is on the disk is not looked at again.
    settings.files.validity = Duration::from_hours(1);
    let hosts = [("x", false), ("example.org", true)];
    let hosts = hosts.map(|(host, below)| HostPattern { host: host.to_owned(), below }).into();
    // One site has a log of its own.
    let to = |path: PathBuf| AccessLogSettings {
        target: LogTarget::File(path),
        format: LogFormat::Combined,
        when_full: WhenBehind::Wait,
    };
    settings.access_log = log.map(|path| to(path.to_owned()));
    let access_log = log.map(|path| to(path.with_file_name("site.log")));
    settings.sites = vec![SiteSettings::new(hosts, access_log, settings.files.clone())];

    let counters: &'static Counters = Box::leak(Box::default());
    let start =
        |log: &AccessLogSettings| Writer::start(LogFile::open(&log.target, None).unwrap().into(), 1).unwrap();
    let writers: Vec<_> = settings.access_logs().into_iter().map(start).collect();
    let access_logs = AccessLogs::new(&settings, &writers, counters);
    let listener = Listener::open(&settings.listen[0], &settings).unwrap();
    let ListenAddress::Tcp(address) = listener.address else { panic!("opened as TCP") };
    let control = Arc::new(Control::new().unwrap());
    let server = thread::spawn({
        let (settings, control) = (settings.clone(), Arc::clone(&control));
        move || {
            let sites = settings.all_sites();
            let resolvers = Arc::new(Resolvers::new(&sites).unwrap());
            let content = Content::new(resolvers, &sites, 10, settings.limits.ranges);
            let service = Service::new(
                content,
                &settings,
                counters,
                access_logs,
                None,
                Queues::new(&settings, 1, 0, &mut Lines::default()).unwrap().queue_handle(0),
            )
            .unwrap();
            let share = Share { serving: vec![Arc::new(listener)], retiring: Vec::new() };
            sped::run(service, share, &settings, control).unwrap();
        }
    });

    for (name, request, pipelined) in KINDS {
        let mut client = Client::new(address, request, pipelined);
        client.ask(REQUESTS / pipelined);
        let before = dhat::HeapStats::get().total_blocks;
        client.ask(REQUESTS / pipelined);
        let allocated = dhat::HeapStats::get().total_blocks - before;
        let allowed = if log.is_some() { LOG_BUFFERS } else { 0 };
        let logged = if log.is_some() { ", logged" } else { "" };
        assert!(
            allocated <= allowed,
            "{mechanism:?}, {name}{logged}: {allocated} allocations in {REQUESTS} requests"
        );
    }
    control.enter(Phase::Stop);
    server.join().unwrap();
    for writer in writers {
        writer.end().wait();
    }
}

/// A connection that asks for the same again and again.
struct Client {
    stream: TcpStream,
    message: Vec<u8>,
    /// Bytes of all replies to one message.
    expected: usize,
    room: Box<[u8]>,
}

impl Client {
    /// Connects, and asks once for a reply's length.
    fn new(address: SocketAddr, request: &str, pipelined: usize) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut reply = vec![0; 1 << 20];
        let mut received = 0;
        let length = loop {
            let n = stream.read(&mut reply[received..]).unwrap();
            assert!(n > 0, "the server closed the connection");
            received += n;
            let Some(end) = reply[..received].windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
                continue;
            };
            let head = String::from_utf8(reply[..end].to_ascii_lowercase()).unwrap();
            let bodiless = request.starts_with("HEAD") || head.contains(" 304 ") || head.contains(" 204 ");
            let body = match head.split("content-length: ").nth(1) {
                Some(rest) if !bodiless => rest.lines().next().unwrap().parse().unwrap(),
                _ => 0,
            };
            break end + 4 + body;
        };
        while received < length {
            received += stream.read(&mut reply[received..]).unwrap();
        }
        assert_eq!(received, length);
        let message = request.repeat(pipelined).into_bytes();
        Self { stream, message, expected: length * pipelined, room: reply.into() }
    }

    fn ask(&mut self, messages: usize) {
        for _ in 0..messages {
            self.stream.write_all(&self.message).unwrap();
            let mut left = self.expected;
            while left > 0 {
                let n = self.stream.read(&mut self.room).unwrap();
                assert!(n > 0 && n <= left, "{n} bytes, {left} expected");
                left -= n;
            }
        }
    }
}
