//! The ceiling answers every client, by each of its ways to wait.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

struct Ceiling {
    process: Child,
    /// `None`: it has not begun to serve.
    address: Option<String>,
}

impl Ceiling {
    fn start(arguments: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_ceiling"))
            .args(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        BufReader::new(process.stderr.as_mut().expect("a pipe")).read_line(&mut line).expect("a line");
        Self { process, address: line.split('/').nth(2).map(str::to_owned) }
    }
}

impl Drop for Ceiling {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// One client after the other: each comes when the one before has left.
#[test]
fn every_client_is_answered() {
    for way in [&[][..], &["--workers=2"], &["--ring"]] {
        for body in [1024, 10_240, 102_400] {
            let length = format!("--body={body}");
            let ceiling = Ceiling::start(&[way, &[&length]].concat());
            let address = ceiling.address.as_ref().expect("it listens");
            for number in 0..5 {
                let mut client = TcpStream::connect(address).expect("it listens");
                client.set_read_timeout(Some(Duration::from_mins(1))).expect("a socket");
                client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("it takes a request");
                let mut reply = Vec::new();
                while reply
                    .windows(4)
                    .position(|end| end == b"\r\n\r\n")
                    .is_none_or(|at| reply.len() < at + 4 + body)
                {
                    let mut room = [0; 4096];
                    let count = client.read(&mut room);
                    let count =
                        count.unwrap_or_else(|error| panic!("{way:?}, {body}, client {number}: {error}"));
                    assert!(count > 0, "{way:?}, {body}, client {number}: an end");
                    reply.extend_from_slice(&room[..count]);
                }
            }
        }
    }
}
