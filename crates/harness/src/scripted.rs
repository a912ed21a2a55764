//! An application on a Unix socket that behaves as a test says, and the standard site with such an
//! application. It shares no code with the server.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use crate::conveyed;
use crate::guest::{self, pairs};
use crate::server::{Server, Setup};
use crate::variant::Variant;

/// A request, and the connection to answer it on.
pub struct Asked {
    /// The parameters, by name.
    pub params: BTreeMap<String, String>,
    /// The body.
    pub body: Vec<u8>,
    /// The connection from the server.
    pub stream: UnixStream,
    /// The number of the request on its connection, and whether the connection must stay open.
    number: u8,
    keeps: bool,
}

/// A record with this kind and content, for the first request of a connection.
pub fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    numbered(1, kind, content)
}

fn numbered(number: u8, kind: u8, content: &[u8]) -> Vec<u8> {
    let mut records = Vec::new();
    for content in content.chunks(60_000) {
        let length = (content.len() as u16).to_be_bytes();
        records.extend_from_slice(&[1, kind, 0, number, length[0], length[1], 0, 0]);
        records.extend_from_slice(content);
    }
    records
}

/// The record that ends a request successfully.
pub fn end() -> Vec<u8> {
    record(3, &[0; 8])
}

/// A complete answer.
pub fn answer(response: impl AsRef<[u8]>) -> Vec<u8> {
    [record(6, response.as_ref()), end()].concat()
}

impl Asked {
    /// Sends records. Returns false if the server no longer reads them, which does not concern the
    /// application.
    pub fn say(&mut self, records: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(records.as_ref()).is_ok()
    }

    /// Answers the request, and sends the end of it `ends` times.
    pub fn answer(&mut self, response: &str, ends: usize) -> bool {
        let end = numbered(self.number, 3, &[0; 8]).repeat(ends);
        self.say([numbered(self.number, 6, response.as_bytes()), end].concat())
    }

    /// Records with these kinds and contents, for this request.
    pub fn numbered(&self, records: &[(u8, &[u8])]) -> Vec<u8> {
        records.iter().flat_map(|(kind, content)| numbered(self.number, *kind, content)).collect()
    }

    /// Reads the next record and returns its kind.
    pub fn next_record(&mut self) -> Option<u8> {
        read_record(&mut self.stream).ok().map(|(kind, ..)| kind)
    }
}

/// Starts an application that answers each connection in its own thread until the process ends.
pub fn start<R>(directory: &Path, name: &str, serve: impl Fn(Asked) -> R + Send + Sync + 'static) -> PathBuf {
    let serve = move |stream| {
        if let Ok(asked) = read(stream) {
            assert!(!asked.keeps, "nobody asked for that");
            serve(asked);
        }
    };
    let path = directory.join(name);
    if conveyed::transport() == "stream" { listen(path, serve) } else { conveyed::start(&path, serve) }
}

/// Serves each connection to a socket with this path in its own thread.
fn listen(path: PathBuf, serve: impl Fn(UnixStream) + Send + Sync + 'static) -> PathBuf {
    let listener = UnixListener::bind(&path).expect("a socket");
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let serve = Arc::clone(&serve);
            thread::spawn(move || serve(stream.expect("a connection")));
        }
    });
    path
}

/// Starts an application that takes several requests from each connection, one after the other, while it
/// and the server keep the connection. `serve` also gets how many requests came before.
pub fn start_keeping(
    directory: &Path,
    name: &str,
    serve: impl Fn(&mut Asked, usize) -> bool + Send + Sync + 'static,
) -> PathBuf {
    listen(directory.join(name), move |mut stream| {
        for before in 0.. {
            let Ok(mut asked) = read(stream) else { return };
            assert_eq!(usize::from(asked.number), 1 + before % 2, "by turns");
            if !serve(&mut asked, before) || !asked.keeps {
                return;
            }
            stream = asked.stream;
        }
    })
}

/// The standard site with a pool for all paths below `/app/`. This process is the application.
pub fn scripted_site<R>(variant: &Variant, serve: impl Fn(Asked) -> R + Send + Sync + 'static) -> Server {
    scripted_site_with(variant, "", serve)
}

