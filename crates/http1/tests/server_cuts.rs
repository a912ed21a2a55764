//! However the network cuts what a client sends, and whenever the replies get sent, the server's connection
//! makes the same of it; and the client role reads its replies as they were meant.

use http1::client;
use http1::{
    Connection, End, ErrorKind, Limits, Method, Plan, Segment, Sheet, Stamp, Status, Step, Terms, Tick,
};
use proptest::prelude::*;

/// What a stream of requests comes to. Pieces of one body are joined.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    /// All of a head, as its own `Debug` shows it, and the method.
    Request(String, String),
    Body(Vec<u8>),
    EndOfRequest,
    /// The head of a request that the error behind it is about.
    Refused(String),
    /// And whether content may be in the answer.
    Error(ErrorKind, bool),
}

/// When replies are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sending {
    /// As soon as they are decided, before the rest of the request is looked at.
    AtOnce,
    /// When nothing else can be done.
    AtLast,
}

/// What became of one connection: what it told, and what it sent.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Outcome {
    told: Vec<Told>,
    sent: Vec<u8>,
}

const NOW: Tick = Tick(0);

/// Tight enough that generated requests go beyond them now and then.
fn limits() -> Limits {
    Limits { request_line: 60, head: 200, fields: 5, body: 70, requests: 6, ..Limits::default() }
}

fn replay(stream: &[u8], cuts: impl IntoIterator<Item = usize>, sending: Sending) -> Outcome {
    let limits = limits();
    let mut connection = Connection::<()>::new(NOW, &limits);
    let mut outcome = Outcome { told: Vec::new(), sent: Vec::new() };
    let (mut at, mut end, mut eof, mut cuts) = (0, 0, false, cuts.into_iter());
    loop {
        // The end is heard of after the last byte by some, together with it by others.
        eof |= sending == Sending::AtOnce && end == stream.len();
        let lent = &stream[at..end];
        let mut may_send = sending == Sending::AtOnce;
        match connection.receive(&limits, NOW, lent, eof) {
            Ok((consumed, step)) => {
                at += consumed;
                match step {
                    Step::NeedInput => {
                        assert!(!eof, "nothing is needed after the end");
                        eof = end == stream.len();
                        end = (end + cuts.next().unwrap_or(stream.len()).max(1)).min(stream.len());
                    }
                    Step::Paused => {
                        assert_eq!(consumed, 0);
                        assert!(!connection.wants().read, "paused is not hungry");
                        may_send = true;
                    }
                    Step::Request(head) => {
                        outcome.told.push(Told::Request(head.method.name().to_owned(), format!("{head:?}")));
                        let plan = answer(Status::OK, head.terms);
                        connection.respond(&limits, NOW, plan);
                    }
                    Step::Refused(head, error) => {
                        outcome.told.push(Told::Refused(format!("{head:?}")));
                        outcome.told.push(Told::Error(error.kind, connection.error_terms().body));
                        connection.respond(&limits, NOW, answer(error.status(), connection.error_terms()));
                    }
                    Step::Body(range) => match outcome.told.last_mut() {
                        Some(Told::Body(body)) => body.extend_from_slice(&lent[range]),
                        _ => outcome.told.push(Told::Body(lent[range].to_vec())),
                    },
                    Step::EndOfRequest => outcome.told.push(Told::EndOfRequest),
                    Step::Closed => {
                        assert_eq!(consumed, lent.len());
                        may_send = true;
                    }
                }
            }
            Err(error) => {
                outcome.told.push(Told::Error(error.kind, connection.error_terms().body));
                if connection.owes_answer() {
                    connection.respond(&limits, NOW, answer(error.status(), connection.error_terms()));
                }
                may_send = true;
            }
        }
        if may_send {
            send(&mut connection, &limits, &mut outcome.sent);
        }
        match connection.wants().end {
            End::Open => {}
            End::ShutDown => connection.write_side_shut(&limits, NOW),
            End::Close => return outcome,
            End::Reset => panic!("nothing asks for a reset"),
        }
        // A connection that lingers reads on, to the end.
        if connection.is_lingering() {
            (end, eof) = (stream.len(), true);
        }
    }
}

fn answer(status: Status, terms: Terms) -> Plan<()> {
    let mut plan = Plan::new(Sheet::default(), status, terms, &Stamp::new("", 0));
    plan.text("text/plain", b"content");
    plan
}

/// Sends whatever there is in pieces of a few bytes.
fn send(connection: &mut Connection<()>, limits: &Limits, sent: &mut Vec<u8>) {
    while connection.wants().write {
        let Some(Segment::Own(bytes)) = connection.output().next() else { panic!("own bytes only") };
        let piece = bytes[..bytes.len().min(7)].to_vec();
        connection.sent(limits, NOW, piece.len() as u64);
        sent.extend_from_slice(&piece);
    }
    while let Some(ended) = connection.release() {
        assert!(ended.complete);
    }
}

