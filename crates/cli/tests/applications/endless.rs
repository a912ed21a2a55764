//! Applications that say something without end, or that don't listen: each request ends in time, the server's
//! memory has a bound, and other clients are answered meanwhile.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;

use sys::socket::Slice;

use harness::client::{Broken, Client};
use harness::guest::{self, Asked, FILLED, FREE, filled};
use harness::scripted::{self, answer, end, record};
use harness::server::{Server, Setup};
use harness::site::{HELLO, pattern};
use harness::variant::{Test, Variant, tests};
use harness::{eventually, sleep_ms};

pub(super) const TESTS: &[Test] = tests![
    Each: records_without_end, descriptors_that_nobody_asked_for;
    Three: every_type_of_record_without_end;
];

/// How long the application may take, and how much memory all that it says may cost.
const TIMEOUT: &str = "timeout = '300 ms'";
const MEMORY: u64 = 24 << 20;

/// What comes of a request whose application never ends: a status, or no whole reply.
#[derive(Clone, Copy, Debug)]
enum Comes {
    Status(u16),
    Reset,
    /// What was promised before, a 502 or a reset: it is a matter of time what of it has been sent.
    Refused,
}

use Comes::{Refused, Reset, Status};

/// By transport, what is said without end, and what comes of it.
type Case = (&'static str, &'static str, Comes);

const SOME: &[Case] = &[
    ("stream", "an-unknown-type", Status(504)),
    ("stream", "errors", Status(504)),
    ("stream", "beyond-its-length", Status(200)),
    ("shared", "free-chunks", Status(502)),
    ("shared", "free-chunks-in-turns", Status(504)),
    ("lent", "an-unknown-type", Reset),
    ("shy", "an-unknown-type", Status(200)),
];

const EVERY: &[Case] = &[
    ("stream", "empty-output", Status(504)),
    ("stream", "no-errors", Status(504)),
    ("stream", "another-output", Status(504)),
    ("stream", "another-end", Status(504)),
    ("stream", "padding", Status(504)),
    ("stream", "waits", Status(504)),
    ("stream", "values", Status(502)),
    ("stream", "questions", Status(502)),
    ("stream", "requests", Status(502)),
    ("stream", "a-head", Status(502)),
    ("stream", "behind-a-file", Status(200)),
    ("stream", "behind-files", Status(200)),
    ("stream", "behind-a-head", Status(200)),
    ("tcp", "an-unknown-type", Status(504)),
    ("tcp", "errors", Status(504)),
    ("tcp", "another-end", Status(504)),
    ("tcp", "beyond-its-length", Status(200)),
    ("shared", "chunks-beyond-its-length", Refused),
    ("shared", "chunks-beyond-its-length-in-turns", Status(200)),
    ("shared", "chunks-behind-a-file", Status(200)),
    ("shared", "an-unknown-type", Status(504)),
    ("lent", "errors", Reset),
    ("lent", "waits", Reset),
    ("lent", "another-output", Reset),
];

/// Those that cost most, and that a driver can break.
fn records_without_end(variant: &Variant) {
    without_end(variant, SOME);
}

fn every_type_of_record_without_end(variant: &Variant) {
    // No more at a time than there are places, of which some are left for others.
    for some in EVERY.chunks(8) {
        without_end(variant, some);
    }
}

