//! What a client may do to a connection after the handshake: negotiate again, change keys, say that it ends,
//! and say that something is wrong. One connection must do the others no harm, and keep nothing.

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use harness::authority::Authority;
use harness::scripted::{self, Asked, answer, pool};
use harness::site::{HELLO, LARGE, pattern};
use harness::tools::{command, stdout};
use harness::variant::{Test, Variant, tests};
use harness::{client::request, sleep_ms};

use crate::https::{Https, in_python, none_is_left, setup};

pub(crate) const TESTS: &[Test] = tests![
    Drivers:
        renegotiation_is_refused,
        keys_may_change,
        ends_that_are_said,
        alerts_in_mid_reply;
    Three: changes_of_keys_without_end;
];

/// `openssl s_client` whose first letter of a line may be a command: `R`, `K`, `k`.
struct Talk {
    client: Child,
    to: ChildStdin,
    from: ChildStdout,
    heard: String,
}

impl Talk {
    fn start(https: &Https, version: &str) -> Self {
        // It must end, even if the server says nothing.
        let client = "exec timeout 60 openssl s_client -connect $0 -CAfile authority.pem $1 2>&1";
        let mut shell = command(https.directory(), "/bin/sh");
        shell.args(["-c", client, &https.address.to_string(), version]);
        let mut client = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a shell");
        let to = client.stdin.take().expect("a pipe");
        let from = client.stdout.take().expect("a pipe");
        let mut talk = Self { client, to, from, heard: String::new() };
        talk.hear("Verify return code: 0 (ok)");
        talk
    }

    /// Sends this in one piece.
    fn say(&mut self, text: &str) {
        self.to.write_all(text.as_bytes()).expect("it reads");
    }

    /// Waits for this. What came before it is forgotten.
    #[track_caller]
    fn hear(&mut self, what: &str) {
        let mut piece = [0; 4096];
        while !self.heard.contains(what) {
            let count = self.from.read(&mut piece).expect("a pipe");
            assert!(count > 0, "it has ended without {what:?}: {}", self.heard);
            self.heard.push_str(&String::from_utf8_lossy(&piece[..count]));
        }
        let at = self.heard.find(what).expect("it is there") + what.len();
        self.heard.drain(..at);
    }

    #[track_caller]
    fn is_served(&mut self) {
        self.say(&request("GET", "/hello.txt", &[]));
        self.hear(HELLO.trim_end());
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        let _ = self.client.kill();
        let _ = self.client.wait();
    }
}

/// With TLS 1.2. TLS 1.3 has none.
fn renegotiation_is_refused(variant: &Variant) {
    let https = Https::start(variant, "");
    let mut other = Talk::start(&https, "-tls1_2");
    other.is_served();
    for is_asked_before in [false, true] {
        let mut talk = Talk::start(&https, "-tls1_2");
        if is_asked_before {
            talk.is_served();
        }
        talk.say("R\n");
        talk.hear("RENEGOTIATING");
        // The alert. OpenSSL then ends the connection itself.
        talk.hear("no renegotiation");
    }
    other.is_served();
    drop(other);
    none_is_left(&https);
}

/// `k` changes the client's key, and `K` asks the server to change its key, too.
fn keys_may_change(variant: &Variant) {
    let https = Https::start(variant, "");
    let mut talk = Talk::start(&https, "-tls1_3");
    for letter in ["k", "K", "K", "k", "K"] {
        talk.say(&format!("{letter}\n"));
        talk.hear("KEYUPDATE");
        // The command is not sent as a text.
        talk.is_served();
    }
    // Several changes before a reply.
    for _ in 0..5 {
        talk.say("K\n");
        talk.hear("KEYUPDATE");
    }
    talk.is_served();
    // An end is said with the new key, too.
    talk.say("K\n");
    talk.hear("KEYUPDATE");
    talk.say(&request("GET", "/hello.txt", &[("Connection", "close")]));
    talk.hear(HELLO.trim_end());
    talk.hear("closed");
    assert!(talk.client.wait().expect("it ends").success(), "the end is said");
    none_is_left(&https);
    assert_eq!(https.server.count("tls_failures"), 0);
}

