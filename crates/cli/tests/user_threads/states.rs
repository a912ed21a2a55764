//! What a client takes of a worker's memory in each state: idle, with half a request, with half a reply.

use harness::client::Client;
use harness::eventually;
use harness::server::Server;
use harness::site::HELLO;
use harness::variant::{Test, Variant, tests};

pub(crate) const TESTS: &[Test] = tests![One: each_state_takes_what_it_needs];

const CLIENTS: u64 = 2000;

/// A request for a small file, and nothing more.
fn be_idle(server: &Server) -> Client {
    let mut client = server.connect();
    assert_eq!(client.get("/hello.txt").text(), HELLO);
    client
}

fn send_half_a_request(server: &Server) -> Client {
    let mut client = server.connect();
    client.send("GET /hello.txt HTTP/1.1\r\nHo");
    client
}

/// A file that is larger than the socket's buffers, of which the client reads nothing.
fn leave_half_a_reply(server: &Server) -> Client {
    let mut client = server.connect_narrow();
    client.ask("GET", "/large.bin", &[]);
    client
}

/// A state: the clients that have a thread in it, a client that comes into it, and most bytes that it takes.
type State = (&'static str, u64, fn(&Server) -> Client, u64);

/// An idle client has a record. The others have a stack as well, of which they have used a page or two.
const STATES: [State; 3] = [
    ("idle", 0, be_idle, 450),
    ("half a request", CLIENTS, send_half_a_request, 9 << 10),
    ("half a reply", CLIENTS, leave_half_a_reply, 9 << 10),
];

/// The bytes of each state, by what the kernel says of the worker. They are printed.
fn each_state_takes_what_it_needs(_: &Variant) {
    for (state, busy, come, most) in STATES {
        let more =
            "[timeouts]\nheader = '60 s'\nidle = '60 s'\nwrite = '60 s'\n[tcp]\nsend_buffer = '64 KiB'\n";
        let server = Server::with(&crate::ONE, more);
        // What the first client of all takes is the worker's.
        let first = come(&server);
        eventually("it has come", || server.count("accepts") == 1);
        let before = server.memory();
        let clients: Vec<_> = (0..CLIENTS).map(|_| come(&server)).collect();
        let has_thread = busy + u64::from(busy > 0);
        eventually(state, || server.count("user_threads_busy") == has_thread);
        let each = (server.memory() - before) / CLIENTS;
        println!("{state}: {each} bytes for each of {CLIENTS} clients");
        assert!(each <= most, "{state}: {each} bytes");
        drop((first, clients));
    }
}
