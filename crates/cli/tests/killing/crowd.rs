//! Clients that ask without end and check every byte, and remember which of their connections were lost, and
//! when.
//!
//! Regulars keep a connection for as long as the server lets them: brisk ones ask again soon after they are
//! answered, others pause in between, slow ones are in the midst of a big reply most of the time. Strangers
//! come on a new connection each time. All of them together leave processors to other tests.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use harness::client::{Broken, Client, connect, request};
use harness::server::{Server, Setup};
use harness::site::pattern;
use harness::{Random, eventually, sleep_ms};

/// So many of each kind. All of them together are no more than the smallest pool of processes serves at a
/// time.
const BRISK: usize = 6;
const PAUSING: usize = 5;
const SLOW: usize = 3;
const STRANGERS: usize = 3;

/// More files than a table of [`TABLE`] entries can keep open.
const FILES: usize = 40;
const TABLE: &str = "[files]\nmax_open = 16\n[tcp]\nsend_buffer = \"64 KiB\"\n";
const BIG: usize = 1 << 20;

/// Clients of one server, each in a thread of its own.
pub(crate) struct Crowd {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// A connection that the server did not end in good order.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    /// The client's port.
    pub(crate) port: u16,
    pub(crate) at: Instant,
    pub(crate) how: Broken,
}

struct Shared {
    address: SocketAddr,
    stop: AtomicBool,
    /// Regulars who lost their connection wait before they come back.
    hold: AtomicBool,
    regulars: Vec<Mutex<Regular>>,
    losses: Mutex<Vec<Loss>>,
    strangers_losses: Mutex<Vec<Loss>>,
    strangers_answers: AtomicU64,
}

#[derive(Default)]
struct Regular {
    /// Of the present connection.
    port: Option<u16>,
    /// Whether there was an answer on it, and there may be another.
    goes_on: bool,
    answers: u64,
}

/// Gives the server the files that the clients ask for.
pub(crate) fn stock(setup: Setup) -> Setup {
    let setup =
        (0..FILES).fold(setup.config(TABLE), |setup, number| setup.file(&name(number), content(number)));
    setup.file("big.bin", big())
}

/// Asks for every file on a connection of its own, and compares.
pub(crate) fn check_all_files(server: &Server) {
    for number in 0..FILES {
        let reply = server.get(&format!("/{}", name(number)));
        assert!(reply.status == 200 && reply.body == content(number), "{reply:?}");
    }
}

fn name(number: usize) -> String {
    format!("file-{number}.bin")
}

/// Sizes on both sides of what is sent from memory.
fn content(number: usize) -> &'static [u8] {
    static CONTENTS: LazyLock<Vec<Vec<u8>>> =
        LazyLock::new(|| (0..FILES).map(|number| pattern(number as u64, number * number * 60)).collect());
    &CONTENTS[number]
}

fn big() -> &'static [u8] {
    static CONTENT: LazyLock<Vec<u8>> = LazyLock::new(|| pattern(99, BIG));
    &CONTENT
}

impl Crowd {
    /// All have come, and been answered, when it returns.
    pub(crate) fn gather(server: &Server) -> Self {
        let regulars = (0..BRISK + PAUSING + SLOW).map(|_| Mutex::default()).collect();
        let shared = Arc::new(Shared {
            address: server.address,
            stop: AtomicBool::new(false),
            hold: AtomicBool::new(false),
            regulars,
            losses: Mutex::default(),
            strangers_losses: Mutex::default(),
            strangers_answers: AtomicU64::new(0),
        });
        let mut threads = Vec::new();
        for number in 0..shared.regulars.len() {
            let shared = Arc::clone(&shared);
            threads.push(thread::spawn(move || shared.be_regular(number)));
        }
        for number in 0..STRANGERS {
            let shared = Arc::clone(&shared);
            threads.push(thread::spawn(move || shared.be_stranger(number as u64)));
        }
        let crowd = Self { shared, threads };
        crowd.is_served();
        crowd
    }

    /// Every regular has a connection, and is answered on it from now on; so is a stranger.
    pub(crate) fn is_served(&self) {
        let answers = || -> Vec<u64> {
            let each = self.shared.regulars.iter().map(|regular| {
                let regular = regular.lock().expect("nobody panics with it");
                if regular.goes_on { regular.answers } else { 0 }
            });
            each.chain([self.shared.strangers_answers.load(Ordering::Relaxed)]).collect()
        };
        let before = answers();
        eventually("everybody is served", || {
            assert!(self.threads.iter().all(|thread| !thread.is_finished()), "a client was served wrongly");
            answers().iter().zip(&before).all(|(now, before)| now > before)
        });
    }

    /// The ports of the regulars' connections.
    pub(crate) fn ports(&self) -> Vec<u16> {
        self.ports_of(|_| true)
    }

    /// Of those on which there was an answer, so that somebody has accepted them.
    pub(crate) fn ports_served(&self) -> Vec<u16> {
        self.ports_of(|regular| regular.goes_on)
    }

    fn ports_of(&self, is_meant: impl Fn(&Regular) -> bool) -> Vec<u16> {
        let regulars =
            self.shared.regulars.iter().map(|regular| regular.lock().expect("nobody panics with it"));
        regulars.filter(|regular| is_meant(regular)).filter_map(|regular| regular.port).collect()
    }

    /// Whether regulars who lose their connection wait until this is said to be over.
    pub(crate) fn hold(&self, hold: bool) {
        self.shared.hold.store(hold, Ordering::Relaxed);
    }