/// OpenSSL itself, as Python's module for TLS has no changes of keys. The libraries that the module needs
/// are found through it.
const OPENSSL: &str = r"
import ctypes, _ssl
of = ctypes.CDLL(_ssl.__file__)
pointer, number = ctypes.c_void_p, ctypes.c_int
for name, result, arguments in (
    ('TLS_client_method', pointer, []),
    ('SSL_CTX_new', pointer, [pointer]),
    ('SSL_new', pointer, [pointer]),
    ('SSL_set_fd', number, [pointer, number]),
    ('SSL_connect', number, [pointer]),
    ('SSL_version', number, [pointer]),
    ('SSL_key_update', number, [pointer, number]),
    ('SSL_do_handshake', number, [pointer]),
    ('SSL_write', number, [pointer, ctypes.c_char_p, number]),
    ('SSL_read', number, [pointer, ctypes.c_char_p, number]),
):
    function = getattr(of, name)
    function.restype, function.argtypes = result, arguments
REQUESTED = 1
def connect_bare():
    plain = socket.create_connection(('127.0.0.2', port))
    session = of.SSL_new(of.SSL_CTX_new(of.TLS_client_method()))
    assert of.SSL_set_fd(session, plain.fileno()) == 1
    assert of.SSL_connect(session) == 1 and of.SSL_version(session) == 0x304
    return plain, session
def update(session):
    return of.SSL_key_update(session, REQUESTED) == 1 and of.SSL_do_handshake(session) == 1
def read(session):
    room = ctypes.create_string_buffer(10000)
    count = of.SSL_read(session, room, 10000)
    return room.raw[:max(count, 0)].decode()
";