fn without_end(variant: &Variant, cases: &[Case]) {
    let server = site(variant);
    server.warm_up();
    let (memory, descriptors) = (server.memory(), server.descriptors());
    let ask = |&(transport, what, comes): &Case| {
        let mut client = server.connect();
        let method = if what == "behind-a-head" { "HEAD" } else { "GET" };
        client.ask(method, &format!("/{transport}/x?{what}"), &[]);
        (client, method, format!("{transport} {what}"), comes)
    };
    let asked: Vec<_> = cases.iter().map(ask).collect();
    let mut most = 0;
    for _ in 0..4 {
        assert_eq!(server.get("/hello.txt").text(), HELLO);
        most = most.max(server.memory());
        sleep_ms(50);
    }
    let mut wrong = Vec::new();
    for (mut client, method, case, comes) in asked {
        let came = client.try_reply_to(method);
        let is_right = match (&came, comes) {
            (Ok(reply), Status(200)) => reply.status == 200 && (method == "HEAD" || reply.text() == "well"),
            (Ok(reply), Status(status)) => reply.status == status,
            (Ok(reply), Refused) => [200, 502].contains(&reply.status),
            (Err(Broken::Reset | Broken::CutShort(_) | Broken::Closed), Reset | Refused) => true,
            _ => false,
        };
        if !is_right {
            wrong.push((case, came));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    most = most.max(server.memory());
    assert!(most < memory + MEMORY, "{memory} bytes before, {most} meanwhile");
    assert_eq!(server.get("/hello.txt").text(), HELLO);
    eventually("nothing is left of it", || {
        server.descriptors() <= descriptors && server.count("application_memory_bytes") == 0
    });
}

/// The standard site with a pool for each transport, whose applications never end.
fn site(variant: &Variant) -> Server {
    let setup = Setup::new(variant);
    let directory = setup.directory().to_owned();
    let files = directory.join("files");
    std::fs::create_dir(&files).expect("a directory");
    std::fs::write(files.join("named.txt"), "well").expect("a file");
    let of_files = format!("send_files = {{ '/files/' = '{}' }}", files.display());
    let mut pools = Vec::new();
    let mut add = |name: &str, server: &str, more: &str| {
        pools.push(format!(
            "[[pools]]\nname = '{name}'\nservers = ['{server}']\nchildren = 64\n{TIMEOUT}\n{more}\n\
             [[routes]]\npath = '/{name}/**'\npool = '{name}'\nprogram = '/srv/app'\n"
        ));
    };
    let unix = |path: &Path| format!("unix:{}", path.display());
    let stream = scripted::start(&directory, "stream.sock", move |asked| {
        let what = asked.params["QUERY_STRING"].clone();
        let named = match &*what {
            "behind-a-file" => "X-Accel-Redirect: /files/named.txt\n\n".to_owned(),
            "behind-files" => {
                let name = files.join("named.txt").display().to_string();
                format!("X-ZeroCopy: 0/{0}\nContent-Length: {0}\n\n{name}", name.len())
            }
            _ => String::new(),
        };
        flood(asked.stream, &[&first(&what, 1), &*output(&named)].concat(), &again(&what, 1));
    });
    add("stream", &unix(&stream), &of_files);
    add("tcp", &over_tcp().to_string(), "");
    let shared = guest::start(&directory, "shared.sock", "shared-memory waits", |asked| {
        share_without_end(asked);
        None
    });
    add("shared", &unix(&shared), &format!("transport = 'shared-memory'\narea = '256 KiB'\n{of_files}"));
    let lent = guest::start(&directory, "lent.sock", "pass-fd waits", |asked| {
        let what = asked.params["QUERY_STRING"].clone();
        let stream = asked.connection.stream.try_clone().expect("a descriptor");
        flood(stream, &[], &again(&what, asked.number));
        None
    });
    add("lent", &unix(&lent), "transport = 'pass-fd'");
    let shy = directory.join("shy.sock");
    be_shy(&shy);
    add("shy", &unix(&shy), "transport = 'shared-memory'");
    setup.config(&pools.concat()).start()
}

/// Says that without end; until the server does not listen any more.
fn flood(mut stream: impl Write, first: &[u8], again: &[u8]) {
    let many = again.repeat((32 << 10) / again.len());
    if stream.write_all(first).is_ok() {
        while stream.write_all(&many).is_ok() {}
    }
}

fn output(text: &str) -> Vec<u8> {
    record(6, text.as_bytes())
}

fn first(what: &str, number: u8) -> Vec<u8> {
    assert_eq!(number, 1);
    match what {
        "beyond-its-length" => output("Content-Length: 4\n\nwell"),
        "behind-a-head" => output("X: y\n\n"),
        _ => Vec::new(),
    }
}

/// What is said without end about a request of that number.
fn again(what: &str, number: u8) -> Vec<u8> {
    let header = |kind, of, length, padding| vec![1, kind, 0, of, 0, length, padding, 0];
    let full = |kind, of, content: &[u8]| [&header(kind, of, content.len() as u8, 0), content].concat();
    match what {
        "an-unknown-type" => header(99, 0, 0, 0),
        "errors" => full(7, number, b"x"),
        "no-errors" => header(7, number, 0, 0),
        "empty-output" => header(6, number, 0, 0),
        "another-output" => full(6, number + 7, b"x"),
        "another-end" => full(3, number + 7, &[0; 8]),
        "padding" => [header(99, 0, 0, 255), vec![0; 255]].concat(),
        "waits" => header(133, 0, 0, 0),
        "values" => header(10, 0, 0, 0),
        "questions" => header(9, 0, 0, 0),
        "requests" => full(1, number, &[0, 1, 0, 0, 0, 0, 0, 0]),
        "a-head" | "beyond-its-length" | "behind-a-file" | "behind-files" | "behind-a-head" => {
            full(6, number, b"x")
        }
        other => panic!("{other}"),
    }
}

/// An application that is reached over TCP.
fn over_tcp() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            thread::spawn(move || {
                let mut request = Vec::new();
                // To the end of the body.
                while !request.ends_with(&[1, 5, 0, 1, 0, 0, 0, 0]) {
                    let mut piece = [0; 4096];
                    let count = stream.read(&mut piece).expect("a request");
                    request.extend_from_slice(&piece[..count]);
                }
                let request = String::from_utf8_lossy(&request).into_owned();
                let of = |what: &&str| request.contains(&format!("QUERY_STRING{what}"));
                let names = ["an-unknown-type", "errors", "another-end", "beyond-its-length"];
                let what = names.into_iter().find(of).expect("what is asked for");
                flood(stream, &first(what, 1), &again(what, 1));
            });
        }
    });
    address
}

