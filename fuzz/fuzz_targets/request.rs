//! Requests through the whole connection: however the input is cut, the same requests, bodies and refusals
//! come out, and what is let through keeps the promises that the server builds on.

#![no_main]

use http1::{
    Connection, End, ErrorKind, Field, Head, Limits, Method, Plan, Sheet, Stamp, Status, Step, Terms, Tick,
    Timeout,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let tight = Limits { request_line: 40, head: 160, fields: 4, body: 24, requests: 3, ..Limits::default() };
    for limits in [Limits::default(), tight] {
        for answer in [Answer::AtOnce, Answer::AfterTheBody] {
            let whole = exchange(input, &limits, answer, input.len().max(1));
            for piece in [1, 2, 3, 7, 64] {
                let cut = exchange(input, &limits, answer, piece);
                assert_eq!(cut, whole, "in pieces of {piece}, answered {answer:?}");
            }
        }
    }
});

/// When the reply to a request with a body is sent.
#[derive(Clone, Copy, Debug)]
enum Answer {
    AtOnce,
    AfterTheBody,
}

#[derive(Debug, PartialEq, Eq)]
enum Event {
    Request {
        method: String,
        target: Vec<u8>,
        terms: Terms,
    },
    /// A complete body.
    Body(Vec<u8>),
    /// What was refused, with what had been seen of a body.
    Refused(ErrorKind, Vec<u8>),
    Ended(End),
}

/// Plays a driver over the input, lent in pieces, to its end.
fn exchange(input: &[u8], limits: &Limits, answer: Answer, piece: usize) -> Vec<Event> {
    let now = Tick::from_ms(1000);
    let mut connection = Connection::<()>::new(now, limits);
    let (mut events, mut body) = (Vec::new(), Vec::new());
    let (mut from, mut to) = (0, 0);
    // The end is heard of after the last byte, however that arrived.
    let mut eof = false;
    loop {
        let lent = &input[from..to];
        match connection.receive(limits, now, lent, eof) {
            Ok((consumed, Step::Request(head))) => {
                from += consumed;
                check(&head, limits);
                events.push(Event::Request {
                    method: head.method.name().to_owned(),
                    target: head.target.to_vec(),
                    terms: head.terms,
                });
                let terms = head.terms;
                if matches!(answer, Answer::AtOnce) || !connection.is_reading_body() {
                    reply(&mut connection, limits, now, Status::OK, terms);
                }
            }
            Ok((consumed, Step::Refused(head, error))) => {
                from += consumed;
                check(&head, limits);
                events.push(Event::Refused(error.kind, Vec::new()));
                let terms = connection.error_terms();
                reply(&mut connection, limits, now, error.status(), terms);
            }
            Ok((consumed, Step::Body(range))) => {
                body.extend_from_slice(&lent[range]);
                from += consumed;
            }
            Ok((consumed, Step::EndOfRequest)) => {
                from += consumed;
                events.push(Event::Body(std::mem::take(&mut body)));
                if connection.owes_answer() {
                    reply(&mut connection, limits, now, Status::OK, last_terms(&events));
                }
            }
            Ok((consumed, Step::NeedInput)) => {
                from += consumed;
                assert!(!eof, "more input is wanted after its end");
                eof = to == input.len();
                to = input.len().min(to.saturating_add(piece));
            }
            Ok((_, Step::Paused)) => panic!("paused, though every reply has been sent"),
            // What is behind the last request decides how the connection ends.
            Ok((_, Step::Closed)) if to < input.len() => to = input.len(),
            Ok((_, Step::Closed)) => break,
            Err(error) => {
                assert!((400..600).contains(&error.status().0));
                events.push(Event::Refused(error.kind, std::mem::take(&mut body)));
                if connection.owes_answer() {
                    let terms = connection.error_terms();
                    reply(&mut connection, limits, now, error.status(), terms);
                }
            }
        }
        assert!(from <= to);
    }
    events.push(Event::Ended(connection.wants().end));
    run_down(connection, limits, now);
    events
}

fn last_terms(events: &[Event]) -> Terms {
    let terms = events.iter().rev().find_map(|event| match event {
        Event::Request { terms, .. } => Some(*terms),
        _ => None,
    });
    terms.expect("a request came before its body")
}

/// What the server takes for granted of a request.
fn check(head: &Head<'_>, limits: &Limits) {
    assert!(head.target.len() <= limits.request_line as usize);
    assert!(head.path.starts_with(b"/") || head.path == b"*", "{:?}", head.path);
    assert!(!head.path.contains(&b'?') && !head.path.contains(&b'#'));
    assert!(head.target.iter().all(|&byte| byte > b' ' && byte != 0x7f), "{:?}", head.target);
    assert_eq!(head.terms.body, head.method != Method::Head);
    let fields = &head.fields;
    let values = Field::ALL.into_iter().flat_map(|field| fields.all(field));
    for value in values.chain(head.host()) {
        assert!(!value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)), "{value:?}");
    }
}

/// Answers, sends the reply in two parts, and releases it.
fn reply(connection: &mut Connection<()>, limits: &Limits, now: Tick, status: Status, terms: Terms) {
    let mut plan = Plan::new(Sheet::default(), status, terms, &Stamp::new("fuzz", 0));
    plan.text("text/plain", b"answer\n");
    connection.respond(limits, now, plan);
    let left = |connection: &Connection<()>| -> u64 {
        connection
            .output()
            .map(|segment| match segment {
                http1::Segment::Own(bytes) => bytes.len() as u64,
                other => panic!("{other:?} in a plan without a pin"),
            })
            .sum()
    };
    let length = left(connection);
    connection.sent(limits, now, length / 2);
    assert_eq!(left(connection), length - length / 2);
    connection.sent(limits, now, length - length / 2);
    let ended = connection.release().expect("a reply that was sent can be released");
    assert!(ended.complete && ended.status == status);
    assert_eq!(ended.body_sent, if terms.body { 7 } else { 0 });
}

/// Lets time pass until nothing is waited for: no connection stays for ever.
fn run_down(mut connection: Connection<()>, limits: &Limits, now: Tick) {
    let mut now = now;
    for _ in 0..8 {
        match connection.wants().end {
            End::Open => {}
            End::ShutDown => connection.write_side_shut(limits, now),
            End::Close | End::Reset => return,
        }
        let Some(deadline) = connection.deadline() else { continue };
        assert!(!deadline.reached(now) || deadline == now, "a deadline was left in the past");
        now = deadline;
        if let Timeout::Answer(_, error) = connection.timeout(limits, now) {
            let terms = connection.error_terms();
            reply(&mut connection, limits, now, error.status(), terms);
        }
    }
    panic!("the connection never ends: {connection:?}");
}
