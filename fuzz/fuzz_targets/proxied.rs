//! What an application over HTTP gets of a request: one request, whatever the client has sent, with one
//! length, one host, and no field by which a client could pose as a proxy.

#![no_main]

use std::net::SocketAddr;

use http1::{Connection, Limits, Method, Step, Tick};
use libfuzzer_sys::fuzz_target;
use server::config::PoolRule;
use server::gateway::Asker;
use server::gateway::http_request::{AfterReply, BodyLength, HttpTerms, write};
use server::proxies::AsksFor;
use server::proxies::origin::Origin;
use sys::socket::PeerAddress;

fuzz_target!(|input: &[u8]| {
    let (limits, now) = (Limits::default(), Tick::from_ms(1000));
    let mut client = Connection::<()>::new(now, &limits);
    let Ok((_, Step::Request(head))) = client.receive(&limits, now, input, true) else { return };
    if head.method == Method::Connect {
        // It is answered here.
        return;
    }
    let peer: SocketAddr = "192.0.2.7:1".parse().expect("an address");
    let asker = Asker {
        client: PeerAddress::Inet(peer),
        asks_for: AsksFor::Itself,
        origin: Origin::default(),
        secured: None,
        local: None,
    };
    for rule in [PoolRule::default(), prefixes()] {
        let terms = HttpTerms::of(&rule);
        for afterwards in [AfterReply::Stays, AfterReply::Ends, AfterReply::Switches] {
            for body in [&b""[..], b"GET /evil HTTP/1.1\r\nHost: evil\r\n\r\n"] {
                let length = BodyLength::Known(body.len() as u64);
                let mut written = Vec::new();
                write(&mut written, &head, &asker, (length, afterwards), &terms);
                check(&written, body, body.len(), head.method.name());
                let chunk = [format!("{:x}\r\n", body.len()).as_bytes(), body, b"\r\n0\r\n\r\n"].concat();
                written.clear();
                write(&mut written, &head, &asker, (BodyLength::Unknown, afterwards), &terms);
                check(
                    &written,
                    if body.is_empty() { b"0\r\n\r\n" } else { &chunk },
                    body.len(),
                    head.method.name(),
                );
            }
        }
    }
});

fn prefixes() -> PoolRule {
    PoolRule {
        strip_prefix: Some("/a".to_owned()),
        add_prefix: Some("/b/".to_owned()),
        host: Some("app.example".to_owned()),
        ..PoolRule::default()
    }
}

/// The application sees one request, with all of the body and nothing behind it. The body has so many bytes
/// besides its framing.
fn check(head: &[u8], body: &[u8], length: usize, method: &str) {
    let (limits, now) = (Limits { head: 1 << 20, fields: 10_000, ..Limits::default() }, Tick::from_ms(1000));
    let limits = Limits { request_line: 1 << 20, ..limits };
    let mut application = Connection::<()>::new(now, &limits);
    let (used, step) = application.receive(&limits, now, head, false).expect("a request that can be read");
    let Step::Request(seen) = step else { panic!("no request: {:?}", String::from_utf8_lossy(head)) };
    assert_eq!((used, seen.method.name()), (head.len(), method));
    let count = |name: &str| {
        seen.fields.pairs().filter(|(field, _)| field.eq_ignore_ascii_case(name.as_bytes())).count()
    };
    for (name, most) in [("expect", 0), ("proxy", 0), ("te", 0), ("x-real-ip", 0)] {
        assert!(count(name) <= most, "{name}: {:?}", String::from_utf8_lossy(head));
    }
    for name in ["host", "x-forwarded-for", "x-forwarded-proto", "forwarded"] {
        assert_eq!(count(name), 1, "{name}: {:?}", String::from_utf8_lossy(head));
    }
    for name in ["content-length", "connection", "upgrade", "x-forwarded-host"] {
        assert!(count(name) <= 1, "{name}: {:?}", String::from_utf8_lossy(head));
    }
    if !body.is_empty() {
        assert_eq!(count("content-length") + count("transfer-encoding"), 1);
        let (mut at, mut got) = (0, 0);
        loop {
            let (used, step) = application.receive(&limits, now, &body[at..], false).expect("a body");
            at += used;
            match step {
                Step::Body(range) => got += range.len(),
                Step::EndOfRequest => break,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((at, got), (body.len(), length));
    }
}
