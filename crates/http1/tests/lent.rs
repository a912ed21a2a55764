//! A client that is lent to somebody who makes the reply while it is sent: however the network cuts what it
//! sends, the same comes of it, bodies are asked for once somebody wants them, and the connection goes on
//! where it can.

use http1::{Connection, End, ErrorKind, Limits, OpenReply, Plan, Run, Sheet, Stamp, Status, Step, Terms};
use http1::{Tick, Version};
use proptest::prelude::*;

const NOW: Tick = Tick(0);
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// What came of a connection.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    /// Targets, each with the body that came, or the breach that ended it.
    requests: Vec<(String, Result<String, ErrorKind>)>,
    sent: String,
}

/// When whoever makes replies makes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Making {
    /// When the body is complete.
    AtLast,
    /// Before any of the body has been looked at.
    AtOnce,
}

/// Lets each request be answered by `made of BODY`, in two pieces of unknown length.
fn replay(stream: &[u8], cut: impl Fn(usize) -> usize, making: Making) -> Outcome {
    let limits = Limits { body: 50, ..Limits::default() };
    let mut connection = Connection::<()>::new(NOW, &limits);
    let mut outcome = Outcome::default();
    let mut sent = Vec::new();
    let mut terms = None;
    let (mut at, mut there, mut has_ended) = (0, 0, false);
    loop {
        // Whoever makes the reply when the body is there does so; at once is at once.
        let is_ready = making == Making::AtOnce || !connection.is_reading_body();
        if let Some(of) = terms.filter(|_| connection.owes_answer() && is_ready) {
            let terms: http1::Terms = of;
            let body = outcome.requests.last().and_then(|(_, body)| body.clone().ok()).unwrap_or_default();
            let plan =
                Plan::<()>::new(Sheet::default(), Status::OK, terms.of_unknown_length(), &Stamp::new("", 0));
            let mut reply = plan.open(None, &limits, NOW);
            for piece in ["made of ", &body] {
                assert_eq!(reply.supply(&limits, NOW, piece.as_bytes()), piece.len());
            }
            assert!(reply.finish(&limits, NOW));
            sent.extend_from_slice(reply.unsent());
            reply.sent(reply.left());
            assert!(reply.is_complete());
            connection.returned(&limits, NOW, reply.is_persistent());
        }
        match connection.wants_end() {
            End::Open => {}
            End::ShutDown => {
                connection.write_side_shut(&limits, NOW);
                has_ended = true;
            }
            End::Close => break,
            End::Reset => unreachable!("nothing is broken"),
        }
        match connection.receive(&limits, NOW, &stream[at..there], there == stream.len()) {
            Ok((used, step)) => {
                let input = &stream[at..there];
                at += used;
                match step {
                    Step::Request(head) => {
                        let target = String::from_utf8_lossy(head.target).into_owned();
                        outcome.requests.push((target, Ok(String::new())));
                        let mut of = head.terms;
                        if making == Making::AtLast
                            && let Some(is_persistent) = connection.invite_body()
                        {
                            of.persistent = is_persistent;
                            sent.extend_from_slice(CONTINUE);
                        }
                        terms = Some(of);
                    }
                    Step::Body(range) => {
                        if let Some((_, Ok(body))) = outcome.requests.last_mut()
                            && connection.owes_answer()
                        {
                            body.push_str(&String::from_utf8_lossy(&input[range]));
                        }
                    }
                    Step::NeedInput if there < stream.len() => there = cut(there).min(stream.len()),
                    Step::NeedInput | Step::EndOfRequest | Step::Paused | Step::Closed => {}
                    Step::Refused(..) => unreachable!("none is"),
                }
                if has_ended && there < stream.len() {
                    there = stream.len();
                }
            }
            Err(error) => {
                if let Some(request) = outcome.requests.last_mut() {
                    request.1 = Err(error.kind);
                }
                break;
            }
        }
    }
    let stamp = String::from_utf8(Stamp::new("", 0).lines().to_vec()).unwrap();
    outcome.sent = String::from_utf8(sent).unwrap().replace(&stamp, "");
    outcome
}

fn however_cut(stream: &str, making: Making) -> Outcome {
    let whole = replay(stream.as_bytes(), |_| stream.len(), making);
    for step in 1..stream.len() {
        assert_eq!(replay(stream.as_bytes(), |at| at + step, making), whole, "by {step}: {stream}");
        let twice = |at: usize| if at < step { step } else { stream.len() };
        assert_eq!(replay(stream.as_bytes(), twice, making), whole, "cut at {step}: {stream}");
    }
    whole
}

fn chunked(body: &str) -> String {
    let pieces = ["made of ", body].into_iter().filter(|piece| !piece.is_empty());
    let chunks = pieces.map(|piece| format!("{:x}\r\n{piece}\r\n", piece.len()));
    format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n", chunks.collect::<String>())
}

#[test]
fn bodies_come_and_the_connection_goes_on() {
    let stream = "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello\
                  GET /b HTTP/1.1\r\nHost: x\r\n\r\n\
                  PUT /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\
                  2\r\nwo\r\n3\r\nrld\r\n0\r\n\r\n\
                  GET /d HTTP/1.1\r\nHost: x\r\n\r\n";
    let told = however_cut(stream, Making::AtLast);
    let body = |text: &str| Ok(text.to_owned());
    let expected = [("/a", "hello"), ("/b", ""), ("/c", "world"), ("/d", "")];
    assert_eq!(told.requests, expected.map(|(target, text)| (target.to_owned(), body(text))));
    assert_eq!(told.sent, expected.map(|(_, text)| chunked(text)).concat());
}

