//! Methods (RFC 9110 section 9): files take GET, HEAD and OPTIONS.

use harness::server::{Server, Setup};
use harness::variant::{Test, Variant, tests};

pub(crate) const TESTS: &[Test] = tests![
    Three: head_is_get_without_content, options, other_methods, unknown_methods, trace_echoes_nothing;
];

fn head_is_get_without_content(variant: &Variant) {
    let server = Setup::new(variant).config("listing = true").start();
    let mut client = server.connect();
    for target in
        ["/", "/hello.txt", "/large.bin", "/empty.txt", "/nothing", "/dir", "/bare/", "/link-outside.txt"]
    {
        for fields in
            [&[][..], &[("Range", "bytes=0-1")], &[("If-Match", "\"x\"")], &[("Range", "bytes=9999999-")]]
        {
            let get = client.fetch("GET", target, fields);
            let head = client.fetch("HEAD", target, fields);
            // RFC 9110 section 14.2: Range is defined for GET alone, so HEAD may describe the whole file.
            if get.status == head.status {
                let but_date = |(name, _): &&(String, String)| name != "Date" && name != "Expires";
                let (got, told): (Vec<_>, Vec<_>) = (
                    get.fields.iter().filter(but_date).collect(),
                    head.fields.iter().filter(but_date).collect(),
                );
                assert_eq!(got, told, "{target} {fields:?}");
            } else {
                assert!(
                    head.status == 200 && matches!(get.status, 206 | 416),
                    "{target} {fields:?}: {head:?}"
                );
            }
        }
    }
}

fn options(variant: &Variant) {
    let server = Server::start(variant);
    let mut client = server.connect();
    for target in ["/hello.txt", "*", "/dir/"] {
        let reply = client.fetch("OPTIONS", target, &[]);
        assert!(matches!(reply.status, 200 | 204), "{reply:?}");
        assert_eq!(
            (reply.list("Allow"), reply.body.len()),
            (vec!["get".into(), "head".into(), "options".into()], 0)
        );
    }
}

fn other_methods(variant: &Variant) {
    let server = Server::start(variant);
    let mut client = server.connect();
    for method in ["POST", "PUT", "DELETE", "PATCH", "TRACE"] {
        let reply = client.fetch(method, "/hello.txt", &[]);
        assert_eq!((reply.status, reply.closes()), (405, false), "{method}");
        assert_eq!(reply.list("Allow"), ["get", "head", "options"], "{method}");
    }
    let reply = server.one("CONNECT test:80 HTTP/1.1\r\nHost: test:80\r\n\r\n");
    assert!(matches!(reply.status, 400 | 405 | 501), "{reply:?}");
}

/// What is no method of HTTP is not implemented; case counts (section 9.1). A name without end is refused.
fn unknown_methods(variant: &Variant) {
    let server = Server::start(variant);
    let mut client = server.connect();
    let long = "A".repeat(64);
    for method in ["PROPFIND", "get", "Get", "GETGET", "X", "M-SEARCH", "!#$%&'*+.^_`|~", &long] {
        let reply = client.fetch(method, "/hello.txt", &[("Content-Length", "0")]);
        assert_eq!((reply.status, reply.closes()), (501, false), "{method}");
    }
    let reply = server.fetch(&format!("{long}A"), "/hello.txt", &[]);
    assert_eq!((reply.status, reply.closes()), (501, true));
    assert_eq!(server.fetch("A(B)", "/hello.txt", &[]).status, 400);
}

/// A page that makes a browser send TRACE could read the cookies it must not see, were they echoed.
fn trace_echoes_nothing(variant: &Variant) {
    let server = Server::start(variant);
    let reply = server.fetch("TRACE", "/hello.txt", &[("Cookie", "secret")]);
    assert!(!reply.text().contains("secret"), "{reply:?}");
}
