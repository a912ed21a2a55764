//! What an application is told: programs by their routes, and parameters that no client makes up.

use std::sync::{Mutex, mpsc};

use harness::client::request;
use harness::scripted::{self, Asked, answer, pool, scripted_site};
use harness::server::Setup;
use harness::site::HELLO;
use harness::variant::{Test, Variant, tests};

pub(super) const TESTS: &[Test] = tests![
    Three: routes_to_programs, any_method, fields_that_deceive, what_proxies_tell;
];

fn routes_to_programs(variant: &Variant) {
    let setup = Setup::new(variant).file("app/file.txt", "a file that nobody gets");
    let named = |name: &'static str| {
        move |mut asked: Asked| {
            let [script, info] = ["SCRIPT_NAME", "PATH_INFO"].map(|of| asked.params.get(of).cloned());
            let own = asked.params.get("OWN").cloned().unwrap_or_default();
            let text = format!("{name} {script:?} {info:?} {own}");
            asked.say(answer(format!("Content-Length: {}\r\n\r\n{text}", text.len())));
        }
    };
    let directory = setup.directory();
    let app = scripted::start(directory, "app.sock", named("app"));
    let cgi = scripted::start(directory, "cgi.sock", named("cgi"));
    let config = format!(
        "{}[[pools]]\nname = 'cgi'\nservers = 'unix:{}'\nparams = {{ OWN = 'own words' }}\n\
         [[routes]]\npath = '/bin/**'\npool = 'cgi'\nscripts = '.cgi'\nfallback = '/hello.txt'\n",
        pool(&[&app], ""),
        cgi.display()
    );
    let server = setup.file("bin/run.cgi", "#!/bin/sh").file("other/run.cgi", "text").config(&config).start();
    let some = |text: &str| format!("Some({text:?})");
    for (target, text) in [
        ("/app/file.txt", format!("app {} {} ", some("/app"), some("/file.txt"))),
        ("/app/", format!("app {} {} ", some("/app"), some("/"))),
        ("/bin/run.cgi", format!("cgi {} None own words", some("/bin/run.cgi"))),
        ("/bin/run.cgi/x", format!("cgi {} {} own words", some("/bin/run.cgi"), some("/x"))),
        ("/bin/none.cgi", HELLO.to_owned()),
    ] {
        assert_eq!(server.get(target).text(), text, "{target}");
    }
    // No pool runs it there, and it is no file, either.
    assert_eq!(server.get("/other/run.cgi").status, 404);
}

/// Methods are a registry and no closed list (RFC 9110 section 9.1).
fn any_method(variant: &Variant) {
    let setup = Setup::new(variant);
    let serve = |mut asked: Asked| {
        let text = format!("{} {}", asked.params["REQUEST_METHOD"], asked.body.len());
        asked.say(answer(format!("Content-Length: {}\r\n\r\n{text}", text.len())));
    };
    let socket = scripted::start(setup.directory(), "app.sock", serve);
    let tracing = format!(
        "[[pools]]\nname = 'tracing'\nservers = 'unix:{}'\ntrace = true\n\
         [[routes]]\npath = '/tracing/**'\npool = 'tracing'\nprogram = '/srv/app'\n",
        socket.display()
    );
    let server = setup.config(&(pool(&[&socket], "") + &tracing)).start();
    let mut client = server.connect();
    let long = "A".repeat(64);
    for method in ["PROPFIND", "MKCOL", "REPORT", "LOCK", "BASELINE-CONTROL", "get", "PATCH", "PUT", &long] {
        client.send(request(method, "/app/x", &[("Content-Length", "3")]) + "abc");
        let reply = client.reply();
        assert_eq!((reply.status, reply.text()), (200, format!("{method} 3")));
        // Files have none of these.
        let status = if ["PATCH", "PUT"].contains(&method) { 405 } else { 501 };
        assert_eq!(client.fetch(method, "/hello.txt", &[]).status, status, "{method}");
    }
    let refused = client.fetch("TRACE", "/app/x", &[]);
    let allowed = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
    assert_eq!((refused.status, refused.field("Allow")), (405, Some(allowed)));
    let refused = client.fetch("TRACE", "/hello.txt", &[]);
    assert_eq!((refused.status, refused.field("Allow")), (405, Some("GET, HEAD, OPTIONS")));
    assert_eq!(client.fetch("TRACE", "/tracing/x", &[]).text(), "TRACE 0");
    assert_eq!(server.fetch(&format!("{long}A"), "/app/x", &[]).status, 501);
    assert_eq!(server.one("CONNECT test:80 HTTP/1.1\r\nHost: test:80\r\n\r\n").status, 405);
}