    /// The regulars' losses so far.
    pub(crate) fn losses(&self) -> Vec<Loss> {
        self.shared.losses.lock().expect("nobody panics with it").clone()
    }

    /// The strangers' losses so far.
    pub(crate) fn strangers_losses(&self) -> Vec<Loss> {
        self.shared.strangers_losses.lock().expect("nobody panics with it").clone()
    }

    /// Forgets losses.
    pub(crate) fn forget_losses(&self) {
        self.shared.losses.lock().expect("nobody panics with it").clear();
        self.shared.strangers_losses.lock().expect("nobody panics with it").clear();
    }

    /// Everybody leaves, each after the answer that is under way.
    pub(crate) fn disperse(mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("a client was served wrongly");
        }
    }

    /// Everybody stays until there is no server any more. Nobody may be lost on the way there.
    pub(crate) fn outlast(mut self) {
        for thread in self.threads.drain(..) {
            thread.join().expect("a client was served wrongly");
        }
        let losses = (self.losses(), self.strangers_losses());
        assert!(losses.0.is_empty() && losses.1.is_empty(), "{losses:?}");
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        // Where a test fails, the next one is not to suffer from its clients.
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

/// How many strangers there are at a time.
pub(crate) const fn strangers() -> usize {
    STRANGERS
}

impl Shared {
    fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn be_regular(&self, number: usize) {
        let mut random = Random(number as u64);
        let slow = number >= BRISK + PAUSING;
        while !self.stops() {
            while self.hold.load(Ordering::Relaxed) && !self.stops() {
                sleep_ms(1);
            }
            let connected = if slow {
                Client::try_connect_narrow(self.address)
            } else {
                connect(self.address).map(Client::over)
            };
            let Ok(mut client) = connected else { return };
            let port = port(&client);
            self.regulars[number].lock().expect("nobody panics with it").port = Some(port);
            let end = loop {
                if self.stops() {
                    return leave(client);
                }
                let answer = match number {
                    ..BRISK => ask_again_soon(&mut client, &mut random),
                    _ if slow => ask_slowly(&mut client),
                    _ => ask_and_pause(&mut client, &mut random),
                };
                match answer {
                    Ok(more) => {
                        let mut regular = self.regulars[number].lock().expect("nobody panics with it");
                        regular.goes_on = more;
                        regular.answers += 1;
                        if !more {
                            break None;
                        }
                    }
                    Err(how) => break Some(Loss { port, at: Instant::now(), how }),
                }
            };
            let mut regular = self.regulars[number].lock().expect("nobody panics with it");
            (regular.port, regular.goes_on) = (None, false);
            drop(regular);
            self.losses.lock().expect("nobody panics with it").extend(end);
        }
    }

    fn be_stranger(&self, number: u64) {
        let mut random = Random(1000 + number);
        while !self.stops() {
            let Ok(stream) = connect(self.address) else { return };
            let mut client = Client::over(stream);
            match ask_for_some_file(&mut client, &mut random) {
                Ok(_) => {
                    self.strangers_answers.fetch_add(1, Ordering::Relaxed);
                    leave(client);
                }
                Err(how) => {
                    let loss = Loss { port: port(&client), at: Instant::now(), how };
                    self.strangers_losses.lock().expect("nobody panics with it").push(loss);
                }
            }
            sleep_ms(8);
        }
    }
}

/// A reset leaves no port behind that would have to wait before it can be used again.
fn leave(client: Client) {
    client.reset();
}

fn port(client: &Client) -> u16 {
    client.stream.local_addr().expect("a connection has an address").port()
}

/// Whether there may be another request on this connection.
fn ask_for_some_file(client: &mut Client, random: &mut Random) -> Result<bool, Broken> {
    let number = random.below(FILES);
    if !client.try_send(request("GET", &format!("/{}", name(number)), &[])) {
        return Err(Broken::Reset);
    }
    let reply = checked(client.try_reply())?;
    assert!(reply.status == 200 && reply.body == content(number), "file {number}: {reply:?}");
    Ok(!reply.closes())
}

fn ask_again_soon(client: &mut Client, random: &mut Random) -> Result<bool, Broken> {
    let more = ask_for_some_file(client, random)?;
    sleep_ms(10);
    Ok(more)
}

fn ask_and_pause(client: &mut Client, random: &mut Random) -> Result<bool, Broken> {
    let more = ask_for_some_file(client, random)?;
    if more {
        let pause = Duration::from_millis(10 + random.below(40) as u64);
        match checked(client.try_reply_within(pause)) {
            Err(Broken::Silent) => {}
            Err(how) => return Err(how),
            Ok(reply) => panic!("nobody asked for {reply:?}"),
        }
    }
    Ok(more)
}

fn ask_slowly(client: &mut Client) -> Result<bool, Broken> {
    if !client.try_send(request("GET", "/big.bin", &[])) {
        return Err(Broken::Reset);
    }
    let mut received = Vec::new();
    for _ in 0..20 {
        received.extend(client.read_raw(32 << 10)?);
        sleep_ms(5);
    }
    client.unread(received);
    let reply = checked(client.try_reply())?;
    assert!(reply.status == 200 && reply.body == big(), "big.bin: {reply:?}");
    Ok(!reply.closes())
}

/// A connection may be lost, but what arrives on it is right.
fn checked<T>(answer: Result<T, Broken>) -> Result<T, Broken> {
    if let Err(Broken::Malformed(what)) = &answer {
        panic!("malformed: {what}");
    }
    answer
}
