//! What the tests of all crates share.
//!
//! - The real `sluice`, started in its own directory: [`server`]. Its files: [`site`]. Where cargo has
//!   built it: [`built`]. A program file that is replaced: [`program`].
//! - The variants of the server that each test runs for: [`variant`].
//! - Clients: a [`browser`]. [`client`] shares no code with the server and checks every reply. [`held`] has
//!   tens of thousands of connections. [`passes`] sends requests while everything ends that can end.
//! - TLS: a [`tunnel`] between these clients and a server, which tests run over TLS ([`over_tls`]), and
//!   certificates ([`authority`]).
//! - Real programs: [`tools`].
//! - Applications behind the server: [`fpm`], [`scripted`], [`guest`], [`conveyed`].
//! - The environment: a directory in memory ([`scratch`]), network namespaces ([`namespace`]), a disk
//!   that is easily full ([`small_disk`]), a [`terminal`], and which process has which connection
//!   ([`owners`]).
//! - [`skip`] lists what a test leaves out.
//! - [`schema`] checks JSON against its schema.
//! - The sources of this workspace, for tests of rules: [`workspace`]. The commands of a page: [`page`].
//!
//! This crate depends on none of the project's other crates, so that the tests of each of them may use
//! it.

#![allow(clippy::missing_panics_doc, reason = "a test fails by a panic, and so does what it calls")]

pub mod authority;
pub mod browser;
pub mod built;
pub mod client;
pub mod conveyed;
pub mod csv;
pub mod fpm;
pub mod guest;
pub mod held;
pub mod name_server;
pub mod namespace;
pub mod over_tls;
pub mod owners;
pub mod page;
pub mod passes;
pub mod program;
pub mod schema;
pub mod scratch;
pub mod scripted;
pub mod scripted_http;
pub mod server;
pub mod site;
pub mod skipped;
pub mod small_disk;
pub mod terminal;
pub mod tools;
pub mod tunnel;
pub mod variant;
pub mod workspace;

pub use skipped::skip;

use std::iter;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::RangeInclusive;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use rustix::rand::{GetRandomFlags, getrandom};

/// How long something may take that should happen at once. It is long enough for a busy machine, and ends
/// a test that hangs.
pub const TIMEOUT: Duration = Duration::from_secs(15);

/// Waits until `happened`, and panics with `what` if it never does.
#[track_caller]
pub fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    let began = Instant::now();
    while !happened() {
        assert!(began.elapsed() < TIMEOUT, "still not so after {TIMEOUT:?}: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Sleeps for so many milliseconds.
pub fn sleep_ms(ms: u64) {
    thread::sleep(Duration::from_millis(ms));
}

/// A free address: no program listens there now. The kernel gives its port to no client, which could take
/// it before a server does. No test gets the same address twice.
pub fn free_address() -> SocketAddr {
    // By default, `net.ipv4.ip_local_port_range` begins at 32768.
    const PORTS: RangeInclusive<u16> = 10_000..=32_000;
    static GIVEN: Mutex<Vec<SocketAddr>> = Mutex::new(Vec::new());
    let mut seed = [0; 8];
    getrandom(&mut seed, GetRandomFlags::empty()).expect("random bytes");
    let mut random = Random(u64::from_ne_bytes(seed));
    let mut draw = || PORTS.start() + random.below(PORTS.len()) as u16;
    let mut given = GIVEN.lock().expect("nobody panics with it");
    let is_free = |address: &SocketAddr| !given.contains(address) && TcpListener::bind(address).is_ok();
    let mut addresses = iter::repeat_with(|| SocketAddr::from((Ipv4Addr::LOCALHOST, draw()))).take(100);
    let address = addresses.find(is_free).expect("a free port");
    given.push(address);
    address
}

/// Numbers that look random but are the same in every run (splitmix64).
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.draw() % end as u64) as usize
    }

    /// So many bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.draw() as u8).collect()
    }
}