/// A [`scripted_site`] whose pool has these settings.
pub fn scripted_site_with<R>(
    variant: &Variant,
    of_pool: &str,
    serve: impl Fn(Asked) -> R + Send + Sync + 'static,
) -> Server {
    gateway_site(variant, "", of_pool, serve)
}

/// A site like that of [`scripted_site_with`], with settings of the gateway as well.
pub fn gateway_site<R>(
    variant: &Variant,
    of_gateway: &str,
    of_pool: &str,
    serve: impl Fn(Asked) -> R + Send + Sync + 'static,
) -> Server {
    let setup = Setup::new(variant);
    let socket = start(setup.directory(), "app.sock", serve);
    setup.config(&format!("{}[gateway]\n{of_gateway}\n", pool(&[&socket], of_pool))).start()
}

/// The standard site with a pool that uses this transport, for all paths below `/app/`. The application
/// reports when it waits.
pub fn guest_site(
    variant: &Variant,
    transport: &'static str,
    more: &str,
    serve: impl Fn(guest::Asked) -> Option<guest::Connection> + Send + Sync + 'static,
) -> Server {
    let setup = Setup::new(variant);
    let knows = if transport == "pass-fd" { "pass-fd waits" } else { "shared-memory waits" };
    let socket = guest::start(setup.directory(), "app.sock", knows, serve);
    let more = format!("transport = '{transport}'\n{more}");
    setup.config(&pool(&[&socket], &more)).start()
}

/// A pool `app` of applications on these sockets, with additional settings, and a route to it for
/// `/app/**`.
pub fn pool(sockets: &[&Path], more: &str) -> String {
    let transport = match conveyed::transport() {
        "stream" => String::new(),
        transport => format!("transport = '{transport}'\n"),
    };
    let sockets: Vec<_> = sockets.iter().map(|socket| format!("'unix:{}'", socket.display())).collect();
    format!(
        "[[pools]]\nname = 'app'\nservers = [{}]\n{transport}{more}\n\
         [[routes]]\npath = '/app/**'\npool = 'app'\nprogram = '/srv/app'\n",
        sockets.join(", ")
    )
}

/// Reads a request, or first a question. `answer` answers the question, and says whether a request
/// follows.
pub fn read_or_question(
    mut stream: UnixStream,
    answer: impl FnOnce(&mut UnixStream) -> bool,
) -> Option<Asked> {
    let first = read_record(&mut stream).ok()?;
    if first.0 != 9 {
        return read_on(stream, Some(first)).ok();
    }
    if answer(&mut stream) { read(stream).ok() } else { None }
}

fn read(stream: UnixStream) -> io::Result<Asked> {
    read_on(stream, None)
}

/// Reads a request whose first record may already have been read.
fn read_on(mut stream: UnixStream, mut first: Option<(u8, Vec<u8>, u8)>) -> io::Result<Asked> {
    let (mut number, mut keeps) = (0, false);
    let (mut params, mut body, mut kinds) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        let (kind, content, of) = match first.take() {
            Some(record) => record,
            None => read_record(&mut stream)?,
        };
        kinds.push(kind);
        match kind {
            1 => {
                (number, keeps) = (of, content[2] != 0);
                assert_eq!(content, [0, 1, keeps.into(), 0, 0, 0, 0, 0], "a responder");
            }
            _ if of != number => panic!("a record of request {of} in {number}"),
            4 => params.extend_from_slice(&content),
            5 if content.is_empty() => break,
            5 => body.extend_from_slice(&content),
            other => panic!("a record of kind {other} in {kinds:?}"),
        }
    }
    Ok(Asked { params: pairs(&params), body, stream, number, keeps })
}

/// Reads the next record: kind, content, and the number of its request.
fn read_record(stream: &mut UnixStream) -> io::Result<(u8, Vec<u8>, u8)> {
    let mut header = [0; 8];
    stream.read_exact(&mut header)?;
    assert_eq!((header[0], header[2]), (1, 0));
    let mut content = vec![0; usize::from(u16::from_be_bytes([header[4], header[5]]))];
    stream.read_exact(&mut content)?;
    io::copy(&mut stream.take(header[6].into()), &mut io::sink())?;
    Ok((header[1], content, header[3]))
}
