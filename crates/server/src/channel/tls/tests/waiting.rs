//! Handshakes that have to wait, or are computed aside.

use std::fs;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use sys::event::Interest;
use sys::poll;
use sys::socket::PeerAddress;

use super::{Channel, World, body, get, versions};
use crate::handshakes::Step;

impl World {
    /// Other clients want the worker, and handshakes have had their share of its time.
    fn is_busy(&mut self) {
        self.service.counters.requests.add(1000);
        match self.begin_another("192.0.2.1:1") {
            Step::Here(handshake) => {
                let handshakes = self.service.handshakes.as_mut().unwrap();
                handshakes.computed(handshake, 10_000_000_000, 0);
            }
            other => panic!("{other:?}"),
        }
    }

    /// Another client's first message has come.
    fn begin_another(&mut self, peer: &str) -> Step {
        let peer = PeerAddress::Inet(peer.parse().unwrap());
        let now = self.service.clock.tick;
        self.service.handshakes.as_mut().unwrap().begin(&peer, now)
    }

    /// The channel has turns when it is called, until it waits for nothing but its client.
    fn goes_on(&mut self) {
        let until = Instant::now() + Duration::from_secs(20);
        while self.channel.as_ref().is_some_and(Channel::is_queued) {
            assert!(Instant::now() < until, "it is called");
            self.channel.as_ref().unwrap().name_queued(&mut self.service, 7);
            self.waits_for_a_call();
            if self.service.called().contains(&7) {
                self.turn(false, false);
            }
        }
    }

    /// Waits until the worker is woken, or has chores.
    fn waits_for_a_call(&mut self) {
        let wakeup = self.service.wakeup().expect("clients speak TLS");
        let [_] = poll::wait_for([(wakeup, Interest::READABLE)], Some(20)).unwrap();
        self.service.clear_wakeup();
        self.service.begin_turn();
        self.service.do_chores();
    }

    /// Waits until all places are given back. The thread may be at work on something that was taken back.
    fn has_nothing_left(&mut self) {
        let until = Instant::now() + Duration::from_secs(20);
        while self.service.has_chores() {
            assert!(Instant::now() < until, "the place is given back");
            self.waits_for_a_call();
        }
    }

    /// The handshake, in pieces of this length, and a request.
    fn is_served(&mut self, hello: &[u8], length: usize) {
        let mut says = hello.to_vec();
        while !says.is_empty() {
            self.bring(&says, length);
            self.goes_on();
            says = self.take();
        }
        assert!(!self.client.is_handshaking(), "the handshake is complete");
        self.ask(&get("/a", ""), length);
        assert_eq!(body(self.take_all()), b"content");
    }
}

#[test]
fn a_handshake_is_computed_aside_while_others_want_the_worker() {
    let site = tempfile::tempdir().unwrap();
    fs::write(site.path().join("a"), "content").unwrap();
    for version in versions() {
        for length in [1, 7, usize::MAX] {
            let (mut world, hello) = World::new(site.path(), version.clone());
            world.is_busy();
            world.is_served(&hello, length);
            let counters = world.service.counters;
            assert_eq!((counters.tls_handshakes_aside.get(), counters.tls_handshakes.get()), (1, 1));
            assert!(counters.tls_handshake_cpu_us.get() > 0);
            world.has_nothing_left();
            world.end();
        }
    }
}

/// Other programs have the CPU, so the thread does not run. The worker then computes the answer itself.
#[test]
fn what_the_thread_is_late_with_is_computed_in_place() {
    let site = tempfile::tempdir().unwrap();
    fs::write(site.path().join("a"), "content").unwrap();
    for version in versions() {
        for length in [1, 7, usize::MAX] {
            let (mut world, hello) = World::new(site.path(), version.clone());
            world.is_busy();
            world.service.handshakes.as_mut().unwrap().get_no_time_aside();
            world.is_served(&hello, length);
            let counters = world.service.counters;
            assert_eq!((counters.tls_handshakes_aside.get(), counters.tls_handshakes.get()), (1, 1));
            world.end();
        }
    }
}

