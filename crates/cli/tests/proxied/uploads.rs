//! Bodies that are passed on as they come (`uploads = "stream"`).

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use harness::client::{Broken, Client};
use harness::scripted_http;
use harness::server::{Server, Setup};
use harness::site::{HELLO, pattern};
use harness::variant::{Test, Variant, tests};

use crate::pool;

pub(super) const TESTS: &[Test] = tests![
    Drivers: bodies_come_in_pieces, clients_that_leave, early_answers, bodies_that_are_wrong;
    Three: clients_are_asked_in_turn, no_more_is_taken_than_is_wanted, clients_that_are_slow,
        small_bodies_on_one_connection;
];

const STREAM: &str = "uploads = 'stream'";
const PATIENCE: Duration = Duration::from_secs(20);

/// An application with what it tells the test, and what the test tells it.
struct Scene {
    server: Server,
    said: Receiver<String>,
    goes_on: Sender<()>,
}

impl Scene {
    /// `serve` answers one request. It tells and waits with the two functions.
    fn new(
        variant: &Variant,
        config: &str,
        serve: impl Fn(&str, Body, &dyn Fn(String), &dyn Fn()) + Send + Sync + 'static,
    ) -> Self {
        let setup = Setup::new(variant);
        let ((says, said), (goes_on, may_go_on)) = (mpsc::channel(), mpsc::channel::<()>());
        let (says, may_go_on) = (Mutex::new(says), Mutex::new(may_go_on));
        let socket: PathBuf =
            scripted_http::start_unread(setup.directory(), "app.sock", move |head, stream| {
                let say = |text: String| drop(says.lock().expect("no panic").send(text));
                let wait = || may_go_on.lock().expect("no panic").recv_timeout(PATIENCE).expect("a sign");
                serve(head, Body::new(head, stream), &say, &wait);
            });
        let (of_pool, others) = config.split_once("\n\n").unwrap_or((config, ""));
        let config = pool(&socket, &format!("{STREAM}\n{of_pool}")) + others;
        Self { server: setup.config(&config).start(), said, goes_on }
    }

    fn said(&self) -> String {
        self.said.recv_timeout(PATIENCE).expect("the application says something")
    }

    fn go_on(&self) {
        self.goes_on.send(()).expect("an application");
    }
}

/// The body of a request, as it comes.
struct Body {
    stream: BufReader<UnixStream>,
    /// How much of it is still to come. `None`: it has chunks.
    left: Option<usize>,
}

impl Body {
    fn new(head: &str, stream: BufReader<UnixStream>) -> Self {
        let field = |name: &str| {
            head.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(": ")?.to_owned()))
        };
        let left = field("Content-Length").map(|length| length.parse().expect("a length"));
        let is_chunked = field("Transfer-Encoding").as_deref() == Some("chunked");
        assert_ne!(left.is_some(), is_chunked, "{head}");
        Self { stream, left }
    }

    /// The next piece. `None`: the body is over. An error: it is cut off.
    fn piece(&mut self) -> Result<Option<Vec<u8>>, String> {
        let cut = |error: std::io::Error| error.to_string();
        let Some(left) = &mut self.left else {
            let mut line = String::new();
            self.stream.read_line(&mut line).map_err(cut)?;
            let size = line.strip_suffix("\r\n").ok_or(format!("cut off behind {line:?}"))?;
            let size = usize::from_str_radix(size, 16).expect("a size");
            let mut piece = vec![0; size + 2];
            self.stream.read_exact(&mut piece).map_err(cut)?;
            assert!(piece.ends_with(b"\r\n"));
            piece.truncate(size);
            return Ok(Some(piece).filter(|piece| !piece.is_empty()));
        };
        if *left == 0 {
            return Ok(None);
        }
        let piece = self.stream.fill_buf().map_err(cut)?.to_vec();
        if piece.is_empty() {
            return Err(format!("{left} bytes too few"));
        }
        self.stream.consume(piece.len());
        *left -= piece.len();
        Ok(Some(piece))
    }

    /// As many bytes, or what comes before the end.
    fn take(&mut self, count: usize) -> Result<Vec<u8>, String> {
        let mut taken = Vec::new();
        while taken.len() < count
            && let Some(piece) = self.piece()?
        {
            taken.extend(piece);
        }
        Ok(taken)
    }

    fn answer(&mut self, status: &str, text: &str) {
        let reply = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{text}", text.len());
        let _ = self.stream.get_mut().write_all(reply.as_bytes());
    }
}

