//! Files outside the root that an application names in place of a reply or within it: which are sent, and
//! how.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::net::Shutdown;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::thread;

use harness::client::Client;
use harness::scripted::{self, answer, pool};
use harness::server::{Server, Setup};
use harness::site::pattern;
use harness::variant::{Test, Variant, tests};
use harness::{Random, sleep_ms};

pub(super) const TESTS: &[Test] = tests![
    Drivers: files_within_a_body, a_file_within_a_body_is_cut_short, a_large_file_keeps_no_application;
    Three: files_that_are_named, what_a_body_may_not_name;
];

/// Files outside the root that an application names in place of a reply.
fn files_that_are_named(variant: &Variant) {
    let setup = Setup::new(variant).file("own.txt", "of the site").file("lost.html", "lost");
    let private = setup.directory().join("private");
    fs::create_dir(&private).expect("a directory");
    for (name, content) in [("a b.txt", "0123456789"), (".hidden", "dot"), ("x.cgi", "source"), ("empty", "")]
    {
        fs::write(private.join(name), content).expect("a file");
    }
    let large = pattern(3, 3_000_000);
    fs::write(private.join("large"), &large).expect("a file");
    symlink("/etc/passwd", private.join("out")).expect("a link");
    harness::server::settle();
    let at = private.display().to_string();
    // What is behind /app/ is the head of the reply, in hexadecimal.
    let socket = scripted::start(setup.directory(), "app.sock", move |mut asked| {
        let hexadecimal = asked.params["PATH_INFO"][1..].to_owned();
        let head: Vec<u8> = (0..hexadecimal.len() / 2)
            .map(|at| u8::from_str_radix(&hexadecimal[2 * at..][..2], 16).expect("digits"))
            .collect();
        assert_eq!(asked.params["HTTP_X_SENDFILE_TYPE"], "X-Sendfile");
        asked.say(answer(format!("{}\n\nthe body, which nobody gets", String::from_utf8_lossy(&head))));
    });
    let config = pool(&[&socket], &format!("send_files = {{ '/protected/' = '{at}' }}"))
        + "[[routes]]\npath = '/cgi/**'\npool = 'app'\nscripts = '.cgi'\n[error_pages]\n404 = '/lost.html'\n";
    let server = setup.config(&config).start();
    let mut client = server.connect();
    let target = |head: &str| {
        let digits: Vec<_> = head.bytes().map(|byte| format!("{byte:02x}")).collect();
        format!("/app/{}", digits.concat())
    };
    for _ in 0..2 {
        for (head, status, body) in [
            (format!("X-Sendfile: {at}/a b.txt"), 200, "0123456789"),
            ("X-Accel-Redirect: /protected/a%20b.txt?x".to_owned(), 200, "0123456789"),
            (format!("X-Sendfile: {at}/.hidden"), 200, "dot"),
            (format!("X-Sendfile: {at}/empty"), 200, ""),
            (format!("X-Sendfile: {at}/none"), 404, "lost"),
            (format!("X-Sendfile: {at}/x.cgi"), 404, "lost"),
            (format!("X-Sendfile: {at}/out"), 404, "lost"),
        ] {
            let reply = client.get(&target(&head));
            assert_eq!((reply.status, &*reply.text()), (status, body), "{head}");
        }
        for head in [
            "X-Sendfile: /etc/passwd".to_owned(),
            format!("X-Sendfile: {}/own.txt", server.root().display()),
            format!("X-Sendfile: {at}/../root/own.txt"),
            "X-Accel-Redirect: /own.txt".to_owned(),
            "X-Accel-Redirect: /protected/%2e%2e/own.txt".to_owned(),
        ] {
            assert_eq!(client.get(&target(&head)).status, 502, "{head}");
        }
        let named = format!("Content-Type: a/b\nContent-Disposition: attachment\nX-Sendfile: {at}/large");
        let whole = client.get(&target(&named));
        assert!(whole.body == large);
        assert_eq!([whole.need("Content-Type"), whole.need("Content-Disposition")], ["a/b", "attachment"]);
        let tag = whole.need("ETag").to_owned();
        let range = [("Range", "bytes=1000000-1000009"), ("If-Range", &*tag)];
        let part = client.fetch("GET", &target(&named), &range);
        assert_eq!((part.status, part.need("Content-Range")), (206, "bytes 1000000-1000009/3000000"));
        assert!(part.body == large[1_000_000..1_000_010] && part.need("Content-Type") == "a/b");
        let unchanged = client.fetch("GET", &target(&named), &[("If-None-Match", &tag)]);
        assert_eq!((unchanged.status, unchanged.body.len()), (304, 0));
        let posted =
            client.fetch("POST", &target(&named), &[("Range", "bytes=0-9"), ("If-None-Match", &tag)]);
        assert!((posted.status, posted.body) == (200, large.clone()), "conditions are for GET");
        let cookie = format!("Set-Cookie: a=1\n{named}");
        let unchanged = client.fetch("GET", &target(&cookie), &[("If-None-Match", &tag)]);
        assert_eq!((unchanged.status, unchanged.need("Set-Cookie")), (304, "a=1"));
        let denied =
            client.fetch("GET", &target(&format!("Status: 403\n{named}")), &[("Range", "bytes=0-9")]);
        assert_eq!((denied.status, denied.body.len()), (403, 3_000_000));
        let beyond = client.fetch("GET", &target(&named), &[("Range", "bytes=3000000-")]);
        assert_eq!((beyond.status, beyond.need("Content-Range")), (416, "bytes */3000000"));
        let head = client.fetch("HEAD", &target(&named), &[]);
        assert_eq!((head.need("Content-Length"), head.body.len()), ("3000000", 0));
    }
    assert_eq!(client.get("/protected/a%20b.txt").status, 404, "no URL leads there");
    server.wait_for_line(|line| line.contains("/etc/passwd, which is below none of the pool's send_files"));
}

