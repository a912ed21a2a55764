//! Which requests an application gets, and by which paths.

use harness::client::post;
use harness::scripted_http::{self, Asked};
use harness::server::Setup;
use harness::site::{HELLO, INDEX};
use harness::variant::{Test, Variant, tests};

pub(super) const TESTS: &[Test] = tests![
    Three: files_come_first, prefixes, one_option_is_enough, replies_are_led_back,
        sites_have_their_own;
];

/// Answers with the method and the target.
fn echo(asked: &mut Asked) -> bool {
    let told = asked.line.strip_suffix(" HTTP/1.1").expect("a request line").to_owned();
    asked.say(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{told}", told.len()))
}

fn files_come_first(variant: &Variant) {
    let setup = Setup::new(variant);
    let socket = scripted_http::start(setup.directory(), "app.sock", echo);
    let config = format!(
        "[[pools]]\nname = 'app'\nprotocol = 'http'\nservers = 'unix:{}'\n\
         [[routes]]\npath = '/closed/**'\nstatus = 403\n\
         [[routes]]\npool = 'app'\nfiles_first = true\n",
        socket.display()
    );
    let server = setup.config(&config).start();
    let mut client = server.connect();
    for (target, told) in [
        ("/hello.txt", HELLO),
        ("/", INDEX),
        ("/nothing?x", "GET /nothing?x"),
        ("/bare/", "GET /bare/"),
        ("/.hidden", "GET /.hidden"),
        ("/dir/%6eothing", "GET /dir/%6eothing"),
        ("/link-outside.txt", "GET /link-outside.txt"),
    ] {
        for _ in 0..2 {
            assert_eq!(client.get(target).text(), told, "{target}");
        }
    }
    client.send(post("/hello.txt", b"body"));
    assert_eq!(client.reply().text(), "POST /hello.txt");
    assert_eq!(client.get("/closed/x").status, 403);
}

fn prefixes(variant: &Variant) {
    for (keys, target, passed) in [
        ("strip_prefix = '/app'", "/app/x/y?z", "/x/y?z"),
        ("strip_prefix = '/app'", "/app/", "/"),
        ("strip_prefix = '/app/x'", "/app/x", "/"),
        ("strip_prefix = '/app/x'", "/app/xy", "/app/xy"),
        ("add_prefix = '/v1'", "/app/x", "/v1/app/x"),
        ("strip_prefix = '/app'\nadd_prefix = '/v1'", "/app/x", "/v1/x"),
    ] {
        let setup = Setup::new(variant);
        let socket = scripted_http::start(setup.directory(), "app.sock", echo);
        let server = setup.config(&crate::pool(&socket, keys)).start();
        assert_eq!(server.get(target).text(), format!("GET {passed}"), "{keys}");
    }
}

fn one_option_is_enough(variant: &Variant) {
    let setup = Setup::new(variant);
    let socket = scripted_http::start(setup.directory(), "app.sock", echo);
    let server = setup.argument(format!("--proxy=unix:{}", socket.display())).start();
    assert_eq!(server.get("/hello.txt").text(), HELLO);
    assert_eq!(server.get("/x/y").text(), "GET /x/y");
}

/// Where the application's paths are others than its clients', its own are turned back if that is set.
fn replies_are_led_back(variant: &Variant) {
    for (is_set, path, location, cookie) in [
        (true, "moved", "/app/x?y", "/app/x"),
        (true, "whole", "http://test/app/x", "/app"),
        (true, "other", "http://elsewhere.example/v1/x", "/"),
        (true, "apart", "/v12/x", "/v12"),
        (false, "moved", "/v1/x?y", "/v1/x"),
    ] {
        let setup = Setup::new(variant);
        let socket = scripted_http::start(setup.directory(), "app.sock", |asked| {
            let (location, cookie) = match asked.path() {
                "/v1/moved" => ("/v1/x?y", "/v1/x"),
                "/v1/whole" => ("http://test/v1/x", "/v1"),
                "/v1/other" => ("http://elsewhere.example/v1/x", "/"),
                "/v1/apart" => ("/v12/x", "/v12"),
                other => panic!("{other}"),
            };
            asked.say(format!(
                "HTTP/1.1 302 Found\r\nLocation: {location}\r\n\
                 Set-Cookie: a=/v1/; HttpOnly; path={cookie}\r\n\
                 Content-Length: 0\r\n\r\n"
            ))
        });
        let keys = format!("strip_prefix = '/app'\nadd_prefix = '/v1'\nrewrite_replies = {is_set}");
        let server = setup.config(&crate::pool(&socket, &keys)).start();
        let reply = server.get(&format!("/app/{path}"));
        assert_eq!(reply.need("Location"), location, "{path}");
        assert_eq!(reply.need("Set-Cookie"), format!("a=/v1/; HttpOnly; path={cookie}"), "{path}");
    }
}

/// Sites inherit the application, have their own, or none.
fn sites_have_their_own(variant: &Variant) {
    let setup = Setup::new(variant);
    let start = |name: &'static str| {
        scripted_http::start(setup.directory(), name, move |asked| {
            asked.say(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}", name.len()))
        })
    };
    let (top, own) = (start("top.sock"), start("own.sock"));
    let root = setup.root().display().to_string();
    let config = format!(
        "proxy = 'unix:{}'\n\
         [[sites]]\nhosts = 'inherits'\nroot = '{root}'\n\
         [[sites]]\nhosts = ['own', 'same']\nroot = '{root}'\nproxy = 'unix:{}'\n\
         [[sites]]\nhosts = 'none'\nroot = '{root}'\nproxy = 'off'\n",
        top.display(),
        own.display()
    );
    let server = setup.config(&config).start();
    let mut client = server.connect();
    for (host, told) in
        [("other", "top.sock"), ("inherits", "top.sock"), ("own", "own.sock"), ("same", "own.sock")]
    {
        client.send(format!("GET /nothing HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(client.reply().text(), told, "{host}");
        client.send(format!("GET /hello.txt HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(client.reply().text(), HELLO, "{host}");
    }
    client.send("GET /nothing HTTP/1.1\r\nHost: none\r\n\r\n");
    assert_eq!(client.reply().status, 404);
}