/// One request as a client may send it.
fn request() -> impl Strategy<Value = Vec<u8>> {
    let start = prop::sample::select(vec![
        "GET / HTTP/1.1\r\n",
        "GET /a/b%20c?d=e HTTP/1.1\r\n",
        "HEAD /x HTTP/1.1\r\n",
        "\r\n\r\nGET /after-blank HTTP/1.1\r\n",
        "GET http://other:80/p?q HTTP/1.1\r\n",
        "GET /old HTTP/1.0\r\n",
        "GET /\u{e4}|later HTTP/1.2\r\n",
        "OPTIONS * HTTP/1.1\r\n",
        "POST /form HTTP/1.1\r\n",
        "GET /a-target-that-is-too-long-for-the-limit-on-request-lines HTTP/1.1\r\n",
        "PROPFIND / HTTP/1.1\r\n",
    ]);
    let field = prop::sample::select(vec![
        "Connection: close\r\n",
        "Connection: keep-alive\r\n",
        "Expect: 100-continue\r\n",
        "Expect: , more\r\n",
        "Content-Length: 71\r\n",
        "Range: bytes=0-5\r\n",
        "If-None-Match: \"x\"\r\n",
        "Accept-Encoding:gzip \r\n",
        "X-Long: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n",
        "X: y\r\n",
    ]);
    let body = prop::collection::vec(any::<u8>(), 0..80);
    (start, prop::collection::vec(field, 0..4), 0..6_u8, body).prop_map(|(start, fields, kind, body)| {
        let mut request = format!("{start}Host: h\r\n{}", fields.concat()).into_bytes();
        match kind {
            0 => {
                request.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
                for chunk in body.chunks(9) {
                    request.extend_from_slice(format!("{:x} ;e= \"1\"\r\n", chunk.len()).as_bytes());
                    request.extend_from_slice(chunk);
                    request.extend_from_slice(b"\r\n");
                }
                request.extend_from_slice(b"0\r\nSum: 1\r\n\r\n");
            }
            1 => {
                request.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
                request.extend_from_slice(&body);
            }
            _ => request.extend_from_slice(b"\r\n"),
        }
        request
    })
}

fn streams() -> impl Strategy<Value = Vec<u8>> {
    let damage = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..2);
    let damage = prop_oneof![2 => Just(Vec::new()), 1 => damage];
    let cut_off = prop::option::weighted(0.2, any::<prop::sample::Index>());
    (prop::collection::vec(request(), 1..8), damage, cut_off).prop_map(|(requests, damage, cut_off)| {
        let mut stream = requests.concat();
        for (index, byte) in damage {
            let at = index.index(stream.len());
            stream[at] = byte;
        }
        if let Some(index) = cut_off {
            stream.truncate(index.index(stream.len()));
        }
        stream
    })
}

/// The statuses of the replies, as the client role reads them.
fn statuses(outcome: &Outcome) -> Vec<u16> {
    let mut client = client::Connection::new();
    for told in &outcome.told {
        match told {
            Told::Request(method, _) => {
                client.sent_request(Method::from_name(method.as_bytes()).unwrap()).unwrap();
            }
            Told::Error(_, true) => client.sent_request(Method::Get).unwrap(),
            Told::Error(_, false) => client.sent_request(Method::Head).unwrap(),
            _ => {}
        }
    }
    let (mut statuses, mut at) = (Vec::new(), 0);
    loop {
        let (consumed, event) = match client.receive(&outcome.sent[at..], true) {
            // An error in the body of a request that was answered gets no answer of its own.
            Err(client::ReplyError::NoReply) if client.awaited() == 1 => return statuses,
            received => received.expect("the server's replies are well-formed"),
        };
        at += consumed;
        match event {
            client::Event::Head(head) => statuses.push(head.status.0),
            client::Event::Closed => return statuses,
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn cutting_requests_changes_nothing(
        stream in streams(),
        cuts in prop::collection::vec(1_usize..40, 0..60),
    ) {
        let whole = replay(&stream, [], Sending::AtLast);
        prop_assert_eq!(&replay(&stream, cuts, Sending::AtLast), &whole);
        prop_assert_eq!(&replay(&stream, std::iter::repeat(1), Sending::AtLast), &whole);
    }

    /// What is sent early can cut the body of the last request short, but not change a request or a reply.
    #[test]
    fn the_time_of_sending_changes_no_request_and_no_reply(
        stream in streams(),
        cuts in prop::collection::vec(1_usize..40, 0..60),
    ) {
        let requests = |outcome: &Outcome| -> Vec<Told> {
            outcome.told.iter().filter(|told| matches!(told, Told::Request(..))).cloned().collect()
        };
        let late = replay(&stream, [], Sending::AtLast);
        let early = replay(&stream, cuts, Sending::AtOnce);
        prop_assert_eq!(requests(&early), requests(&late));
        prop_assert_eq!(&early.sent, &late.sent);
    }

    #[test]
    fn every_request_gets_one_reply_that_the_client_role_can_read(stream in streams()) {
        let outcome = replay(&stream, [], Sending::AtLast);
        let requests = outcome.told.iter().filter(|told| matches!(told, Told::Request(..))).count();
        let statuses = statuses(&outcome);
        prop_assert!(statuses.len() == requests || statuses.len() == requests + 1);
        prop_assert!(statuses[..requests].iter().all(|&status| status == 200));
        prop_assert!(statuses[requests..].iter().all(|&status| status >= 400));
    }

    #[test]
    fn random_bytes_do_no_harm(stream in prop::collection::vec(any::<u8>(), 0..300)) {
        replay(&stream, [], Sending::AtLast);
    }
}
