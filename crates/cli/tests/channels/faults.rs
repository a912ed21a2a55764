//! An error at each operation: the connection ends, what was sent until then is right, and whoever is served
//! next by the same worker is served.

use std::collections::VecDeque;
use std::io;

use server::conversation::Conversation;
use server::service::Service;
use sys::socket::PeerAddress;

use crate::turn::{Brought, Bytes, Ended, turn};
use crate::world;
use harness::server::settle;
use harness::site;

pub(crate) const TESTS: &[(&str, fn())] = &[("each_operation_fails", each_operation_fails)];

const REQUESTS: &str = "GET /hello.txt HTTP/1.1\r\nHost: x\r\n\r\n\
    GET /large.bin HTTP/1.1\r\nHost: x\r\nRange: bytes=5-50000\r\n\r\n\
    POST /hello.txt HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nsome body\
    GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n";
/// Bytes that are received, or sent, at a time.
const RECEIVED: usize = 30;
const SENT: usize = 5000;
/// More turns than any of it takes.
const MOST_TURNS: usize = 1000;

/// Requests, and an operation that fails.
struct Failing {
    requests: VecDeque<u8>,
    output: Vec<u8>,
    operations: usize,
    fails_at: usize,
}

impl Failing {
    fn fails(&mut self) -> bool {
        self.operations += 1;
        self.operations == self.fails_at
    }
}

impl Bytes for Failing {
    fn bring(&mut self, room: &mut [u8]) -> Brought {
        if self.fails() {
            return Brought::Broken(io::ErrorKind::ConnectionReset.into());
        }
        let count = self.requests.len().min(room.len()).min(RECEIVED);
        for (place, byte) in room.iter_mut().zip(self.requests.drain(..count)) {
            *place = byte;
        }
        if count == 0 { Brought::End } else { Brought::Bytes(count) }
    }

    fn room(&mut self) -> usize {
        SENT
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.fails() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.output.extend_from_slice(bytes);
        Ok(bytes.len())
    }
}

/// Serves the requests, of whose operations that one fails.
fn serve(service: &mut Service, fails_at: usize) -> Failing {
    let mut bytes =
        Failing { requests: REQUESTS.bytes().collect(), output: Vec::new(), operations: 0, fails_at };
    let mut conversation = Conversation::new(PeerAddress::Unix, false, None, service);
    for _ in 0..MOST_TURNS {
        match turn(&mut conversation, service, &mut bytes) {
            Ended::Close | Ended::Reset => {
                conversation.end(service);
                return bytes;
            }
            Ended::ShutDown => conversation.output_is_shut(service),
            Ended::Waits => panic!("nothing was to be waited for"),
        }
    }
    panic!("{MOST_TURNS} turns, and no end");
}

/// The replies without their dates, a character for each byte: a reply that is cut anywhere is the beginning
/// of the whole one.
fn undated(output: &[u8]) -> String {
    let text: String = output.iter().copied().map(char::from).collect();
    text.split("\r\n").filter(|line| !line.starts_with("Date: ")).collect::<Vec<_>>().join("\r\n")
}

fn each_operation_fails() {
    let directory = tempfile::tempdir().expect("a directory");
    site::make(directory.path());
    // The first replies have the validators of the later ones.
    settle();
    let mut service = world::service(&world::settings(&directory.path().join("root"), ""));
    let whole = serve(&mut service, usize::MAX);
    let replies = undated(&whole.output);
    assert_eq!(replies.matches("HTTP/1.1 ").count(), 4, "{replies}");
    let held = service.content.table_size();
    let mut broken_off = 0;
    for fails_at in 1..=whole.operations {
        let broken = serve(&mut service, fails_at);
        assert_eq!(broken.operations, fails_at, "nothing is tried behind an operation that failed");
        let sent = undated(&broken.output);
        let is_prefix = broken.output.len() <= whole.output.len() && replies.starts_with(sent.trim_end());
        assert!(is_prefix, "operation {fails_at}: {sent}");
        broken_off += usize::from(broken.output.len() < whole.output.len());
        assert_eq!(service.content.table_size().descriptors, held.descriptors, "operation {fails_at}");
    }
    assert!(broken_off > 10, "only {broken_off} failures came before the last reply was sent");
    assert_eq!(undated(&serve(&mut service, usize::MAX).output), replies);
}
