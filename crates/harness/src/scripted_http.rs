//! An application that speaks HTTP on a Unix socket, and behaves as a test says. It shares no code with the
//! server.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

/// A request, and the connection to answer it on.
pub struct Asked {
    /// The request line.
    pub line: String,
    /// The field lines, in order.
    pub fields: Vec<String>,
    /// The body.
    pub body: Vec<u8>,
    /// How many requests came before on this connection.
    pub before: usize,
    stream: BufReader<UnixStream>,
}

impl Asked {
    /// Sends bytes. Returns false if the server no longer reads them, which does not concern the application.
    pub fn say(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.get_mut().write_all(bytes.as_ref()).is_ok()
    }

    /// The path of the request, without its query.
    pub fn path(&self) -> &str {
        self.target().split('?').next().unwrap_or_default()
    }

    /// The query of the request, with blanks for hyphens.
    pub fn query(&self) -> String {
        self.target().split_once('?').map_or("", |(_, query)| query).replace('-', " ")
    }

    /// The target of the request.
    pub fn target(&self) -> &str {
        self.line.split(' ').nth(1).unwrap_or_default()
    }

    /// The value of the only field with this name.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.fields.iter().filter_map(|line| {
            let (field, value) = line.split_once(": ")?;
            field.eq_ignore_ascii_case(name).then_some(value)
        });
        let value = values.next();
        assert_eq!(values.next(), None, "{name} comes twice: {:?}", self.fields);
        value
    }

    /// Switches to another protocol, with these fields besides.
    pub fn switch(&mut self, protocol: &str, more: &str) {
        let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n";
        self.say(format!("{head}Upgrade: {protocol}\r\n{more}\r\n"));
    }

    /// Some of what comes next, as it is. Empty: the end.
    pub fn hear(&mut self) -> Vec<u8> {
        let mut heard = vec![0; 64 << 10];
        // An error is an end as well.
        let count = self.stream.read(&mut heard).unwrap_or(0);
        heard.truncate(count);
        heard
    }

    /// The connection, for threads that hear and say at the same time.
    pub fn stream(&self) -> UnixStream {
        self.stream.get_ref().try_clone().expect("a descriptor")
    }

    /// Waits until the server closes the connection.
    pub fn wait_for_end(&mut self) {
        let _ = self.stream.read_to_end(&mut Vec::new());
    }
}

/// Starts an application that answers each connection in its own thread until the process ends. `serve`
/// returns whether it takes another request from the connection.
pub fn start(
    directory: &Path,
    name: &str,
    serve: impl Fn(&mut Asked) -> bool + Send + Sync + 'static,
) -> PathBuf {
    let path = directory.join(name);
    let listener = UnixListener::bind(&path).expect("a socket");
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (serve, stream) = (Arc::clone(&serve), stream.expect("a connection"));
            thread::spawn(move || {
                let mut stream = BufReader::new(stream);
                for before in 0.. {
                    let Some(mut asked) = read(stream, before) else { return };
                    if !serve(&mut asked) {
                        return;
                    }
                    stream = asked.stream;
                }
            });
        }
    });
    path
}

/// Starts an application that gets the head of a request as text, and the connection with the body unread. It
/// takes one request from each connection.
pub fn start_unread(
    directory: &Path,
    name: &str,
    serve: impl Fn(&str, BufReader<UnixStream>) + Send + Sync + 'static,
) -> PathBuf {
    let path = directory.join(name);
    let listener = UnixListener::bind(&path).expect("a socket");
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (serve, stream) = (Arc::clone(&serve), stream.expect("a connection"));
            thread::spawn(move || {
                let (mut stream, mut head) = (BufReader::new(stream), String::new());
                while !head.ends_with("\r\n\r\n") {
                    match stream.read_line(&mut head) {
                        Ok(1..) => {}
                        _ => return,
                    }
                }
                serve(&head, stream);
            });
        }
    });
    path
}

/// Reads a request. `None`: there is no other.
fn read(mut stream: BufReader<UnixStream>, before: usize) -> Option<Asked> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            assert!(lines.is_empty(), "a request that is cut off: {lines:?}");
            return None;
        }
        let line = line.strip_suffix("\r\n").unwrap_or_else(|| panic!("no line of HTTP: {line:?}"));
        if line.is_empty() {
            break;
        }
        lines.push(line.to_owned());
    }
    let fields = lines.split_off(1);
    let mut asked = Asked { line: lines.remove(0), fields, body: Vec::new(), before, stream };
    assert_eq!(asked.field("Transfer-Encoding"), None, "the server knows how long the body is");
    let length = asked.field("Content-Length").map_or(0, |length| length.parse().expect("a length"));
    asked.body.resize(length, 0);
    asked.stream.read_exact(&mut asked.body).ok()?;
    Some(asked)
}
