//! Replies of an application, or of a server to the load generator: however the input is cut, the same heads,
//! bodies and errors come out, and no field that is let through can split a reply.

#![no_main]

use http1::Method;
use http1::client::{Connection, Event, ReplyError, ResponseHead};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&asked, input)) = input.split_first() else { return };
    let whole = replay(asked, input, input.len().max(1));
    for piece in [1, 2, 3, 7, 64] {
        assert_eq!(replay(asked, input, piece), whole, "in pieces of {piece}");
    }
});

/// The fields of a head, as names and values.
type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// What a stream of replies comes to. Pieces of one body are joined.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Interim(u16, Fields),
    Head(u16, Fields),
    Body(Vec<u8>),
    End(bool),
    Switched(Vec<u8>),
    Closed,
    Error(ReplyError),
}

/// The bits of `asked` say how many requests wait for their replies, and which kind each is.
fn replay(asked: u8, input: &[u8], piece: usize) -> Vec<Told> {
    let mut connection = Connection::new();
    let offers = asked & 3 == 3;
    for number in 0..if offers { 1 } else { asked & 3 } {
        let method = if asked >> (2 + number) & 1 == 1 { Method::Head } else { Method::Get };
        connection.sent_request(method).expect("so many fit");
    }
    if offers {
        connection.offer_upgrade();
    }
    let (mut told, mut from, mut to, mut eof) = (Vec::new(), 0, 0, false);
    loop {
        let lent = &input[from..to];
        let (used, event) = match connection.receive(lent, eof) {
            Ok(received) => received,
            Err(error) => {
                told.push(Told::Error(error));
                return told;
            }
        };
        assert!(used <= lent.len());
        from += used;
        match event {
            Event::NeedInput => {
                assert!(!eof, "more input is wanted after its end");
                eof = to == input.len();
                to = input.len().min(to + piece);
            }
            Event::Interim(head) => {
                assert!(matches!(head.status.0, 100 | 102..200), "{}", head.status.0);
                told.push(Told::Interim(head.status.0, fields(&head)));
            }
            Event::Head(head) => {
                told.push(Told::Head(head.status.0, fields(&head)));
                if head.status.0 == 101 {
                    assert!(offers, "a switch that nobody has offered");
                    told.push(Told::Switched(input[from..].to_vec()));
                    return told;
                }
            }
            Event::Body(range) => match told.last_mut() {
                Some(Told::Body(body)) => body.extend_from_slice(&lent[range]),
                _ => told.push(Told::Body(lent[range].to_vec())),
            },
            Event::EndOfReply { keep_alive } => told.push(Told::End(keep_alive)),
            Event::Closed => {
                told.push(Told::Closed);
                return told;
            }
        }
    }
}

/// The fields of a head, none of which can split a reply.
fn fields(head: &ResponseHead<'_>) -> Fields {
    let fields: Fields = head.fields().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
    for (name, value) in &fields {
        let is_token = |byte: &u8| byte.is_ascii_graphic() && *byte != b':';
        assert!(!name.is_empty() && name.iter().all(is_token), "{name:?}");
        assert!(!value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)), "{value:?}");
    }
    let splits = |reason: &[u8]| reason.iter().any(|byte| matches!(byte, b'\r' | b'\n'));
    assert!(!head.reason.is_some_and(splits));
    fields
}