/// A client that asks for new keys and reads nothing has the server keep nothing.
fn changes_of_keys_without_end(variant: &Variant) {
    // Without anything between them, they are too many soon.
    const ALONE: &str = r"
for _ in range(5):
    plain, session = connect_bare()
    sent = 0
    while sent < 10000 and update(session):
        sent += 1
    # An alert, or a reset.
    print(sent > 30, read(session) == '')
    plain.close()
";
    // A byte of a request between any two of them. The server answers when the request is whole.
    const WITH_A_REQUEST: &str = r"
import time
def say(session, text):
    for byte in text:
        assert update(session)
        assert of.SSL_write(session, byte.encode(), 1) == 1
clients = [connect_bare() for _ in range(int(sys.argv[2]))]
for _, session in clients:
    say(session, 'GET /hello.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n')
    for number in range(10):
        say(session, 'X-%d: %s\r\n' % (number, 'a' * 1000))
print('asked', flush=True)
input()
for plain, session in clients:
    assert of.SSL_write(session, b'\r\n', 2) == 2
    reply = ''
    while piece := read(session):
        reply += piece
    print(reply.split(' ')[1], reply.rstrip().splitlines()[-1])
    plain.close()
";
    let https = Https::start(variant, "[timeouts]\nheader = '10 min'\n");
    let in_openssl = |script: &str| in_python(&https, &format!("{OPENSSL}{script}"));
    let failures = https.server.count("tls_failures");
    assert_eq!(String::from_utf8_lossy(&stdout(&mut in_openssl(ALONE))), "True True\n".repeat(5));
    none_is_left(&https);
    assert_eq!(https.server.count("tls_failures") - failures, 5);

    let mut before = 0;
    // The first time, the server takes what it will ever need.
    for clients in [1, 5] {
        let mut client = in_openssl(WITH_A_REQUEST);
        client.arg(clients.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut client = client.spawn().expect("python3 is there");
        let mut said = client.stdout.take().expect("a pipe");
        let mut asked = [0; 6];
        said.read_exact(&mut asked).expect("all are sent");
        // An answer to each change would take 27 bytes: 1.3 MB for the 50,000 of five clients.
        let now = https.server.memory();
        assert!(before == 0 || now < before + (1 << 20), "{before} bytes before, {now} after");
        client.stdin.take().expect("a pipe").write_all(b"\n").expect("it reads");
        let mut replies = String::new();
        said.read_to_string(&mut replies).expect("text");
        assert!(client.wait().expect("it ends").success());
        assert_eq!(replies, format!("200 {}\n", HELLO.trim_end()).repeat(clients));
        none_is_left(&https);
        before = https.server.memory();
    }
}

/// In memory, so that a script has the records in its hands.
const IN_MEMORY: &str = r"
def connect_in_memory(version):
    context = ssl.create_default_context(cafile='authority.pem')
    context.minimum_version = context.maximum_version = version
    come, go = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(come, go, server_hostname='localhost')
    plain = socket.create_connection(('127.0.0.2', port), 20)
    return plain, tls, come, go
def send(plain, go):
    if go.pending:
        plain.sendall(go.read())
def run(plain, come, go, act, change=lambda piece: piece):
    while True:
        try:
            return act()
        except ssl.SSLWantReadError:
            send(plain, go)
            piece = plain.recv(10000)
            come.write(change(piece)) if piece else come.write_eof()
        finally:
            send(plain, go)
VERSIONS = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
";

/// A client says that it sends no more, as some do behind the last request. It gets the whole reply, and then
/// the server says that it ends, too.
///
/// TCP's end counts as a client that has disconnected while an application works, as it does without TLS.
/// `close_notify` alone does not.
fn ends_that_are_said(variant: &Variant) {
    const SCRIPT: &str = r"
for version in VERSIONS:
    for path, ends in (('/large.bin', (False, True)), ('/app/x', (False,))):
        for is_closed in ends:
            plain, tls, come, go = connect_in_memory(version)
            run(plain, come, go, tls.do_handshake)
            tls.write(b'GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n' % path.encode())
            try:
                # It sends close_notify, and would wait for the server's.
                tls.unwrap()
            except ssl.SSLWantReadError:
                pass
            send(plain, go)
            if is_closed:
                plain.shutdown(socket.SHUT_WR)
            got = b''
            try:
                while piece := run(plain, come, go, lambda: tls.read(10000)):
                    got += piece
                end = 'said'
            except ssl.SSLZeroReturnError:
                end = 'said'
            except ssl.SSLEOFError:
                end = 'cut off'
            body = got.partition(b'\r\n\r\n')[2]
            print(path, len(body), end)
";
    let setup = setup(variant, &Authority::create(), "");
    // It answers later than the server knows that the client sends no more.
    let serve = |mut asked: Asked| {
        sleep_ms(200);
        asked.say(answer(format!(
            "Content-Type: text/plain\r\nContent-Length: 5000\r\n\r\n{}",
            "a".repeat(5000)
        )));
    };
    let socket = scripted::start(setup.directory(), "app.sock", serve);
    let https = Https::of(setup.config(&pool(&[&socket], "")));
    let said = stdout(&mut in_python(&https, &format!("{IN_MEMORY}{SCRIPT}")));
    let of_version = format!("/large.bin {LARGE} said\n").repeat(2) + "/app/x 5000 said\n";
    assert_eq!(String::from_utf8_lossy(&said), of_version.repeat(2));
    none_is_left(&https);
    assert_eq!(https.server.count("tls_failures"), 0);
}

/// A client that finds a reply broken says so by an alert. It reads on, or closes the connection. Nothing is
/// left of it.
fn alerts_in_mid_reply(variant: &Variant) {
    const SCRIPT: &str = r"
for version in VERSIONS:
    for reads_on in (True, False) * 3:
        plain, tls, come, go = connect_in_memory(version)
        run(plain, come, go, tls.do_handshake)
        tls.write(b'GET /big.bin HTTP/1.1\r\nHost: localhost\r\n\r\n')
        run(plain, come, go, lambda: tls.read(10000))
        spoil = lambda piece: bytes(byte ^ 1 if at > 100 else byte for at, byte in enumerate(piece))
        try:
            while run(plain, come, go, lambda: tls.read(10000), spoil):
                pass
        except ssl.SSLError as error:
            print(error.reason)
        try:
            while reads_on and plain.recv(100000):
                pass
        except ConnectionResetError:
            pass
        plain.close()
";
    let setup = setup(variant, &Authority::create(), "[tcp]\nsend_buffer = '64 KiB'\n");
    let https = Https::of(setup.file("big.bin", pattern(1, 8 << 20)));
    let said = stdout(&mut in_python(&https, &format!("{IN_MEMORY}{SCRIPT}")));
    let said = String::from_utf8_lossy(&said);
    // The reason has other names in other versions of OpenSSL.
    assert!(said.lines().count() == 12 && said.matches("BAD_RECORD_MAC").count() == 12, "{said}");
    none_is_left(&https);
    // Who closes the connection may reset it before the alert is read.
    let failures = https.server.count("tls_failures");
    assert!((6..=12).contains(&failures), "{failures}");
    assert_eq!(https.get(&[], "/hello.txt"), HELLO.as_bytes());
}
