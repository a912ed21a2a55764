//! From the request target to a file (RFC 9112 section 3.2, RFC 3986), and never to one outside the root.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use harness::client::Reply;
use harness::server::{Server, Setup};
use harness::site::{HELLO, SECRET};
use harness::variant::{Test, Variant, tests};

pub(crate) const TESTS: &[Test] = tests![
    Three:
        absolute_form,
        queries_are_not_part_of_the_path,
        percent_decoding,
        bytes_that_should_have_been_encoded,
        malformed_encoding,
        no_way_out,
        dot_segments_inside,
        empty_segments,
        dotfiles_are_refused,
        dotfiles_by_choice,
        nul,
        encoded_slash,
        overlong_names,
        files_are_no_directories,
        refusals_are_explained;
];

/// A path that leads nowhere: an error of the client's, not of the server's.
#[track_caller]
fn nothing(reply: &Reply, target: &str) {
    assert!(matches!(reply.status, 400 | 403 | 404), "{target:?} got {reply:?}");
    assert!(!reply.text().contains(SECRET.trim()), "{target:?} got {reply:?}");
}

fn absolute_form(variant: &Variant) {
    let server = Server::start(variant);
    for target in [
        "http://test/hello.txt",
        "HTTP://other.example:8080/hello.txt?x",
        "http://[::1]/hello.txt",
        "https://test/hello.txt",
    ] {
        assert_eq!(server.get(target).text(), HELLO, "{target}");
    }
    assert_eq!(server.get("http://test").status, 200);
    assert_eq!(server.get("http://test?x").status, 200);
    // Host is needed all the same (RFC 9112 section 3.2.2).
    assert_eq!(server.one("GET http://test/hello.txt HTTP/1.1\r\n\r\n").status, 400);
}

fn queries_are_not_part_of_the_path(variant: &Variant) {
    let server = Server::start(variant);
    for query in ["?", "?a=b", "?a=%zz", "?../..", "?a?b", "?/../../outside/secret.txt", "?a=/b&c=[d]"] {
        assert_eq!(server.get(&format!("/hello.txt{query}")).text(), HELLO, "{query}");
    }
}

fn percent_decoding(variant: &Variant) {
    let server = Server::start(variant);
    for (target, body) in [
        ("/%68ello.txt", HELLO),
        ("/%68%65%6C%6c%6f%2Etxt", HELLO),
        ("/with%20space.txt", "space\n"),
        ("/a+b.txt", "plus\n"),
        ("/a%2Bb.txt", "plus\n"),
        ("/100%25.txt", "percent\n"),
        ("/question%3f.txt", "question\n"),
        ("/%C3%BCber.txt", "umlaut\n"),
        ("/%c3%bcber.txt", "umlaut\n"),
        ("/dir/%66ile.txt", "a file in dir\n"),
    ] {
        let reply = server.get(target);
        assert_eq!((reply.status, reply.text().as_str()), (200, body), "{target}");
    }
    // A plus is a plus, and nothing is decoded twice.
    for target in ["/with+space.txt", "/100%2525.txt", "/%2568ello.txt", "/question?.txt"] {
        nothing(&server.get(target), target);
    }
}