/// An application like PHP, which ends a connection and then waits for its other end before it takes another,
/// has that, whatever time the client takes for the file that it has named.
fn a_large_file_keeps_no_application(variant: &Variant) {
    let setup = Setup::new(variant);
    let file = setup.directory().join("large");
    fs::write(&file, pattern(3, 20_000_000)).expect("a file");
    harness::server::settle();
    let socket = setup.directory().join("app.sock");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let named = format!("X-Sendfile: {}\n\n", file.display());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let asked = scripted::read_or_question(stream.expect("a connection"), |_| false);
            let Some(mut asked) = asked else { continue };
            let response = if asked.params["PATH_INFO"] == "/large" { &named } else { "X: y\n\nsmall" };
            asked.say(answer(response));
            let _ = asked.stream.shutdown(Shutdown::Write);
            let _ = io::copy(&mut asked.stream, &mut io::sink());
        }
    });
    let of_pool = format!("children = 1\nsend_files = {{ '/files/' = '{}' }}", setup.directory().display());
    let server = setup.config(&pool(&[&socket], &of_pool)).start();
    let mut slow = server.connect_narrow();
    slow.ask("GET", "/app/large", &[]);
    assert!(slow.read_raw(1000).expect("it has begun").starts_with(b"HTTP/1.1 200 "));
    for _ in 0..3 {
        assert_eq!(server.get("/app/small").text(), "small");
    }
    assert_eq!(server.pool_count("failures"), 0);
}

/// A reply that names files within its body, and what the client should get of it.
struct Composition {
    field: String,
    body: Vec<u8>,
    meant: Vec<u8>,
}

impl Composition {
    fn new() -> Self {
        Self { field: "X-ZeroCopy: ".to_owned(), body: Vec::new(), meant: Vec::new() }
    }

    fn bytes(mut self, bytes: &[u8]) -> Self {
        self.body.extend_from_slice(bytes);
        self.meant.extend_from_slice(bytes);
        self
    }

    /// A part of the file of that name and content, with what says which part it is.
    fn file(mut self, name: &str, part: &str, meant: &[u8]) -> Self {
        if self.field.ends_with(|last: char| last.is_ascii_digit()) {
            self.field.push(':');
        }
        let (at, length) = (self.body.len(), name.len());
        write!(self.field, "{at}/{length}{part}").expect("a string takes all");
        self.body.extend_from_slice(name.as_bytes());
        self.meant.extend_from_slice(meant);
        self
    }

    fn reply(&self, head: &str) -> Vec<u8> {
        [format!("{head}{}\n\n", self.field).as_bytes(), &self.body].concat()
    }
}