#[test]
fn nobody_waits_while_nobody_else_wants_the_worker() {
    let site = tempfile::tempdir().unwrap();
    fs::write(site.path().join("a"), "content").unwrap();
    let (mut world, hello) = World::new(site.path(), versions()[1].clone());
    world.is_served(&hello, usize::MAX);
    let counters = world.service.counters;
    assert_eq!((counters.tls_handshakes_begun.get(), counters.tls_handshakes_waited.get()), (1, 0));
    assert_eq!(counters.tls_handshakes_aside.get(), 0);
    world.end();
}

/// Three handshakes have places. The others of the same network wait, some of them until the queue has room.
#[test]
fn networks_share_the_places() {
    let site = tempfile::tempdir().unwrap();
    let (mut world, _) = World::new(site.path(), versions()[1].clone());
    world.is_busy();
    let mut held = Vec::new();
    for number in 0..3 {
        match world.begin_another(&format!("192.0.2.{number}:1")) {
            Step::Aside(handshake) => held.push(handshake),
            other => panic!("{other:?}"),
        }
    }
    for number in 0..300 {
        match world.begin_another(&format!("192.0.2.{}:2", number % 256)) {
            Step::Waits(handshake) => held.push(handshake),
            other => panic!("{other:?}"),
        }
    }
    let Step::Waits(newcomer) = world.begin_another("198.51.100.1:1") else { panic!("it displaces another") };
    let counters = world.service.counters;
    assert_eq!((counters.tls_handshakes_refused.get(), counters.tls_handshakes_waiting.get()), (0, 301));

    // The first that ends makes room for the newcomer, which has had nothing yet.
    let (handshakes, now) = (world.service.handshakes.as_mut().unwrap(), world.service.clock.tick);
    handshakes.give_up(held.remove(0));
    let Step::Aside(newcomer) = handshakes.go_on(newcomer, now) else { panic!("it is next") };
    handshakes.give_up(newcomer);
    let mut displaced = 0;
    for handshake in held {
        match handshakes.go_on(handshake, now) {
            Step::Refused => displaced += 1,
            Step::Waits(handshake) | Step::Aside(handshake) => handshakes.give_up(handshake),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((displaced, counters.tls_handshakes_waiting.get()), (1, 0));
    assert!(!world.service.has_chores());
    world.end();
}

#[test]
fn a_client_that_leaves_gives_its_place_back() {
    let site = tempfile::tempdir().unwrap();
    for version in versions() {
        let (mut world, hello) = World::new(site.path(), version);
        world.is_busy();
        world.bring(&hello, usize::MAX);
        assert!(world.channel.as_ref().unwrap().is_queued());
        // Its end is noticed before its handshake is complete.
        drop(std::mem::replace(&mut world.socket, UnixStream::pair().unwrap().0));
        world.turn(false, true);
        assert!(world.channel.is_none());
        assert_eq!(world.service.counters.tls_handshakes_given_up.get(), 1);
        world.has_nothing_left();
    }
}

#[test]
fn a_client_that_waits_too_long_is_closed() {
    let site = tempfile::tempdir().unwrap();
    let (mut world, hello) = World::new(site.path(), versions()[1].clone());
    world.is_busy();
    for number in 0..3 {
        assert!(matches!(world.begin_another(&format!("192.0.2.{number}:1")), Step::Aside(_)));
    }
    world.bring(&hello, usize::MAX);
    let channel = world.channel.as_mut().unwrap();
    assert!(channel.is_queued() && channel.is_bound());
    world.service.clock.tick = channel.deadline().expect("it has a deadline");
    let turn = channel.timeout(&mut world.service);
    assert!(
        matches!(turn, Some(crate::conversation::Turn::Close | crate::conversation::Turn::Reset)),
        "{turn:?}"
    );
    world.end();
    assert_eq!(world.service.counters.tls_handshakes_given_up.get(), 1);
}
