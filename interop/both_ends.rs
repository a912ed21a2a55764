//! Each end of `fastcgi` with the other end as others have written it: what is asked is what is answered, for
//! bodies of several records, on a connection that is kept.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;

use fastcgi::record::{self, Kind, ProtocolStatus};
use fastcgi::{Application, Asked, Output, Params, Role, WebServer};

/// Lengths of the bodies that are asked for again, one after the other.
const BODIES: [usize; 5] = [0, 1, 65_535, 65_536, 1_000_000];

/// The value of a parameter whose length takes four bytes.
fn long() -> String {
    "long ".repeat(1000)
}

/// Bytes in which every stretch of eight tells its own place.
fn body(length: usize) -> Vec<u8> {
    (0_u64..).flat_map(u64::to_le_bytes).take(length).collect()
}

/// Has another's end work at a socket.
fn run<F: Future>(socket: UnixStream, work: impl FnOnce(tokio::net::UnixStream) -> F) -> F::Output {
    socket.set_nonblocking(true).expect("an option of sockets");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { work(tokio::net::UnixStream::from_std(socket).expect("a socket")).await })
}

/// Answers requests with their bodies, and complains about each.
fn answer(mut socket: UnixStream) {
    let (mut application, mut input, mut said) = (Application::new(1 << 16), Vec::new(), Vec::new());
    let mut length = String::new();
    loop {
        let (used, asked) = application.receive(&input).expect("a request");
        match asked {
            Asked::NeedInput => {
                let mut piece = [0; 1000];
                let count = socket.read(&mut piece).expect("the other end is there");
                if count == 0 {
                    return;
                }
                input.drain(..used);
                input.extend_from_slice(&piece[..count]);
                continue;
            }
            Asked::Begin(begun) => assert_eq!((begun.role, begun.keeps), (Role::Responder, true)),
            Asked::Params => {
                let value = |wanted: &str| {
                    let mut pairs = application.params().map(|pair| pair.expect("a parameter"));
                    let (_, value) = pairs.find(|(name, _)| *name == wanted.as_bytes()).expect(wanted);
                    String::from_utf8(value.to_vec()).expect("text")
                };
                assert_eq!((value("REQUEST_METHOD"), value("LONG")), ("POST".to_owned(), long()));
                length = value("CONTENT_LENGTH");
            }
            Asked::Stdin(range) => said.extend_from_slice(&input[range]),
            Asked::EndOfStdin => {
                assert_eq!(said.len().to_string(), length);
                let request = application.request().expect("a request").request;
                let mut out = Vec::new();
                record::stream(&mut out, Kind::Stderr, request, b"a complaint");
                record::stream(&mut out, Kind::Stdout, request, &said);
                record::end_of_stream(&mut out, Kind::Stdout, request);
                record::end_request(&mut out, request, 0, ProtocolStatus::RequestComplete);
                socket.write_all(&out).expect("the other end is there");
                said.clear();
                application.end();
            }
            other => panic!("{other:?}"),
        }
        input.drain(..used);
    }
}

#[test]
fn another_web_server_asks() {
    use fastcgi_client::{Client, Params, Request};
    let (ours, theirs) = UnixStream::pair().expect("sockets");
    let application = thread::spawn(move || answer(ours));
    run(theirs, async |socket| {
        let mut client = Client::new_keep_alive_tokio(socket);
        for length in BODIES {
            let body = body(length);
            let params =
                Params::default().request_method("POST").content_length(length).custom("LONG", long());
            let output = client.execute(Request::new_tokio(params, &*body)).await.expect("an answer");
            assert!(output.stdout.unwrap_or_default() == body, "{length}");
            assert_eq!(output.stderr.as_deref(), Some(&b"a complaint"[..]));
        }
    });
    application.join().expect("it has understood all");
}

/// Asks for a body again, and hears what is said: the reply, and what is for the log.
fn ask(socket: &mut UnixStream, web_server: &mut WebServer, body: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut out = Vec::new();
    let request = web_server.begin(&mut out, Role::Responder, true);
    let mut params = Params::new(&mut out, request);
    let length = body.len().to_string();
    for (name, value) in [("REQUEST_METHOD", "POST"), ("LONG", &long()), ("CONTENT_LENGTH", &length)] {
        params.pair(name.as_bytes(), value.as_bytes()).expect("it is short enough");
    }
    params.finish();
    record::stream(&mut out, Kind::Stdin, request, body);
    record::end_of_stream(&mut out, Kind::Stdin, request);
    socket.write_all(&out).expect("the other end is there");
    let (mut reply, mut log, mut input) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        let (used, output) = web_server.receive(&input).expect("an answer");
        match output {
            Output::NeedInput => {
                let mut piece = [0; 1000];
                let count = socket.read(&mut piece).expect("the other end is there");
                assert_ne!(count, 0, "the other end has gone");
                input.drain(..used);
                input.extend_from_slice(&piece[..count]);
                continue;
            }
            Output::Stdout(range) => reply.extend_from_slice(&input[range]),
            Output::Stderr(range) => log.extend_from_slice(&input[range]),
            Output::End { exit } => {
                assert_eq!((exit, used), (0, input.len()));
                return (reply, log);
            }
            other => panic!("{other:?}"),
        }
        input.drain(..used);
    }
}

#[test]
fn another_application_answers() {
    use tokio_fastcgi::{RequestResult, Requests};
    let (mut ours, theirs) = UnixStream::pair().expect("sockets");
    let application = thread::spawn(move || {
        run(theirs, async |mut socket| {
            let mut requests = Requests::from_split_socket(socket.split(), 1, 1);
            while let Some(request) = requests.next().await.expect("a request") {
                let answer = async |request: std::sync::Arc<tokio_fastcgi::Request<_>>| {
                    assert_eq!(request.get_str_param("LONG"), Some(&*long()));
                    let mut body = Vec::new();
                    request.get_stdin().read_to_end(&mut body).expect("a body");
                    assert_eq!(request.get_str_param("CONTENT_LENGTH"), Some(&*body.len().to_string()));
                    request.get_stderr().write(b"a complaint").await.expect("the other end is there");
                    for piece in body.chunks(50_000) {
                        request.get_stdout().write(piece).await.expect("the other end is there");
                    }
                    RequestResult::Complete(0)
                };
                request.process(answer).await.expect("the other end is there");
            }
        });
    });
    let mut web_server = WebServer::default();
    for length in BODIES {
        let body = body(length);
        let (reply, log) = ask(&mut ours, &mut web_server, &body);
        assert!(reply == body && log == b"a complaint", "{length}");
        assert!(web_server.is_idle());
    }
    drop(ours);
    application.join().expect("it has understood all");
}