#[test]
fn a_body_is_asked_for_when_somebody_wants_it() {
    let stream = "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello\
                  GET /b HTTP/1.1\r\nHost: x\r\n\r\n";
    let told = however_cut(stream, Making::AtLast);
    let interim = String::from_utf8(CONTINUE.to_vec()).unwrap();
    assert_eq!(told.sent, [interim, chunked("hello"), chunked("")].concat());
    // Whether the client sends it can't be known without that.
    let told = however_cut(stream, Making::AtOnce);
    assert_eq!(told.requests.len(), 1);
    assert!(told.sent.contains("\r\nConnection: close\r\n") && !told.sent.contains("100 Continue"));
}

#[test]
fn what_is_left_of_a_body_behind_its_reply_is_read_over() {
    let stream = "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello\
                  GET /b HTTP/1.1\r\nHost: x\r\n\r\n";
    let told = however_cut(stream, Making::AtOnce);
    assert_eq!(told.sent, [chunked(""), chunked("")].concat());
}

#[test]
fn a_reply_without_a_length_ends_a_connection_of_1_0() {
    let stream = "POST /a HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nhi\
                  GET /b HTTP/1.0\r\n\r\n";
    let told = however_cut(stream, Making::AtLast);
    assert_eq!(told.sent, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nmade of hi");
    assert_eq!(told.requests.len(), 1);
}

#[test]
fn a_body_that_breaks_the_rules_is_told_before_it_is_answered() {
    for (body, kind) in [("2\r\nwo3\r\n", ErrorKind::Chunk), ("2\r\nw", ErrorKind::CutShort)] {
        let stream = format!("PUT /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
        let told = however_cut(&stream, Making::AtLast);
        assert_eq!(told.requests, [("/c".to_owned(), Err(kind))]);
        assert_eq!(told.sent, "");
    }
}

fn open(terms: Terms, length: Option<u64>) -> OpenReply<()> {
    let terms = if length.is_some() { terms } else { terms.of_unknown_length() };
    let plan = Plan::new(Sheet::default(), Status::OK, terms, &Stamp::new("", 0));
    plan.open(length, &Limits::default(), NOW)
}

/// The next bytes of a reply, up to so many; `memory` is where what lies elsewhere lies.
fn next(reply: &OpenReply<()>, memory: &[u8], most: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for run in reply.runs() {
        match run {
            Run::Own(own) => bytes.extend_from_slice(own),
            Run::Elsewhere(range) => {
                bytes.extend_from_slice(&memory[range.start as usize..range.end as usize]);
            }
        }
    }
    assert_eq!(bytes.len() as u64, reply.left());
    assert_eq!(reply.left(), reply.own_left() as u64 + reply.left_elsewhere());
    assert!(bytes.starts_with(reply.unsent()));
    bytes.truncate(most);
    bytes
}

/// How much of the body comes next, whether it lies elsewhere, and how much the client takes of it at a time.
fn piece() -> impl Strategy<Value = (usize, bool, Vec<usize>)> {
    (0_usize..400, any::<bool>(), prop::collection::vec(1_usize..300, 0..4))
}

proptest! {
    /// The client gets the same bytes wherever the body lies, however much it takes at a time.
    #[test]
    fn a_body_may_lie_elsewhere(
        pieces in prop::collection::vec(piece(), 0..200),
        is_known in any::<bool>(),
        is_http11 in any::<bool>(),
        has_body in any::<bool>(),
        promised in 0_usize..60_000,
    ) {
        let limits = Limits::default();
        let version = if is_http11 { Version::Http11 } else { Version::Http10 };
        let terms = Terms { version, persistent: true, body: has_body };
        let memory: Vec<u8> = (0..80_000_u32).map(|at| (at % 251) as u8).collect();
        let length = is_known.then_some(promised as u64);
        let (mut here, mut there) = (open(terms, length), open(terms, length));
        let (mut sent, mut at) = (Vec::new(), 0);
        for (size, is_elsewhere, steps) in pieces {
            let range = at..at + size;
            at += size;
            let taken = here.supply(&limits, NOW, &memory[range.clone()]);
            let same = if is_elsewhere {
                there.supply_elsewhere(&limits, NOW, range.start as u64..range.end as u64) as usize
            } else {
                there.supply(&limits, NOW, &memory[range])
            };
            prop_assert_eq!(taken, same);
            for step in steps {
                let bytes = next(&there, &memory, step);
                there.sent(bytes.len() as u64);
                sent.extend(bytes);
                prop_assert_eq!(there.deadline().is_none(), there.left() == 0);
            }
        }
        prop_assert_eq!(here.finish(&limits, NOW), there.finish(&limits, NOW));
        while !there.is_complete() {
            let bytes = next(&there, &memory, 77);
            there.sent(bytes.len() as u64);
            sent.extend(bytes);
        }
        prop_assert_eq!(there.left_elsewhere(), 0);
        prop_assert_eq!(next(&here, &memory, usize::MAX), sent);
        here.sent(here.left());
        prop_assert_eq!(here.body_sent(), there.body_sent());
    }
}