/// A body of these parts in both forms: with its length, and in chunks.
fn forms(parts: &[&[u8]]) -> [(String, Vec<Vec<u8>>); 2] {
    let length = parts.iter().map(|part| part.len()).sum::<usize>();
    let chunk = |part: &&[u8]| {
        let mut chunk = format!("{:x};name=value\r\n", part.len()).into_bytes();
        chunk.extend_from_slice(part);
        chunk.extend_from_slice(b"\r\n");
        chunk
    };
    let mut chunks: Vec<_> = parts.iter().map(chunk).collect();
    chunks.last_mut().expect("a part").extend_from_slice(b"0\r\nTrailer: x\r\n\r\n");
    [
        (format!("Content-Length: {length}"), parts.iter().map(|part| part.to_vec()).collect()),
        ("Transfer-Encoding: chunked".to_owned(), chunks),
    ]
}

fn begin(client: &mut Client, field: &str) {
    client.send(format!("POST /app/ HTTP/1.1\r\nHost: test\r\n{field}\r\n\r\n"));
}

/// The application has the first part before the client sends the second.
fn bodies_come_in_pieces(variant: &Variant) {
    let large = pattern(7, 300_000);
    for parts in [[&b"first, "[..], b"second"], [&large[..100_000], &large[100_000..]]] {
        let (first, all) = (parts[0].len(), parts.concat());
        let expected = all.clone();
        let scene = Scene::new(variant, "", move |_, mut body, say, _| {
            let mut taken = body.take(first).expect("the first part");
            say(taken.len().to_string());
            taken.extend(body.take(usize::MAX).expect("the rest"));
            assert!(taken == expected);
            body.answer("200 OK", "well");
        });
        let mut client = scene.server.connect();
        for (field, parts) in forms(&parts) {
            begin(&mut client, &field);
            client.send(&parts[0]);
            assert_eq!(scene.said(), first.to_string());
            client.send(&parts[1]);
            // The connection goes on.
            assert_eq!(client.reply().text(), "well", "{field}");
            assert_eq!(client.get("/hello.txt").text(), HELLO);
        }
        // All at once, and the next request behind it.
        for (field, parts) in forms(&parts) {
            let head = format!("POST /app/ HTTP/1.1\r\nHost: test\r\n{field}\r\n\r\n");
            let next = b"GET /hello.txt HTTP/1.1\r\nHost: test\r\n\r\n".to_vec();
            client.send([head.into_bytes(), parts.concat(), next].concat());
            assert_eq!(client.reply().text(), "well", "{field}");
            assert_eq!(client.reply().text(), HELLO);
        }
    }
}

/// The application can tell that it does not have all.
fn clients_that_leave(variant: &Variant) {
    let scene = Scene::new(variant, "", |_, mut body, say, _| {
        say(body.take(4).map_or_else(|error| error, |taken| taken.len().to_string()));
        say(body.take(usize::MAX).map_or("cut off".to_owned(), |_| "whole".to_owned()));
    });
    for (field, parts) in forms(&[b"some", b" more"]) {
        for resets in [false, true] {
            let mut client = scene.server.connect();
            begin(&mut client, &field);
            client.send(&parts[0]);
            assert_eq!(scene.said(), "4", "{field}");
            if resets {
                client.reset();
            } else {
                drop(client);
            }
            assert_eq!(scene.said(), "cut off", "{field}");
        }
    }
    assert_eq!(scene.server.get("/hello.txt").text(), HELLO);
}

/// What the application has answered comes before the body is over, and the connection ends with it.
fn early_answers(variant: &Variant) {
    let scene = Scene::new(variant, "", |_, mut body, _, _| {
        body.take(4).expect("the first part");
        body.answer("413 Content Too Large", "no");
    });
    for (field, parts) in forms(&[b"some", &pattern(1, 5_000_000)]) {
        let mut client = scene.server.connect();
        begin(&mut client, &field);
        client.send(&parts[0]);
        let reply = client.reply();
        assert_eq!((reply.status, reply.closes()), (413, true), "{field}");
        // Nobody reads this.
        client.try_send(&parts[1]);
    }
    // An application that fails.
    let scene = Scene::new(variant, "", |_, mut body, _, _| {
        body.take(4).expect("the first part");
    });
    for (field, parts) in forms(&[b"some", b" more"]) {
        let mut client = scene.server.connect();
        begin(&mut client, &field);
        client.send(&parts[0]);
        let reply = client.reply();
        assert_eq!((reply.status, reply.closes()), (502, true), "{field}");
    }
}

fn bodies_that_are_wrong(variant: &Variant) {
    let scene = Scene::new(variant, "\n\n[limits]\nbody = 100\n", |_, mut body, say, _| {
        say("begun".to_owned());
        say(body.take(usize::MAX).map_or("cut off".to_owned(), |_| "whole".to_owned()));
    });
    let large = format!("40\r\n{}\r\n40\r\n{}\r\n0\r\n\r\n", "x".repeat(64), "x".repeat(64));
    for (wrong, status) in [("4\r\nsome\r\nx\r\n", 400), ("4\r\nsomexx", 400), (&large, 413)] {
        let mut client = scene.server.connect();
        begin(&mut client, "Transfer-Encoding: chunked");
        assert_eq!(scene.said(), "begun", "{wrong}");
        client.send(wrong);
        assert_eq!(client.reply().status, status, "{wrong}");
        assert_eq!(scene.said(), "cut off", "{wrong}");
    }
}