/// Clients send them all the same, curl `?q=ä`, and nobody takes them for anything else.
fn bytes_that_should_have_been_encoded(variant: &Variant) {
    let server = Setup::new(variant)
        .file("<>\"{}|\\^`.txt", "unwise\n")
        .file("\u{fc}<>/index.html", "directory\n")
        .start();
    let get = |target: &[u8]| server.one([b"GET ", target, b" HTTP/1.1\r\nHost: x\r\n\r\n"].concat());
    for (target, body) in [
        ("/\u{fc}ber.txt", "umlaut\n"),
        ("/%C3\u{fc}ber.txt", ""),
        ("/<>\"{}|\\^`.txt", "unwise\n"),
        ("/hello.txt?q=\u{e4}<>\"{}|\\^`", HELLO),
        ("http://test/\u{fc}ber.txt?\u{fc}", "umlaut\n"),
    ] {
        let reply = get(target.as_bytes());
        assert_eq!(
            (reply.status, reply.text().as_str() == body),
            (if body.is_empty() { 404 } else { 200 }, !body.is_empty()),
            "{target}"
        );
    }
    // Bytes that are no UTF-8 are as good as others.
    assert_eq!(get(b"/hello.txt?\xff\x80").text(), HELLO);
    nothing(&get(b"/\xfcber.txt"), "Latin-1");
    // What is sent back is a reference as it should be (RFC 3986).
    let mut redirected = get("/\u{fc}<>?a=%41&q=\u{e4}/?<>\"{}|\\^`[]'".as_bytes());
    assert_eq!(redirected.status, 301);
    assert_eq!(
        redirected.need("Location"),
        "/%C3%BC%3C%3E/?a=%41&q=%C3%A4/?%3C%3E%22%7B%7D%7C%5C%5E%60%5B%5D'"
    );
    redirected = get(redirected.need("Location").as_bytes());
    assert_eq!(redirected.text(), "directory\n");
    assert_eq!(get(b"/\xc3\xbc<>?\xff").need("Location"), "/%C3%BC%3C%3E/?%FF");
}

