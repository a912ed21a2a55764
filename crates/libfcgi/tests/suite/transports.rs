//! The library against a web server that is the other end of the same protocol, over real sockets: plain
//! records, clients that are lent, and memory that is shared.

use std::io::{BufRead, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use fastcgi::transport::{self, Area, Lent, Returned};
use fastcgi::{Role, Transports, record};
use fcgi::Request;
use sys::memory_file::{Access, Mapping, MemoryFile};

use super::web_server::{Application, Said, WebServer};

const LENT: Lent<'static> = Lent { is_http11: true, is_persistent: true, has_body: true, server: b"tested" };

/// Writes what `QUERY_STRING` says: fields of the head (`~` for a line end), and how many bytes of body in
/// about how many pieces.
fn answer(request: &mut Request<'_>) -> std::io::Result<u32> {
    let query = String::from_utf8(request.param("QUERY_STRING").unwrap_or_default().to_vec()).unwrap();
    let mut words = query.split('|');
    let head = words.next().unwrap().replace('~', "\r\n").replace("LONG", &"b".repeat(70_000));
    let mut number = || words.next().map_or(0, |word| word.parse().unwrap());
    let (size, pieces): (usize, usize) = (number(), number());
    request.write_all(head.as_bytes())?;
    let body = body(size);
    for piece in body.chunks((size / pieces.max(1)).max(1)) {
        request.write_all(piece)?;
    }
    Ok(7)
}

fn body(size: usize) -> Vec<u8> {
    (0..size).map(|at| (at % 251) as u8).collect()
}

/// Both ends of a client's connection: the web server's and its own.
fn client() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let accepted = listener.accept().unwrap().0;
    // As a server's are; the library must not mind.
    accepted.set_nonblocking(true).unwrap();
    (accepted, client)
}

/// A reply as the client gets it, without its date: head and the rest. The web server goes on with the client
/// behind it, and ends it.
fn read_reply(mut near: TcpStream, far: &mut TcpStream) -> (String, Vec<u8>) {
    const NEXT: &[u8] = b"the next reply";
    near.write_all(NEXT).unwrap();
    near.shutdown(Shutdown::Write).unwrap();
    let mut received = Vec::new();
    far.read_to_end(&mut received).unwrap();
    received.truncate(received.strip_suffix(NEXT).expect("the connection goes on").len());
    let end = received.windows(4).position(|end| end == b"\r\n\r\n").expect("a whole head") + 4;
    let head = String::from_utf8(received[..end].to_vec()).unwrap();
    let lines = head.lines().filter(|line| !line.starts_with("Date: "));
    (lines.collect::<Vec<_>>().join("\n"), received[end..].to_vec())
}

/// The data of chunks.
fn dechunked(mut input: &[u8]) -> Vec<u8> {
    let mut data = Vec::new();
    loop {
        let end = input.windows(2).position(|end| end == b"\r\n").unwrap();
        let length = usize::from_str_radix(std::str::from_utf8(&input[..end]).unwrap(), 16).unwrap();
        data.extend_from_slice(&input[end + 2..][..length]);
        let rest = &input[end + 2 + length..];
        assert!(rest.starts_with(b"\r\n"));
        input = &rest[2..];
        if length == 0 {
            assert!(input.is_empty());
            return data;
        }
    }
}

/// What comes of a request whose client is lent, and what the client gets.
fn lend(lent: Lent<'_>, query: &str) -> (Vec<Said>, (String, Vec<u8>)) {
    let application = Application::start(answer);
    let mut web_server = application.connect();
    let (near, mut far) = client();
    web_server.lend(lent, near.as_fd(), &[("QUERY_STRING", query)], b"");
    let said = web_server.said();
    (said, read_reply(near, &mut far))
}

fn returned(status: u16, body: u64, sent: usize) -> Returned {
    Returned { status, is_whole: true, is_persistent: true, body, sent: sent as u64 }
}

