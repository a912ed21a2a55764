//! The relay by each of its transports: whole replies, to clients that ask one after the other, that send
//! several requests at once, that are slow, and that leave in the middle.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

struct Relay {
    process: Child,
    address: String,
}

impl Relay {
    fn start(transport: &str) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_relay"))
            .args(["--transport", transport, "--workers=3"])
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        BufReader::new(process.stderr.as_mut().expect("a pipe")).read_line(&mut line).expect("a line");
        let address = line.split('/').nth(2).expect("an address").to_owned();
        Self { process, address }
    }

    fn connect(&self) -> TcpStream {
        let client = TcpStream::connect(&self.address).expect("it listens");
        client.set_read_timeout(Some(Duration::from_mins(1))).expect("a socket");
        client
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // It is there until now, and its applications end with it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn ask(client: &mut TcpStream, bytes: usize, times: usize) {
    let request = format!("GET /fcgi/constant?bytes={bytes} HTTP/1.1\r\nHost: a\r\n\r\n").repeat(times);
    client.write_all(request.as_bytes()).expect("it takes requests");
}

/// Whether more comes in for a client that reads nothing.
fn is_growing(client: &TcpStream) -> bool {
    let mut room = vec![0; 32 << 20];
    let before = client.peek(&mut room).expect("something");
    thread::sleep(Duration::from_millis(50));
    client.peek(&mut room).expect("something") > before
}

fn read_reply(client: &mut TcpStream, bytes: usize) {
    let head = format!(
        "HTTP/1.1 200 OK\r\nServer: relay\r\nContent-Type: text/html\r\nContent-Length: {bytes}\r\n\r\n"
    );
    let mut reply = vec![0; head.len() + bytes];
    client.read_exact(&mut reply).expect("a whole reply");
    assert_eq!(&reply[..head.len()], head.as_bytes());
    assert!(reply[head.len()..].iter().all(|byte| *byte == b'='));
}

#[test]
fn replies_are_whole_by_each_transport() {
    for transport in ["tcp", "unix", "shared-memory", "pass-fd"] {
        let relay = Relay::start(transport);
        // More at a time than there are applications, of different sizes; each asks again and again.
        let each = |bytes: usize| {
            let mut client = relay.connect();
            for times in [1, 1, 3, 1] {
                ask(&mut client, bytes, times);
                (0..times).for_each(|_| read_reply(&mut client, bytes));
            }
        };
        thread::scope(|scope| {
            for bytes in [1, 1_000, 65_536, 65_537, 300_000, 4 << 20] {
                scope.spawn(move || each(bytes));
            }
        });
        // One who reads nothing while the buffers are full, and then all of it.
        let mut slow = relay.connect();
        ask(&mut slow, 32 << 20, 1);
        let mut quick = relay.connect();
        ask(&mut quick, 100_000, 2);
        (0..2).for_each(|_| read_reply(&mut quick, 100_000));
        read_reply(&mut slow, 32 << 20);
        // Those who leave in the middle keep no application: there are only three. They leave at once, or
        // when nothing more comes as all buffers are full.
        for waits in [false, true].repeat(4) {
            let mut leaving = relay.connect();
            ask(&mut leaving, 32 << 20, 1);
            leaving.read_exact(&mut [0; 1_000]).expect("a beginning");
            while waits && is_growing(&leaving) {}
        }
        ask(&mut quick, 100_000, 3);
        (0..3).for_each(|_| read_reply(&mut quick, 100_000));
    }
}