/// One that does not answer what it knows, but asked plainly all is well.
fn be_shy(path: &Path) {
    let listener = UnixListener::bind(path).expect("a socket");
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || {
                let shy = |stream: &mut UnixStream| {
                    flood(stream, &[], &again("an-unknown-type", 1));
                    false
                };
                if let Some(mut asked) = scripted::read_or_question(stream.expect("a connection"), shy) {
                    asked.say(answer("X: y\n\nwell"));
                }
            });
        }
    });
}

/// Says without end that a chunk is filled, without a word that is for the client.
fn share_without_end(mut asked: Asked) {
    let what = asked.params["QUERY_STRING"].clone();
    let first = match &*what {
        what if what.starts_with("chunks-beyond") => "Content-Length: 4\n\nwell",
        "chunks-behind-a-file" => "X-Accel-Redirect: /files/named.txt\n\n",
        _ => "",
    };
    if !first.is_empty() {
        asked.fill(first.as_bytes());
    }
    let length = u32::from(!first.is_empty());
    let number = asked.number;
    if what == "an-unknown-type" {
        flood(&asked.connection.stream, &[], &again(&what, number));
    } else if what.ends_with("in-turns") || what == "chunks-behind-a-file" {
        // Each chunk when it is the application's again.
        let mut chunk = 1;
        while asked.say(&[(FILLED, &filled(chunk, length))]) {
            match asked.connection.record() {
                Ok((FREE, _, content)) => chunk = u16::from_be_bytes([content[0], content[1]]),
                Ok(_) => {}
                Err(_) => break,
            }
        }
    } else {
        flood(&asked.connection.stream, &[], &guest::record(FILLED, number, &filled(1, length)));
    }
}

/// A read ends behind what has a descriptor with it, and more may be there: the rest of the reply, which is
/// not to be waited for until the timeout. The descriptors are closed.
fn descriptors_that_nobody_asked_for(variant: &Variant) {
    const PIECES: usize = 40;
    let server = scripted::scripted_site_with(variant, "timeout = '3 s'", |asked| {
        let with = |bytes: &[u8]| {
            let sent = sys::socket::send_with(&asked.stream, &[Slice::new(bytes)], asked.stream.as_fd());
            assert_eq!(sent.expect("there is room"), bytes.len());
        };
        with(&record(6, b"Content-Type: text/plain\n\n"));
        for piece in pattern(3, PIECES * 100).chunks(100) {
            with(&record(6, piece));
        }
        with(&end());
    });
    server.warm_up();
    let descriptors = server.descriptors();
    let mut client: Client = server.connect();
    for _ in 0..5 {
        let reply = client.get("/app/x");
        assert!(reply.status == 200 && reply.body == pattern(3, PIECES * 100), "{reply:?}");
    }
    drop(client);
    assert_eq!(server.pool_count("failures"), 0);
    eventually("descriptors are closed", || server.descriptors() <= descriptors);
}