#[test]
fn plain_requests_are_answered_on_a_connection_that_is_kept() {
    let application = Application::start(|request| {
        let mut body = String::new();
        request.read_to_string(&mut body)?;
        let name = request.param("NAME").map(|name| String::from_utf8_lossy(name).into_owned());
        assert_eq!(request.role(), Role::Responder);
        write!(request, "X: y\n\n{name:?} {body}")?;
        request.error_log().write_all(b"said so")?;
        Ok(3)
    });
    let mut web_server = application.connect();
    for body in ["", "first", "second"] {
        web_server.begin(Role::Responder, true, &[("OTHER", ""), ("NAME", "me")], body.as_bytes());
        let stdout = format!("X: y\n\nSome(\"me\") {body}").into_bytes();
        let said = [Said::Stderr(b"said so".to_vec()), Said::Stdout(stdout), Said::End(3)];
        assert_eq!(web_server.said(), said);
    }
    web_server.begin(Role::Responder, false, &[], b"x");
    web_server.said();
    assert!(web_server.has_ended(), "the last one was not to be kept");
}

#[test]
fn long_replies_and_bodies_arrive_whole() {
    let application = Application::start(|request| {
        let mut body = Vec::new();
        request.read_to_end(&mut body)?;
        request.write_all(b"X: y\n\n")?;
        request.write_all(&body)?;
        request.flush()?;
        request.write_all(&body[..10])?;
        Ok(0)
    });
    let mut web_server = application.connect();
    let sent = body(20_000_000);
    web_server.begin(Role::Responder, true, &[], &sent);
    let expected = [b"X: y\n\n", &sent[..], &sent[..10]].concat();
    assert!(web_server.said() == [Said::Stdout(expected), Said::End(0)]);
}

#[test]
fn a_filter_has_two_streams() {
    let application = Application::start(|request| {
        let mut both = [String::new(), String::new()];
        request.read_to_string(&mut both[0])?;
        request.data().read_to_string(&mut both[1])?;
        write!(request, "X: y\n\n{both:?}")?;
        Ok(0)
    });
    let mut web_server = application.connect();
    web_server.begin(Role::Filter, true, &[], b"body");
    web_server.data(b"file");
    assert_eq!(web_server.said(), [Said::Stdout(b"X: y\n\n[\"body\", \"file\"]".to_vec()), Said::End(0)]);
}

#[test]
fn a_web_server_that_asks_is_told_the_transports() {
    let application = Application::start(answer);
    let mut web_server = application.connect();
    assert_eq!(web_server.ask(), Transports { pass_fd: true, shared_memory: true, waits: true });
    web_server.begin(Role::Responder, true, &[("QUERY_STRING", "A: b~~")], b"");
    assert_eq!(web_server.said(), [Said::Stdout(b"A: b\r\n\r\n".to_vec()), Said::End(7)]);
}

#[test]
fn a_web_server_that_has_asked_hears_when_the_next_request_is_waited_for() {
    let (go_on, told) = std::sync::mpsc::channel();
    let told = std::sync::Mutex::new(told);
    let application = Application::start(move |request| {
        let result = answer(request);
        request.flush()?;
        told.lock().unwrap().recv().unwrap();
        result
    });
    let mut web_server = application.connect();
    web_server.ask();
    for times in 1..4 {
        web_server.begin(Role::Responder, true, &[("QUERY_STRING", "A: b~~")], b"");
        go_on.send(()).unwrap();
        web_server.said();
        web_server.await_waits(times);
    }
    drop(web_server);

    // Others would not know what it means.
    let mut another = application.connect();
    for _ in 1..4 {
        another.begin(Role::Responder, true, &[("QUERY_STRING", "A: b~~")], b"");
        go_on.send(()).unwrap();
        another.said();
    }
    assert_eq!(another.waits, 0);
}