/// A site whose application says the reply that a path below `/app/` asks for, and files that it may name.
fn composing_site(
    variant: &Variant,
    replies: impl FnOnce(&str) -> Vec<(&'static str, Vec<u8>)>,
) -> (Server, PathBuf) {
    let setup = Setup::new(variant).file("own.txt", "of the site").file("lost.html", "lost");
    let private = setup.directory().join("private");
    fs::create_dir(&private).expect("a directory");
    for (name, content) in
        [("small", b"0123456789".to_vec()), ("x.cgi", b"source".to_vec()), ("empty", vec![])]
    {
        fs::write(private.join(name), content).expect("a file");
    }
    fs::write(private.join("large"), pattern(3, LARGE)).expect("a file");
    fs::write(private.join("other"), pattern(4, OTHER)).expect("a file");
    symlink("/etc/passwd", private.join("out")).expect("a link");
    harness::server::settle();
    let at = private.display().to_string();
    let replies = replies(&at);
    let socket = scripted::start(setup.directory(), "app.sock", move |mut asked| {
        assert_eq!(asked.params["X_ZEROCOPY_ENABLED"], "1");
        let name = &asked.params["PATH_INFO"][1..];
        let (_, reply) = replies.iter().find(|(known, _)| *known == name).expect("it is known");
        let is_cut = name == "head" && asked.params["REQUEST_METHOD"] == "HEAD";
        let end =
            if is_cut { reply.windows(2).position(|end| end == b"\n\n").map(|at| at + 2) } else { None };
        asked.say(answer(&reply[..end.unwrap_or(reply.len())]));
    });
    let config = pool(&[&socket], &format!("send_files = {{ '/protected/' = '{at}' }}"))
        + "[[routes]]\npath = '/cgi/**'\npool = 'app'\nscripts = '.cgi'\n[error_pages]\n404 = '/lost.html'\n\
           [tcp]\nsend_buffer = '64 KiB'\n";
    (setup.config(&config).start(), private)
}

/// Bytes of files that go by `sendfile`, in more than one turn.
const LARGE: usize = 3_000_000;
const OTHER: usize = 2_500_001;

/// Bytes of an application's own and parts of files, in any order; and what a request has to do with them.
fn files_within_a_body(variant: &Variant) {
    let (large, other) = (pattern(3, LARGE), pattern(4, OTHER));
    let mut meant = Vec::new();
    let (server, _) = composing_site(variant, |at| {
        let name = |name: &str| format!("{at}/{name}");
        let mixed = Composition::new()
            .bytes(b"hello")
            .file(&name("large"), "", &large)
            .bytes(b"world")
            .file(&name("small"), "", b"0123456789")
            .file(&name("empty"), "", b"")
            .file(&name("large"), "/1000000/10", &large[1_000_000..1_000_010])
            .file(&name("other"), "/500000", &other[500_000..])
            .file(&name("small"), "/3/4", b"3456")
            .file(&name("other"), "/7/0", b"")
            .bytes(&pattern(5, 100_000));
        let files = Composition::new().file(&name("other"), "", &other).file(&name("large"), "", &large);
        let small = Composition::new().file(&name("small"), "", b"0123456789");
        let mut many = Composition::new();
        let mut random = Random(5);
        for _ in 0..64 {
            let (from, count) = (random.below(OTHER / 2), random.below(30_000));
            many = many.bytes(b"-").file(
                &name("other"),
                &format!("/{from}/{count}"),
                &other[from..from + count],
            );
        }
        let promised = format!("Content-Length: {}\n", mixed.body.len());
        let replies = [
            ("mixed", mixed.reply("Content-Type: a/b\nETag: \"mine\"\nSet-Cookie: a=1\n")),
            ("promised", mixed.reply(&promised)),
            ("files", files.reply("")),
            ("small", small.reply("Status: 203\n")),
            ("head", small.reply("")),
            ("many", many.reply("")),
            ("nothing", small.reply("Status: 204\n")),
        ];
        meant = [mixed.meant.clone(), mixed.meant, files.meant, small.meant.clone(), small.meant, many.meant]
            .into();
        replies.into()
    });
    let names = ["mixed", "promised", "files", "small", "head", "many"];
    let mut client = server.connect();
    for _ in 0..2 {
        for (name, meant) in names.iter().zip(&meant) {
            let target = format!("/app/{name}");
            let reply = client.get(&target);
            assert_eq!(reply.status, if *name == "small" { 203 } else { 200 });
            assert_eq!(reply.need("Content-Length"), meant.len().to_string());
            assert!(reply.body == *meant, "{name}");
            let head = client.fetch("HEAD", &target, &[]);
            let told = (*name != "head").then(|| meant.len().to_string());
            assert_eq!((head.field("Content-Length"), head.body.len()), (told.as_deref(), 0), "{name}");
        }
        let nothing = client.get("/app/nothing");
        assert_eq!((nothing.status, nothing.field("Content-Length")), (204, None));
        let asked = [("Range", "bytes=0-9"), ("If-None-Match", "\"mine\"")];
        let whole = client.fetch("GET", "/app/mixed", &asked);
        assert!(whole.body == meant[0] && whole.status == 200, "these are the application's affair");
        let told = ["Content-Type", "ETag", "Set-Cookie"].map(|name| whole.need(name));
        assert_eq!((told, whole.field("X-ZeroCopy")), (["a/b", "\"mine\"", "a=1"], None));
    }
    // A client that takes its time.
    let mut slow = Client::connect_narrow(server.address);
    slow.ask("GET", "/app/mixed", &[]);
    let mut beginning = Vec::new();
    while beginning.len() < 300_000 {
        beginning.extend(slow.read_raw(100_000).expect("a beginning"));
        sleep_ms(20);
    }
    slow.unread(beginning);
    assert!(slow.reply().body == meant[0]);
    assert!(slow.get("/app/files").body == meant[2]);
    // One that does not know how to go on.
    let old = server.one("GET /app/mixed HTTP/1.0\r\n\r\n");
    assert!(old.body == meant[0] && old.closes());
    assert_eq!(server.pool_count("failures"), 0);
}

/// A client that has got a part of what was promised notices that the rest is not to be had.
fn a_file_within_a_body_is_cut_short(variant: &Variant) {
    let (server, private) = composing_site(variant, |at| {
        let reply = Composition::new().bytes(b"hello").file(&format!("{at}/long"), "", b"").bytes(b"bye");
        vec![("long", reply.reply(""))]
    });
    let long = private.join("long");
    fs::write(&long, pattern(6, 8 << 20)).expect("a file");
    harness::server::settle();
    let mut client = Client::connect_narrow(server.address);
    client.ask("GET", "/app/long", &[]);
    let beginning = client.read_raw(100_000).expect("a beginning");
    sleep_ms(50);
    fs::OpenOptions::new().write(true).open(&long).and_then(|file| file.set_len(5000)).expect("a file");
    client.unread(beginning);
    client.try_reply().expect_err("it is not whole");
    // What is there now is what another gets.
    let reply = server.get("/app/long");
    assert_eq!((reply.status, reply.body.len()), (200, 5008));
}

/// Whatever a body may not name is told in place of the reply, of which nothing has been sent.
fn what_a_body_may_not_name(variant: &Variant) {
    let (server, _) = composing_site(variant, |at| {
        let large = |name: &str, part: &str| {
            Composition::new().file(&format!("{at}/large"), "", b"").file(name, part, b"").reply("")
        };
        let below = |name: &str, part: &str| large(&format!("{at}/{name}"), part);
        vec![
            ("none", below("none", "")),
            ("script", below("x.cgi", "")),
            ("link", below("out", "")),
            ("short", below("small", "/11")),
            ("shorter", below("small", "/5/6")),
            ("outside", large("/etc/passwd", "")),
            ("dots", below("../root/own.txt", "")),
            ("unordered", b"X-ZeroCopy: 8/4:0/4\n\n0123456789ab".to_vec()),
            ("beyond", b"X-ZeroCopy: 8/5\n\n0123456789ab".to_vec()),
            ("much", [b"X-ZeroCopy: 0/5\n\n".to_vec(), vec![b'x'; 300_000]].concat()),
        ]
    });
    let mut client = server.connect();
    for (name, status, text) in [
        ("none", 404, Some("lost")),
        ("script", 404, Some("lost")),
        ("link", 404, Some("lost")),
        ("short", 502, None),
        ("shorter", 502, None),
        ("outside", 502, None),
        ("dots", 502, None),
        ("unordered", 502, None),
        ("beyond", 502, None),
        ("much", 502, None),
    ] {
        let reply = client.get(&format!("/app/{name}"));
        assert_eq!(reply.status, status, "{name}");
        assert!(text.is_none_or(|text| reply.text() == text), "{name}: {reply:?}");
    }
    server.wait_for_line(|line| line.contains("X-ZeroCopy: /etc/passwd, which is below none"));
}