/// A client that waits to be asked for its body is asked when the application takes it.
fn clients_are_asked_in_turn(variant: &Variant) {
    let scene = Scene::new(variant, "children = 1", |_, mut body, say, wait| {
        say("begun".to_owned());
        let taken = body.take(usize::MAX).expect("a body");
        wait();
        body.answer("200 OK", &String::from_utf8_lossy(&taken));
    });
    let expects = "Content-Length: 4\r\nExpect: 100-continue";
    let [mut first, mut second] = [scene.server.connect(), scene.server.connect()];
    begin(&mut first, expects);
    assert_eq!(first.reply().status, 100);
    assert_eq!(scene.said(), "begun");
    begin(&mut second, expects);
    second.expect_silence(200);
    first.send("some");
    second.expect_silence(200);
    scene.go_on();
    assert_eq!(first.reply().text(), "some");
    assert_eq!(second.reply().status, 100);
    assert_eq!(scene.said(), "begun");
    second.send("more");
    scene.go_on();
    assert_eq!(second.reply().text(), "more");
    // It need not wait.
    begin(&mut second, expects);
    second.send("soon");
    scene.go_on();
    let reply = second.reply();
    let reply = if reply.status == 100 { second.reply() } else { reply };
    assert_eq!(reply.text(), "soon");
}

/// What an application does not take stays with the client, which has time for its body nevertheless.
fn no_more_is_taken_than_is_wanted(variant: &Variant) {
    const SIZE: usize = 64 << 20;
    let scene = Scene::new(
        variant,
        "\n\n[timeouts]\nbody = '500 ms'\n[limits]\nbody = '1 GiB'\n",
        |_, mut body, say, wait| {
            say("begun".to_owned());
            wait();
            let length = body.take(usize::MAX).expect("a body").len();
            body.answer("200 OK", &length.to_string());
        },
    );
    scene.server.warm_up();
    let before = scene.server.memory();
    let mut client = scene.server.connect();
    let piece = pattern(5, SIZE);
    let [(field, parts), _] = forms(&[&piece]);
    begin(&mut client, &field);
    assert_eq!(scene.said(), "begun");
    thread::scope(|scope| {
        let sends = scope.spawn(|| {
            client.send(&parts[0]);
            client
        });
        // Longer than a client may take.
        for _ in 0..15 {
            harness::sleep_ms(100);
            let most = scene.server.memory();
            assert!(most < before + (4 << 20), "{before} bytes before, {most} meanwhile");
        }
        scene.go_on();
        let mut client = sends.join().expect("no panic");
        assert_eq!(client.reply().text(), SIZE.to_string());
    });
}

fn clients_that_are_slow(variant: &Variant) {
    let scene = Scene::new(variant, "\n\n[timeouts]\nbody = '300 ms'\n", |head, mut body, say, _| {
        body.take(4).expect("the first part");
        if head.contains("/app/early") {
            let _ = body.stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsome");
        }
        say(body.take(usize::MAX).map_or("cut off".to_owned(), |_| "whole".to_owned()));
    });
    for (field, parts) in forms(&[b"some", b" more"]) {
        let mut client = scene.server.connect();
        begin(&mut client, &field);
        client.send(&parts[0]);
        assert_eq!(client.reply().status, 408, "{field}");
        assert_eq!(scene.said(), "cut off", "{field}");
        // After a part of the reply, there can't be another.
        let mut client = scene.server.connect();
        client.send(format!("POST /app/early HTTP/1.1\r\nHost: test\r\n{field}\r\n\r\n"));
        client.send(&parts[0]);
        assert!(matches!(client.try_reply(), Err(Broken::Reset | Broken::CutShort(_))), "{field}");
        assert_eq!(scene.said(), "cut off", "{field}");
    }
}

/// Connections to the application are kept after an upload, and used for the next request.
fn small_bodies_on_one_connection(variant: &Variant) {
    let setup = Setup::new(variant);
    let socket = scripted_http::start(setup.directory(), "app.sock", |asked| {
        let told = format!("{} {}", asked.before, String::from_utf8_lossy(&asked.body));
        asked.say(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{told}", told.len()))
    });
    let server = setup.config(&pool(&socket, STREAM)).start();
    let mut client = server.connect();
    for number in 0..20 {
        let body = format!("body {number}");
        client.send(harness::client::post("/app/", body.as_bytes()));
        let text = client.reply().text();
        assert!(text.ends_with(&body), "{text}");
        let kept = client.get("/app/").text();
        assert!(kept.ends_with(' '), "{kept}");
    }
}