#[test]
fn a_lent_client_gets_the_whole_reply() {
    // A length that is known.
    let (said, (head, body)) = lend(LENT, "Status: 404 Gone~Content-Type: a/b~Content-Length: 3~~|3|1");
    let expected = "HTTP/1.1 404 Gone\nServer: tested\nContent-Type: a/b\nContent-Length: 3\n";
    assert_eq!((head.as_str(), body.as_slice()), (expected, &[0, 1, 2][..]));
    let [Said::Returned(back), Said::End(7)] = said[..] else { panic!("{said:?}") };
    assert_eq!(back, returned(404, 3, back.sent as usize));
    assert!(back.sent > 3 + expected.len() as u64);

    // One that is not.
    let (said, (head, body)) = lend(LENT, "Content-Type: a/b~~|100000|7");
    assert_eq!(head, "HTTP/1.1 200 OK\nServer: tested\nContent-Type: a/b\nTransfer-Encoding: chunked\n");
    assert!(dechunked(&body) == self::body(100_000));
    let [Said::Returned(back), Said::End(7)] = said[..] else { panic!("{said:?}") };
    assert_eq!(back, returned(200, 100_000, back.sent as usize));

    // HTTP/1.0 knows no chunks, nor that a connection goes on by itself.
    let http10 = Lent { is_http11: false, server: b"", ..LENT };
    let (said, (head, body)) = lend(http10, "A: b~~|10|2");
    assert_eq!(head, "HTTP/1.1 200 OK\nConnection: close\nA: b\n");
    assert_eq!(body, self::body(10));
    let [Said::Returned(back), Said::End(7)] = said[..] else { panic!("{said:?}") };
    assert_eq!(back, Returned { is_persistent: false, ..returned(200, 10, back.sent as usize) });
    let (said, (head, _)) = lend(http10, "A: b~Content-Length: 10~~|10|2");
    assert_eq!(head, "HTTP/1.1 200 OK\nConnection: keep-alive\nA: b\nContent-Length: 10\n");
    assert!(matches!(said[..], [Said::Returned(Returned { is_persistent: true, .. }), Said::End(7)]));

    // Replies without a body.
    let head_only = Lent { has_body: false, ..LENT };
    for (lent, query) in [
        (head_only, "A: b~Content-Length: 10~~|10|1"),
        (head_only, "A: b~~|100000|1"),
        (LENT, "Status: 204~A: b~~|10|1"),
        (LENT, "Status: 304~A: b~~|100000|3"),
    ] {
        let (said, (head, body)) = lend(lent, query);
        assert!(body.is_empty() && head.contains("A: b"), "{query}: {head}");
        assert!(
            matches!(said[..], [Said::Returned(Returned { is_whole: true, body: 0, .. }), Said::End(7)]),
            "{query}: {said:?}"
        );
    }
}

#[test]
fn a_reply_that_the_web_server_has_to_see_goes_to_it() {
    for query in [
        "X-Sendfile: /a~~|2|1",
        "x-accel-redirect: /a~~",
        "X-ZeroCopy: /a~~|100000|3",
        "no field~~|5|1",
        "Status: 99~~|5|1",
        "",
        "A: b",
        "A: LONG~~|1|1",
    ] {
        let application = Application::start(answer);
        let mut web_server = application.connect();
        let (near, mut far) = client();
        web_server.lend(LENT, near.as_fd(), &[("QUERY_STRING", query)], b"");
        drop(near);
        let said = web_server.said();
        let untouched = Returned { status: 0, is_whole: false, is_persistent: false, body: 0, sent: 0 };
        assert_eq!(said[0], Said::Returned(untouched), "{query}");
        let mut words = query.split('|');
        let head = words.next().unwrap().replace('~', "\r\n").replace("LONG", &"b".repeat(70_000));
        let mut expected = head.into_bytes();
        expected.extend(body(words.next().map_or(0, |word| word.parse().unwrap())));
        let expected: Vec<_> = Some(Said::Stdout(expected).or_nothing()).into_iter().flatten().collect();
        assert_eq!(said[1..said.len() - 1], expected, "{query}");
        assert_eq!(said.last(), Some(&Said::End(7)));
        // Nobody has the client any more.
        assert_eq!(far.read(&mut [0]).unwrap(), 0);
    }
}

#[test]
fn lengths_that_lie_are_told() {
    let (said, (_, body)) = lend(LENT, "Content-Length: 5~~|10|3");
    assert_eq!(body, self::body(5));
    assert!(matches!(said[..], [Said::Returned(Returned { is_whole: true, body: 5, .. }), Said::End(7)]));
    let (said, (_, body)) = lend(LENT, "Content-Length: 10~~|5|3");
    assert_eq!(body, self::body(5));
    let [Said::Returned(back), Said::End(7)] = said[..] else { panic!("{said:?}") };
    assert!(!back.is_whole && !back.is_persistent && back.body == 5);
}

