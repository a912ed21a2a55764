//! A small web server with a fault, to be found by the lab: `faulty --port PORT --root DIR [--fault FAULT]`.
//!
//! - `none`: it serves the files that were below DIR when it started, from memory, on kept connections.
//! - `wrong-bytes`: one reply in a hundred has a byte that is not its file's.
//! - `drops-large`: it closes the connection instead of sending a file of 100 KB or more.
//! - `slow=PERCENT`: it takes so much more CPU time for everything.
//! - `warms-up=SECONDS`: it takes twice the CPU time until it has run for so long.
//!
//! To see one found: `sluicelab compare 'good = target/release/examples/faulty --port {port} --root {root}'
//! 'slow = target/release/examples/faulty --port {port} --root {root} --fault slow=5'`.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::net::{RecvFlags, recv};
use rustix::time::{ClockId, clock_gettime};

/// Files by the targets that ask for them.
type Files = HashMap<String, Vec<u8>>;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    WrongBytes,
    DropsLarge,
    /// With that reply.
    Ends(u64),
    /// The part of its CPU time that it takes besides.
    Slow(f64),
    WarmsUp(Duration),
}

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().collect();
    let option = |name: &str| words.iter().position(|word| word == name).and_then(|at| words.get(at + 1));
    let usage = "faulty --port PORT --root DIR \
        [--fault none|wrong-bytes|drops-large|ends=REPLIES|slow=PERCENT|warms-up=SECONDS]";
    let (Some(port), Some(root)) = (option("--port"), option("--root")) else { anyhow::bail!("{usage}") };
    let fault = option("--fault").map_or("none", String::as_str);
    let number = |text: &str| text.parse::<f64>().map_err(|_| anyhow::anyhow!("{fault:?}: {usage}"));
    let fault = match fault.split_once('=').unwrap_or((fault, "")) {
        ("none", _) => Fault::None,
        ("wrong-bytes", _) => Fault::WrongBytes,
        ("drops-large", _) => Fault::DropsLarge,
        ("ends", replies) => Fault::Ends(number(replies)? as u64),
        ("slow", percent) => Fault::Slow(number(percent)? / 100.0),
        ("warms-up", seconds) => Fault::WarmsUp(Duration::try_from_secs_f64(number(seconds)?)?),
        _ => anyhow::bail!("{fault:?}: {usage}"),
    };
    let mut files = Files::new();
    read(Path::new(root), "", &mut files)?;
    serve(&TcpListener::bind(format!("0.0.0.0:{port}"))?, &files, fault)
}

fn read(directory: &Path, target: &str, files: &mut Files) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let target = format!("{target}/{}", path.file_name().unwrap_or_default().display());
        if path.is_dir() {
            read(&path, &target, files)?;
        } else {
            files.insert(target, fs::read(&path)?);
        }
    }
    Ok(())
}

/// A connection, and what it has sent of a request so far.
struct Client {
    stream: TcpStream,
    text: Vec<u8>,
}

fn serve(listener: &TcpListener, files: &Files, fault: Fault) -> anyhow::Result<()> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    listener.set_nonblocking(true)?;
    epoll::add(&poll, listener, EventData::new_u64(u64::MAX), EventFlags::IN)?;
    let mut clients: Vec<Option<Client>> = Vec::new();
    let mut burner = Burner { fault, begun: Instant::now(), used: cpu_time(), owed: Duration::ZERO };
    let mut replies = 0_u64;
    let mut events = Vec::with_capacity(64);
    loop {
        epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None)?;
        for event in events.drain(..) {
            let number = event.data.u64() as usize;
            if let Some(client) = clients.get_mut(number).and_then(Option::as_mut) {
                if !answer(client, files, fault, &mut replies) {
                    clients[number] = None;
                }
                burner.burn();
            } else if let Ok((stream, _)) = listener.accept() {
                stream.set_nodelay(true)?;
                let number = clients.iter().position(Option::is_none).unwrap_or(clients.len());
                epoll::add(&poll, &stream, EventData::new_u64(number as u64), EventFlags::IN)?;
                let client = Some(Client { stream, text: Vec::new() });
                if number == clients.len() { clients.push(client) } else { clients[number] = client }
            }
        }
    }
}

/// Reads what has come and replies; says whether the connection goes on.
fn answer(client: &mut Client, files: &Files, fault: Fault, replies: &mut u64) -> bool {
    let mut buffer = [0; 4096];
    match recv(client.stream.as_fd(), &mut buffer, RecvFlags::DONTWAIT) {
        Ok((0, _)) => return false,
        Ok((count, _)) => client.text.extend_from_slice(&buffer[..count]),
        Err(error) => return error == rustix::io::Errno::AGAIN,
    }
    while let Some(end) = client.text.windows(4).position(|window| window == b"\r\n\r\n") {
        let head: Vec<u8> = client.text.drain(..end + 4).collect();
        let head = String::from_utf8_lossy(&head);
        let target = head.split(' ').nth(1).unwrap_or_default();
        let body = files.get(target).map_or(&[][..], Vec::as_slice);
        if fault == Fault::DropsLarge && body.len() >= 100_000 {
            return false;
        }
        *replies += 1;
        if fault == Fault::Ends(*replies) {
            std::process::exit(1);
        }
        let mut body = body.to_vec();
        if fault == Fault::WrongBytes && replies.is_multiple_of(100) {
            body.iter_mut().take(1).for_each(|byte| *byte ^= 1);
        }
        let status = if files.contains_key(target) { "200 OK" } else { "404 Not Found" };
        let reply = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
        if client.stream.write_all(&[reply, body].concat()).is_err() {
            return false;
        }
    }
    true
}

/// Takes CPU time for nothing.
struct Burner {
    fault: Fault,
    begun: Instant,
    /// CPU time when it was last looked at.
    used: Duration,
    /// CPU time that is still to be taken.
    owed: Duration,
}

/// Debts below that are left: looking at the clock takes a good part of a microsecond.
const SMALL: Duration = Duration::from_micros(50);

impl Burner {
    /// As much as the fault wants for what was used since the last time. Without a fault it looks as often.
    fn burn(&mut self) {
        let now = cpu_time();
        let part = match self.fault {
            Fault::Slow(part) => part,
            Fault::WarmsUp(time) if self.begun.elapsed() < time => 1.0,
            _ => 0.0,
        };
        self.owed += now.saturating_sub(self.used).mul_f64(part);
        self.used = now;
        while self.owed > SMALL {
            let now = cpu_time();
            self.owed = self.owed.saturating_sub(now.saturating_sub(self.used));
            self.used = now;
        }
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