fn fields_that_deceive(variant: &Variant) {
    let (told, heard) = mpsc::channel();
    let told = Mutex::new(told);
    let serve = move |mut asked: Asked| {
        assert!(asked.body.is_empty());
        told.lock().expect("no panic").send(asked.params.clone()).expect("the test waits");
        asked.say(answer("Content-Type: text/plain\r\n\r\nwell"));
    };
    let server = scripted_site(variant, serve);
    let fields = [
        ("Proxy", "http://evil/"),
        ("X_Real_IP", "192.0.2.1"),
        ("X-Forwarded-For", "192.0.2.1"),
        ("X-Forwarded-Proto", "https"),
        ("X.Y", "z"),
        ("Cookie", "a=1"),
        ("Cookie", "b=2"),
        ("Authorization", "Basic YTpi"),
    ];
    let reply = server.fetch("GET", "/app/some%20where?q=%20", &fields);
    assert_eq!((reply.status, &*reply.text()), (200, "well"));
    let params = heard.recv_timeout(harness::TIMEOUT).expect("the application is asked");
    let of_client: Vec<_> = params.iter().filter(|(name, _)| name.starts_with("HTTP_")).collect();
    let of_client: Vec<_> = of_client.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let expected = [("HTTP_AUTHORIZATION", "Basic YTpi"), ("HTTP_COOKIE", "a=1; b=2"), ("HTTP_HOST", "test")];
    assert_eq!(of_client, expected);
    for (name, value) in [
        ("REMOTE_ADDR", "127.0.0.1"),
        ("REQUEST_URI", "/app/some%20where?q=%20"),
        ("PATH_INFO", "/some where"),
        ("SCRIPT_NAME", "/app"),
        ("SCRIPT_FILENAME", "/srv/app"),
        ("QUERY_STRING", "q=%20"),
        ("SERVER_NAME", "test"),
        ("REQUEST_METHOD", "GET"),
        ("CONTENT_LENGTH", ""),
    ] {
        assert_eq!(params[name], value, "{name}");
    }
}

/// The nearest trusted one's word counts, and nobody else's.
fn what_proxies_tell(variant: &Variant) {
    let setup = Setup::new(variant);
    let names = [
        "REMOTE_ADDR",
        "HTTP_X_FORWARDED_FOR",
        "HTTPS",
        "REQUEST_SCHEME",
        "SERVER_NAME",
        "SERVER_PORT",
        "HTTP_HOST",
    ];
    let serve = move |mut asked: Asked| {
        let told = names.map(|name| asked.params.get(name).map_or("-", String::as_str)).join(" ");
        assert!(!asked.params.values().any(|value| value.contains("evil")), "{:?}", asked.params);
        asked.say(answer(format!("\r\n{told}")));
    };
    let socket = scripted::start(setup.directory(), "app.sock", serve);
    let proxies = "[proxies]\ntrusted = '127.0.0.1'\nbelieve = ['scheme', 'host', 'port']\n";
    let server = setup.config(&(pool(&[&socket], "") + proxies)).start();
    let mut client = server.connect();
    let port = server.addresses()[0].port().to_string();
    for (fields, expected) in [
        (&[][..], format!("127.0.0.1 - - http test {port} test")),
        (&[("X-Forwarded-Proto", "https")], "127.0.0.1 - on https test 443 test".into()),
        (&[("X-Forwarded-Proto", "evil")], format!("127.0.0.1 - - http test {port} test")),
        (
            &[("Forwarded", "for=_evil"), ("X-Forwarded-For", "192.0.2.1")],
            format!("127.0.0.1 unknown - http test {port} test"),
        ),
        (
            &[("X-Forwarded-For", "evil, 192.0.2.1"), ("X-Forwarded-Proto", "evil, https")],
            "192.0.2.1 192.0.2.1 on https test 443 test".into(),
        ),
        (
            &[("X-Forwarded-Host", "evil, a.example:8443"), ("X-Forwarded-Proto", "https")],
            "127.0.0.1 - on https a.example 8443 a.example:8443".into(),
        ),
        (
            &[("Forwarded", "for=evil;host=evil, for=192.0.2.1;proto=https;host=a.example")],
            "192.0.2.1 192.0.2.1 on https a.example 443 a.example".into(),
        ),
    ] {
        assert_eq!(client.fetch("GET", "/app/x", fields).text(), expected, "{fields:?}");
    }
}