#[test]
fn the_connection_goes_on_after_a_loan() {
    let application = Application::start(answer);
    let mut web_server = application.connect();
    for _ in 0..3 {
        let (near, mut far) = client();
        web_server.lend(LENT, near.as_fd(), &[("QUERY_STRING", "Content-Length: 2~~|2|1")], b"unread");
        assert!(matches!(web_server.said()[..], [Said::Returned(_), Said::End(7)]));
        assert_eq!(read_reply(near, &mut far).1, body(2));
        web_server.begin(Role::Responder, true, &[("QUERY_STRING", "A: b~~|2|1")], b"unread");
        assert!(matches!(web_server.said()[..], [Said::Stdout(_), Said::End(7)]));
    }
}

#[test]
fn a_slow_client_gets_all_in_order() {
    const SIZE: usize = 12_000_000;
    let application = Application::start(answer);
    let mut web_server = application.connect();
    let (near, mut far) = client();
    let query = format!("A: b~~|{SIZE}|3");
    web_server.lend(LENT, near.as_fd(), &[("QUERY_STRING", &query)], &body(30_000));
    drop(near);
    let reader = std::thread::spawn(move || {
        let mut received = Vec::new();
        let mut piece = vec![0; 100_000];
        while !received.ends_with(b"\r\n0\r\n\r\n") {
            std::thread::yield_now();
            let count = far.read(&mut piece).unwrap();
            assert!(count > 0, "it ended after {} bytes", received.len());
            received.extend_from_slice(&piece[..count]);
        }
        received
    });
    let said = web_server.said();
    let received = reader.join().unwrap();
    let [Said::Returned(back), Said::End(7)] = said[..] else { panic!("{said:?}") };
    assert_eq!(back, returned(200, SIZE as u64, received.len()));
    let head = received.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
    assert!(dechunked(&received[head..]) == body(SIZE));
}

/// An application that writes without an end, and says how that ended.
fn endless(request: &mut Request<'_>) -> std::io::Result<u32> {
    request.write_all(b"A: b\n\n")?;
    let piece = body(1_000_000);
    let error = loop {
        if let Err(error) = request.write_all(&piece) {
            break error;
        }
    };
    request.error_log().write_all(format!("{:?}", error.kind()).as_bytes())?;
    Ok(0)
}

#[test]
fn a_client_that_leaves_ends_the_reply() {
    let application = Application::start(endless);
    let mut web_server = application.connect();
    let (near, mut far) = client();
    web_server.lend(LENT, near.as_fd(), &[], b"");
    far.read_exact(&mut vec![0; 100_000]).unwrap();
    drop(far);
    let said = web_server.said();
    let [Said::Stderr(why), Said::Returned(back), Said::End(0)] = &said[..] else { panic!("{said:?}") };
    assert!(matches!(why.as_slice(), b"BrokenPipe" | b"ConnectionReset"), "{why:?}");
    assert!(!back.is_whole && !back.is_persistent && back.status == 200);
    assert!(back.sent >= 100_000 && back.body <= back.sent);
    drop(near);
}

#[test]
fn a_request_that_is_given_up_ends_a_send_that_waits() {
    for unread in [0, 40_000] {
        let application = Application::start(endless);
        let mut web_server = application.connect();
        let (near, mut far) = client();
        web_server.lend(LENT, near.as_fd(), &[], &body(unread));
        // It has begun to send, and nobody takes the rest.
        far.read_exact(&mut [0; 1_000]).unwrap();
        web_server.abort();
        let said = web_server.said();
        let [Said::Stderr(why), Said::Returned(back), Said::End(0)] = &said[..] else { panic!("{said:?}") };
        assert_eq!(why, b"ConnectionAborted");
        assert!(!back.is_whole && back.sent > 1_000);
        drop(near);
    }
}

/// Which is heard of where it stands: behind more of a body than is held, not before that is read, or the
/// connection ends, as our server's does with it.
#[test]
fn a_request_that_is_given_up_behind_an_unread_body_ends_with_its_connection() {
    let application = Application::start(endless);
    let mut web_server = application.connect();
    let (near, mut far) = client();
    web_server.lend_at_once(LENT, near.as_fd(), &body(150_000));
    far.read_exact(&mut [0; 1_000]).unwrap();
    web_server.abort();
    // More than the sockets have room for: it goes on.
    far.read_exact(&mut vec![0; 20 << 20]).unwrap();
    drop(web_server);
    let error = far.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    drop(near);
}

