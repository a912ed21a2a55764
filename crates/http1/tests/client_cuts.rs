//! However the network cuts a stream of replies, the client's connection makes the same of it.

use http1::Method;
use http1::client::{Connection, Event, ReplyError, ResponseHead};
use proptest::prelude::*;

/// What a stream of replies comes to. Pieces of one body are joined.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    Interim(u16, Vec<(Vec<u8>, Vec<u8>)>),
    Head(u16, Vec<(Vec<u8>, Vec<u8>)>),
    Body(Vec<u8>),
    End(bool),
    Closed,
    Error(ReplyError),
}

/// `eof_with_last`: the end comes together with the last piece, rather than after it.
fn replay(
    methods: &[Method<'_>],
    stream: &[u8],
    cuts: impl IntoIterator<Item = usize>,
    eof_with_last: bool,
) -> Vec<Told> {
    let mut connection = Connection::new();
    for &method in methods {
        connection.sent_request(method).unwrap();
    }
    let mut told = Vec::new();
    let (mut at, mut end, mut eof, mut cuts) = (0, 0, false, cuts.into_iter());
    loop {
        eof |= eof_with_last && end == stream.len();
        let lent = &stream[at..end];
        let (consumed, event) = match connection.receive(lent, eof) {
            Ok(received) => received,
            Err(error) => {
                told.push(Told::Error(error));
                return told;
            }
        };
        at += consumed;
        match event {
            Event::NeedInput => {
                assert!(!eof, "nothing is needed after the end");
                eof = end == stream.len();
                end = (end + cuts.next().unwrap_or(stream.len()).max(1)).min(stream.len());
            }
            Event::Interim(head) => told.push(Told::Interim(head.status.0, fields(&head))),
            Event::Head(head) => told.push(Told::Head(head.status.0, fields(&head))),
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

fn fields(head: &ResponseHead<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
    head.fields().map(|(name, value)| (name.to_vec(), value.to_vec())).collect()
}

/// One reply as a server may send it, and what was asked.
fn reply() -> impl Strategy<Value = (Method<'static>, Vec<u8>)> {
    let body = prop::collection::vec(any::<u8>(), 0..60);
    let status = prop::sample::select(vec![200_u16, 204, 206, 304, 404, 503]);
    let fields = prop::collection::vec("[A-Za-z]{1,6}:[ -~]{0,8}\r\n", 0..4);
    let method = prop::sample::select(vec![Method::Get, Method::Get, Method::Head]);
    (method, 0..6_u8, status, fields, body).prop_map(|(method, kind, status, fields, body)| {
        let mut reply = Vec::new();
        if kind == 1 {
            reply.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n");
            reply.extend_from_slice(format!("{}\r\n", fields.concat()).as_bytes());
        }
        reply.extend_from_slice(format!("HTTP/1.1 {status} Reason\r\n{}", fields.concat()).as_bytes());
        let bodiless = method == Method::Head || matches!(status, 204 | 304);
        match kind {
            0 if !bodiless => {
                reply.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
                for chunk in body.chunks(7) {
                    reply.extend_from_slice(format!("{:x};ext\r\n", chunk.len()).as_bytes());
                    reply.extend_from_slice(chunk);
                    reply.extend_from_slice(b"\r\n");
                }
                reply.extend_from_slice(b"0\r\nTrailer: x\r\n\r\n");
            }
            2 if !bodiless => {
                reply.extend_from_slice(b"\r\n");
                reply.extend_from_slice(&body);
            }
            _ => {
                reply.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
                if !bodiless {
                    reply.extend_from_slice(&body);
                }
            }
        }
        (method, reply)
    })
}

fn streams() -> impl Strategy<Value = (Vec<Method<'static>>, Vec<u8>)> {
    let damage = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..2);
    let cut_off = prop::option::weighted(0.2, any::<prop::sample::Index>());
    (prop::collection::vec(reply(), 1..5), damage, cut_off).prop_map(|(replies, damage, cut_off)| {
        let (methods, replies): (Vec<_>, Vec<_>) = replies.into_iter().unzip();
        let mut stream = replies.concat();
        for (index, byte) in damage {
            let at = index.index(stream.len());
            stream[at] = byte;
        }
        if let Some(index) = cut_off {
            stream.truncate(index.index(stream.len()));
        }
        (methods, stream)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn cutting_replies_changes_nothing(
        (methods, stream) in streams(),
        cuts in prop::collection::vec(1_usize..30, 0..60),
        eof_with_last: bool,
    ) {
        let whole = replay(&methods, &stream, [], true);
        prop_assert_eq!(replay(&methods, &stream, [], false), whole.clone());
        prop_assert_eq!(replay(&methods, &stream, cuts, eof_with_last), whole.clone());
        prop_assert_eq!(replay(&methods, &stream, std::iter::repeat(1), eof_with_last), whole);
    }

    #[test]
    fn random_bytes_are_refused_or_awaited(stream in prop::collection::vec(any::<u8>(), 0..100)) {
        let mut connection = Connection::new();
        connection.sent_request(Method::Get).unwrap();
        let received = connection.receive(&stream, false);
        prop_assert!(matches!(received, Err(_) | Ok((0, Event::NeedInput))), "{:?}", received);
    }
}
