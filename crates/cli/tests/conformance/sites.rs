//! Sites of their own, told by the host that is asked (RFC 9110 section 7.2, RFC 9112 section 3.2).

use std::process::Command;

use rustix::process::Signal;

use harness::client::{Client, Reply};
use harness::eventually;
use harness::server::{Server, Setup};
use harness::variant::{Test, Variant, tests};

pub(crate) const TESTS: &[Test] = tests![
    Each: hosts;
    Three: pages_and_routes, a_reload, no_root;
];

/// The standard site for all hosts, and `a.example` and all below `b.example` with roots of their own.
fn setup(variant: &Variant) -> Setup {
    let setup = Setup::new(variant).file("name", "default").file("sites/a/name", "a");
    let setup = setup.file("sites/a/lost.html", "lost in a").file("sites/b/name", "b");
    let setup = setup.file("sites/c/name", "c");
    let text = sites(&setup.root().display().to_string());
    setup.config(&text)
}

fn sites(root: &str) -> String {
    format!(
        "[[sites]]\nhosts = ['a.example', '[::1]']\nroot = '{root}/sites/a'\n\
         [sites.error_pages]\n404 = '/lost.html'\n\
         [[sites.headers]]\nset = {{ X-Site = 'a' }}\n\
         [[sites]]\nhosts = '*.b.example'\nroot = '{root}/sites/b'\n\
         [[sites.routes]]\npath = '/gone/**'\nredirect = '/name?{{rest}}'\n"
    )
}

fn ask(client: &mut Client, host: &str, target: &str) -> Reply {
    client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    client.reply()
}

/// Connections are no site's: each request on one may be for another.
fn hosts(variant: &Variant) {
    let server = setup(variant).start();
    let mut client = server.connect();
    for (host, target, expected) in [
        ("a.example", "/name", "a"),
        ("x.b.example", "/name", "b"),
        ("test", "/name", "default"),
        ("", "/name", "default"),
        ("A.EXAMPLE.:8080", "/name", "a"),
        ("[::1]:80", "/./name", "a"),
        ("y.x.b.example", "//name", "b"),
        ("b.example", "/name", "default"),
        ("test", "http://a.example/name", "a"),
        ("test", "/sites/b/name", "b"),
    ] {
        let reply = ask(&mut client, host, target);
        assert_eq!((reply.status, &*reply.text()), (200, expected), "{host:?} {target}");
    }
    assert_eq!(ask(&mut client, "a.example", "/sites/b/name").status, 404);
    let both = ["a.example", "x.b.example"].map(|host| format!("GET /name HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    client.send(both.concat());
    assert_eq!([client.reply(), client.reply()].map(|reply| reply.text()), ["a", "b"], "in a row");
    client.send("GET /name HTTP/1.0\r\n\r\n");
    assert_eq!(client.reply().text(), "default");
}

fn pages_and_routes(variant: &Variant) {
    let server = setup(variant).start();
    let mut client = server.connect();
    let lost = ask(&mut client, "a.example", "/none");
    assert_eq!((lost.status, &*lost.text(), lost.need("X-Site")), (404, "lost in a", "a"));
    let lost = ask(&mut client, "test", "/none");
    assert_eq!((lost.status, lost.field("X-Site")), (404, None));
    let gone = ask(&mut client, "x.b.example", "/gone/a");
    assert_eq!((gone.status, gone.need("Location")), (302, "/name?a"));
    // Where the head is whole, so are breaches of the protocol.
    for (host, site) in [("a.example", Some("a")), ("test", None)] {
        for (breach, status) in [("Content-Length: 99999999999", 413), ("Expect: more", 417)] {
            let reply = server.one(format!("POST / HTTP/1.1\r\nHost: {host}\r\n{breach}\r\n\r\n"));
            assert_eq!((reply.status, reply.field("X-Site")), (status, site), "{host}");
        }
    }
    let unreadable = server.one("GET / HTTP/1.1\r\nHost: a.example\r\nBAD\r\n\r\n");
    assert_eq!((unreadable.status, unreadable.field("X-Site")), (400, None));
    for (host, told) in [
        ("a.example", "site 1 (a.example, [::1]), root"),
        ("x.b.example", "route 1 (/gone/**): 302 to /name?"),
        ("test", "the default site, root"),
    ] {
        let url = format!("http://{host}:1/gone/");
        let checked = explained(&server, &url);
        assert!(checked.contains(told), "{url}: {checked}");
    }
}

/// What `sluice check --url` says.
fn explained(server: &Server, url: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.arg("check").arg(server.root()).arg("--url").arg(url);
    command.arg("--config").arg(server.directory().join("sluice.toml"));
    String::from_utf8(command.output().expect("sluice").stdout).expect("text")
}

fn a_reload(variant: &Variant) {
    let server = setup(variant).start();
    let mut client = server.connect();
    assert_eq!(ask(&mut client, "c.example", "/name").text(), "default");
    drop(client);
    let before = server.workers();
    let (all, root) = (sites(&server.root().display().to_string()), server.root());
    let more = format!("{all}[[sites]]\nhosts = 'c.example'\nroot = '{}/sites/c'\n", root.display());
    server.rewrite_config(&more);
    server.signal(Signal::HUP);
    let asked = |host: &str| ask(&mut server.connect(), host, "/name").text();
    eventually("the new site is there", || asked("c.example") == "c");
    // One of those that retire may not have heard of it yet, and still accept.
    eventually("those before are gone", || !server.processes().iter().any(|pid| before.contains(pid)));
    assert_eq!(asked("a.example"), "a");
    server.rewrite_config(&format!("{all}[[sites]]\nhosts = 'c.example'\nroot = '/nowhere'\n"));
    server.signal(Signal::HUP);
    server.wait_for_line(|line| line.contains("cannot serve /nowhere"));
    assert_eq!(asked("c.example"), "c", "as before");
}

/// A site that sends clients elsewhere has no files, and what is refused of it is told by the server's pages.
fn no_root(variant: &Variant) {
    let setup = Setup::new(variant).config(
        "[[sites]]\nhosts = 'www.example'\n\
         [[sites.routes]]\npath = '/old/**'\nstatus = 410\n\
         [[sites.routes]]\nredirect = 'https://example.org{path}'\nstatus = 308\n",
    );
    let server = setup.start();
    let mut client = server.connect();
    for target in ["/", "/hello.txt", "/a/b?c"] {
        let reply = ask(&mut client, "www.example", target);
        let expected = format!("https://example.org{target}");
        assert_eq!((reply.status, reply.need("Location")), (308, expected.as_str()));
    }
    let reply = ask(&mut client, "www.example", "/old/x");
    assert!(reply.status == 410 && reply.text().contains("410"), "{reply:?}");
    assert_eq!(ask(&mut client, "www.example", "/%zz").status, 400);
    assert_eq!(ask(&mut client, "other", "/hello.txt").status, 200);
    server.signal(Signal::HUP);
    server.wait_for_line(|line| line.contains("settings reloaded"));
    assert_eq!(ask(&mut server.connect(), "www.example", "/hello.txt").status, 308);
    assert!(!server.stderr().iter().any(|line| line.contains("document root")));
}