/// What it would be answered waits for it, and no more is received while it does not read.
#[test]
fn a_web_server_that_does_not_read_is_owed_no_more() {
    const SIZE: usize = 16 << 20;
    let application = Application::start(answer);
    let mut web_server = application.connect();
    let (near, mut far) = client();
    let query = format!("A: b~Content-Length: {SIZE}~~|{SIZE}|1");
    web_server.lend(LENT, near.as_fd(), &[("QUERY_STRING", &query)], b"");
    // It has begun to send, and nobody takes the rest.
    far.read_exact(&mut [0; 1_000]).unwrap();
    let taken = web_server.ask_without_end(8 << 20);
    assert!(taken < 4 << 20, "{taken} bytes of questions were taken");
    let taking = std::thread::spawn(move || far.read_to_end(&mut Vec::new()).unwrap());
    let said = web_server.said();
    let [Said::Returned(Returned { is_whole: true, .. }), Said::End(7)] = said[..] else {
        panic!("{said:?}")
    };
    near.shutdown(Shutdown::Write).unwrap();
    assert!(taking.join().unwrap() > SIZE - 1_000);
}

#[test]
fn a_web_server_that_is_gone_ends_the_client() {
    for unread in [0, 40_000, 200_000] {
        let application = Application::start(endless);
        let mut web_server = application.connect();
        let (near, mut far) = client();
        web_server.lend_at_once(LENT, near.as_fd(), &body(unread));
        far.read_exact(&mut [0; 1_000]).unwrap();
        drop(web_server);
        // Somebody still has the client, as processes that share descriptors with one that was killed do.
        let error = far.read_to_end(&mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        drop(near);
    }
}

#[test]
fn a_loan_without_its_client_is_a_breach() {
    let application = Application::start(answer);
    let mut web_server = application.connect();
    web_server.send_loan_of_nothing(LENT);
    assert!(web_server.has_ended());
    // The next one is heard.
    let mut web_server = application.connect();
    web_server.begin(Role::Responder, true, &[("QUERY_STRING", "A: b~~")], b"");
    assert_eq!(web_server.said().len(), 2);
}

#[test]
fn replies_lie_in_shared_memory() {
    const CHUNK: u32 = 4_096;
    let file = MemoryFile::new("test", 3 * u64::from(CHUNK)).unwrap();
    let memory = Mapping::new(&file, file.size(), Access::Read).unwrap();
    let application = Application::start(|request| {
        let code = answer(request)?;
        request.flush()?;
        request.write_all(b"!")?;
        Ok(code)
    });
    let mut web_server = application.connect();
    web_server.share(Area { chunks: 3, chunk_size: CHUNK }, file.as_fd());
    for (size, pieces) in [(0, 1), (1, 1), (4_080, 3), (4_096, 1), (8_193, 2), (50_000, 1), (1_000_000, 77)] {
        let query = format!("A: b~~|{size}|{pieces}");
        web_server.begin(Role::Responder, true, &[("QUERY_STRING", &query)], b"");
        // Chunks are freed as they are looked at, the last of a request only behind the next one's first.
        let (reply, filled, rest) = web_server.read_shared(&memory, CHUNK);
        assert_eq!(rest, [Said::End(7)]);
        let expected = [b"A: b\r\n\r\n", &body(size)[..], b"!"].concat();
        assert!(reply == expected, "{size}: {} bytes", reply.len());
        assert!(filled >= expected.len().div_ceil(CHUNK as usize), "all of it in memory");
    }
}

#[test]
fn a_reply_that_finds_no_memory_behind_an_unread_body_goes_without() {
    let file = MemoryFile::new("test", 4_096).unwrap();
    let application = Application::start(answer);
    let mut web_server = application.connect();
    web_server.share(Area { chunks: 1, chunk_size: 4_096 }, file.as_fd());
    // The body fills what is held of it and the sockets, and the only chunk is never freed.
    web_server.begin(Role::Responder, true, &[("QUERY_STRING", "A: b~~|9000|1")], &body(150_000));
    let said = web_server.said();
    let [Said::Filled(filled), Said::Stdout(rest), Said::End(7)] = &said[..] else { panic!("{said:?}") };
    assert_eq!((filled.length, rest.len()), (4_096, 9_000 + 8 - 4_096));
}

#[test]
fn a_request_that_is_given_up_ends_a_wait_for_memory() {
    let file = MemoryFile::new("test", 4_096).unwrap();
    let application = Application::start(endless);
    let mut web_server = application.connect();
    web_server.share(Area { chunks: 1, chunk_size: 4_096 }, file.as_fd());
    web_server.begin(Role::Responder, true, &[], b"");
    web_server.abort();
    let said = web_server.said();
    let [Said::Filled(_), Said::Stderr(why), Said::End(0)] = &said[..] else { panic!("{said:?}") };
    assert_eq!(why, b"ConnectionAborted");
}

#[test]
fn breaches_about_memory_end_the_connection() {
    let application = Application::start(answer);
    let sealed = MemoryFile::new("test", 8_192).unwrap();
    let unsealed = sys::file::in_memory("test").unwrap();
    unsealed.set_len(8_192).unwrap();
    for (area, file) in [
        (Area { chunks: 2, chunk_size: 4_096 }, unsealed.as_fd()),
        (Area { chunks: 3, chunk_size: 4_096 }, sealed.as_fd()),
        (Area { chunks: 0, chunk_size: 4_096 }, sealed.as_fd()),
    ] {
        let mut web_server = application.connect();
        web_server.share(area, file);
        assert!(web_server.has_ended(), "{area:?}");
    }
    for free in [0, 2] {
        let mut web_server = application.connect();
        web_server.share(Area { chunks: 2, chunk_size: 4_096 }, sealed.as_fd());
        web_server.free(free);
        assert!(web_server.has_ended(), "chunk {free} was not used");
    }
    let mut web_server = application.connect();
    web_server.free(0);
    assert!(web_server.has_ended(), "there is no area");
}

#[test]
fn what_is_no_fastcgi_ends_the_connection() {
    let application = Application::start(answer);
    let mut bad = Vec::new();
    transport::question(&mut bad);
    let mut pair_too_long = record::header(fastcgi::Kind::Params, 1, 9).to_vec();
    // Lengths whose sum is beyond 32 bits (CVE-2025-23016).
    pair_too_long.extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, b'x']);
    pair_too_long.extend_from_slice(&record::header(fastcgi::Kind::Params, 1, 0));
    let mut begun = Vec::new();
    record::begin_request(&mut begun, 1, Role::Responder, true);
    begun.extend_from_slice(&pair_too_long);
    for bytes in [b"GET / HTTP/1.1\r\n\r\n".as_slice(), &begun] {
        let mut web_server = UnixStream::connect(application.path()).unwrap();
        web_server.write_all(bytes).unwrap();
        assert_eq!(web_server.read(&mut [0]).unwrap_or(0), 0);
    }
    let mut cut = UnixStream::connect(application.path()).unwrap();
    cut.write_all(&begun[..20]).unwrap();
    cut.shutdown(Shutdown::Write).unwrap();
    assert_eq!(cut.read(&mut [0]).unwrap_or(0), 0);
    let mut web_server: WebServer = application.connect();
    web_server.begin(Role::Responder, true, &[("QUERY_STRING", "A: b~~")], b"");
    assert_eq!(web_server.said().len(), 2);
}

#[test]
fn a_body_is_read_where_it_was_received() {
    let application = Application::start(|request| {
        let mut sum = 0;
        loop {
            let there = request.fill_buf()?;
            if there.is_empty() {
                break;
            }
            sum += there.iter().map(|byte| u32::from(*byte)).sum::<u32>();
            let count = there.len();
            request.consume(count);
        }
        write!(request, "A: b\n\n{sum}")?;
        Ok(0)
    });
    let mut web_server = application.connect();
    web_server.begin(Role::Responder, true, &[], &vec![2; 250_000]);
    assert_eq!(web_server.said(), [Said::Stdout(b"A: b\n\n500000".to_vec()), Said::End(0)]);
}