fn malformed_encoding(variant: &Variant) {
    let server = Server::start(variant);
    for target in
        ["/%", "/%6", "/hello.txt%", "/hello.txt%2", "/%zzhello.txt", "/%6gello.txt", "/%-1", "/% 1", "/%%"]
    {
        let reply = server.one(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n"));
        assert_eq!(reply.status, 400, "{target}");
    }
    // Bytes that are no UTF-8 name no file here, but could.
    nothing(&server.get("/%ff%fe"), "/%ff%fe");
}

fn no_way_out(variant: &Variant) {
    let server = Server::start(variant);
    for path in [
        "/../outside/secret.txt",
        "/..%2foutside/secret.txt",
        "/%2e%2e/outside/secret.txt",
        "/%2e./outside/secret.txt",
        "/.%2e/outside/secret.txt",
        "/%2e%2e%2foutside%2fsecret.txt",
        "/..%5coutside%5csecret.txt",
        "/..\\outside\\secret.txt",
        "/dir/../../outside/secret.txt",
        "/dir/..%2f..%2foutside/secret.txt",
        "/dir/%2e%2e/%2e%2e/outside/secret.txt",
        "/dir//../../outside/secret.txt",
        "//../outside/secret.txt",
        "/./../outside/secret.txt",
        "/nothing/../../outside/secret.txt",
        "/hello.txt/../../outside/secret.txt",
        "/%252e%252e/outside/secret.txt",
        "/..%c0%afoutside/secret.txt",
        "/..;/outside/secret.txt",
        "/.../outside/secret.txt",
        "/..%00/outside/secret.txt",
        "/../../../../../../../../etc/passwd",
        "//etc/passwd",
        "/%2fetc/passwd",
        "http://test/../outside/secret.txt",
        "/link-outside.txt",
        "/link-outside-dir/secret.txt",
        "/link-absolute.txt",
        "/dir/../link-outside.txt",
        "/..",
        "/../",
        "/dir/../..",
    ] {
        let reply = server.get(path);
        nothing(&reply, path);
    }
    let root = server.root();
    nothing(&server.get(&root.join("hello.txt").to_string_lossy()), "the real path");
}

/// Segments that stay inside lead to the file that they mean (RFC 3986 section 5.2.4), under its one name:
/// apt asks for `./Packages`.
fn dot_segments_inside(variant: &Variant) {
    let config = "[[headers]]\npath = \"/dir/**\"\nset = { X-Of = \"dir\" }";
    let server = Server::with(variant, config);
    for path in [
        "/./hello.txt",
        "/dir/../hello.txt",
        "/dir/./../hello.txt",
        "/dir/%2e%2e/hello.txt",
        "/%2e/hello.txt",
        "/dir//../hello.txt",
        "/nothing/../hello.txt",
        "/hello.txt/../hello.txt",
        "/.hidden-dir/../hello.txt",
        "/link-dir/../hello.txt",
        "http://test/./hello.txt",
    ] {
        let reply = server.get(path);
        assert_eq!((reply.status, reply.text().as_str()), (200, HELLO), "{path}");
        assert_eq!(reply.field("X-Of"), None, "{path}");
    }
    for path in ["/./dir/file.txt", "/bare/../dir/file.txt"] {
        assert_eq!(server.get(path).need("X-Of"), "dir", "{path}");
    }
    for path in ["/dir/.", "/dir/bare/..", "/./dir/"] {
        assert!(server.get(path).text().contains("<title>dir</title>"), "{path}");
    }
    for path in ["/bare/../dir?x", "/./dir?x"] {
        assert_eq!(server.get(path).need("Location"), "/dir/?x", "{path}");
    }
    for path in ["/..", "/../", "/../hello.txt", "/dir/../../hello.txt", "/%2e%2E/hello.txt"] {
        assert_eq!(server.get(path).status, 400, "{path}");
    }
    for path in ["/dir/../.hidden", "/./.hidden", "/dir/../.hidden-dir/file.txt", "/dir%2f../hello.txt"] {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
}

/// `//` may be another name of `/`, but a redirect must not turn it into another host's.
fn empty_segments(variant: &Variant) {
    let server = Setup::new(variant).file("evil.example/index.html", "evil").start();
    for path in ["//hello.txt", "/dir//file.txt", "///hello.txt"] {
        let reply = server.get(path);
        if reply.status == 200 {
            assert!(reply.text() == HELLO || reply.text() == "a file in dir\n", "{path}");
        } else {
            assert!(matches!(reply.status, 301 | 308 | 400 | 403 | 404), "{path}: {reply:?}");
        }
    }
    for path in
        ["//evil.example", "//evil.example?x", "///evil.example", "/%2fevil.example", "/\\evil.example"]
    {
        let reply = server.one(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
        if let Some(location) = reply.field("Location") {
            let good =
                location.starts_with('/') && !location.starts_with("//") && !location.starts_with("/\\");
            assert!(good || location.starts_with("http://x/"), "{path} leads to {location}");
        }
    }
}

fn dotfiles_are_refused(variant: &Variant) {
    let setup =
        Setup::new(variant).file(".well-known/acme", "known\n").file(".well-known/.hidden", "hidden\n");
    let server = setup.start();
    for target in [
        "/.hidden",
        "/%2ehidden",
        "/.hidden-dir/file.txt",
        "/.hidden-dir/",
        "/.hidden-dir",
        "/bare/.hidden",
        "/.nothing",
    ] {
        let reply = server.get(target);
        nothing(&reply, target);
        assert!(!reply.text().contains("hidden\n"), "{target}");
    }
    // RFC 8615 made this one for the public.
    assert_eq!(server.get("/.well-known/acme").text(), "known\n");
    assert!(server.get("/.well-known/.hidden").status >= 400);
    // Whether there is such a file is nobody's business either.
    let (there, missing) = (server.get("/.hidden"), server.get("/.nothing"));
    assert_eq!((there.status, there.body), (missing.status, missing.body));
}

fn dotfiles_by_choice(variant: &Variant) {
    let server = Server::with(variant, "[files]\ndotfiles = true");
    for target in ["/.hidden", "/.hidden-dir/file.txt", "/bare/.hidden"] {
        assert_eq!(server.get(target).text(), "hidden\n", "{target}");
    }
    for target in
        ["/../outside/secret.txt", "/dir/../../outside/secret.txt", "/.%2e/outside/secret.txt", "/..", "/."]
    {
        let reply = server.get(target);
        assert!(!reply.text().contains(SECRET.trim()), "{target}");
        assert!(target == "/." || reply.status >= 400, "{target}: {reply:?}");
    }
}

fn nul(variant: &Variant) {
    let server = Server::start(variant);
    for target in ["/%00", "/hello.txt%00", "/hello%00.txt", "/hello.txt%00.html", "/dir/%00/file.txt"] {
        nothing(&server.get(target), target);
    }
}

/// `%2F` is data, not a separator (RFC 3986 section 2.2); a server that takes it for one must not be led
/// astray by it.
fn encoded_slash(variant: &Variant) {
    let server = Server::start(variant);
    let reply = server.get("/dir%2ffile.txt");
    if reply.status == 200 {
        assert_eq!(reply.text(), "a file in dir\n");
    } else {
        nothing(&reply, "/dir%2ffile.txt");
    }
}

/// Names that no file can have are files that are not there, not failures of the server.
fn overlong_names(variant: &Variant) {
    let server = Server::start(variant);
    for target in [
        format!("/{}", "a".repeat(256)),
        format!("/{}", "a/".repeat(2100)),
        format!("/{}", "a".repeat(5000)),
        format!("/dir/{}", "%61".repeat(1000)),
    ] {
        let reply = server.get(&target);
        assert!(matches!(reply.status, 400 | 404 | 414), "{} bytes got {reply:?}", target.len());
    }
}

fn files_are_no_directories(variant: &Variant) {
    let server = Server::start(variant);
    for target in
        ["/hello.txt/", "/hello.txt/file.txt", "/hello.txt/index.html", "/large.bin/", "/dir/file.txt/"]
    {
        nothing(&server.get(target), target);
    }
}

/// The client hears no more than the status; the operator, why.
fn refusals_are_explained(variant: &Variant) {
    // Each kind of them is told once a second by each worker.
    let server = Server::with(variant, "log_level = \"debug\"");
    let root = server.root();
    rustix::fs::mkfifoat(rustix::fs::CWD, root.join("fifo"), rustix::fs::Mode::RWXU).expect("a FIFO");
    symlink(".hidden", root.join("link-hidden")).expect("a link");
    fs::write(root.join("no\nentry"), SECRET).expect("a file");
    fs::set_permissions(root.join("no\nentry"), fs::Permissions::from_mode(0o000))
        .expect("a mode can be set");
    let everybody_may = fs::read(root.join("no\nentry")).is_ok();
    for (target, status, level, path, reason) in [
        ("/no%0Aentry", 403, "INFO", "\"/no\\nentry\"", "may not read"),
        ("/link-outside.txt", 404, "INFO", "\"/link-outside.txt\"", "out of the root"),
        ("/link-loop", 404, "INFO", "\"/link-loop\"", "symbolic links"),
        ("/link-hidden", 404, "INFO", "\"/link-hidden\"", "begins with a dot"),
        ("/fifo", 403, "INFO", "\"/fifo\"", "not a regular file"),
        ("/bare/", 403, "INFO", "\"/bare/\"", "--listing"),
        ("/dir/../../x", 400, "DEBUG", "\"/dir/../../x\"", "above the root"),
        ("/.hidden", 404, "DEBUG", "\"/.hidden\"", "begins with a dot"),
        ("/a%2Fb", 404, "DEBUG", "\"/a%2Fb\"", "%2F"),
        ("/%zz", 400, "DEBUG", "\"/%zz\"", "percent"),
    ] {
        if path.contains("entry") && everybody_may {
            harness::skip("a file that the server may not read: root may read everything");
            continue;
        }
        assert_eq!(server.get(target).status, status, "{target}");
        let line = server.wait_for_line(|line| line.contains(path));
        assert!(line.contains(level) && line.contains(reason), "{target}: {line}");
    }
    // What is missing is nobody's fault.
    assert_eq!(server.get("/absent").status, 404);
    let told = server.stderr();
    assert!(!told.iter().any(|line| line.contains("absent")), "{told:?}");
    // Nobody fills a log with it.
    let mut client = server.connect();
    for _ in 0..300 {
        client.get("/bare/");
    }
    let is_told = |line: &&String| line.contains("\"/bare/\"");
    assert!(server.stderr().iter().filter(is_told).count() < 50);
}
