//! TLS between a client and a conversation, whatever way the bytes come in: cut anywhere, changed, not taken,
//! ended without a word.

mod waiting;

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use rustls::client::ClientSide;
use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, Connection, RootCertStore, SliceInput, Tcp};
use sys::socket::{self, PeerAddress};

use super::MOST_AT_ONCE;
use crate::access_log::AccessLogs;
use crate::channel::{Channel, Client};
use crate::config::{Settings, TrustedProxy};
use crate::content::{Content, MayBlock, Resolvers};
use crate::conversation::Turn;
use crate::counters::Counters;
use crate::queues::{Lines, Queues};
use crate::service::Service;
use crate::tls::{TlsTerms, Vault, provider, read_all};

/// The versions of TLS, as cryptography that has cipher suites for one of them only.
fn versions() -> [CryptoProvider; 2] {
    let (mut tls12, mut tls13) = (provider().as_ref().clone(), provider().as_ref().clone());
    tls12.tls13_cipher_suites = (&[]).into();
    tls13.tls12_cipher_suites = (&[]).into();
    [tls12, tls13]
}

/// A client, and the other side of its connection.
struct World {
    /// `None`: the connection has ended.
    channel: Option<Channel>,
    service: Service,
    socket: UnixStream,
    client: Connection<ClientSide, Tcp>,
    /// What the client has received and not opened.
    sealed: Vec<u8>,
    /// What the client has opened.
    opened: Vec<u8>,
    /// The server has said that nothing more comes.
    is_told_the_end: bool,
}

impl World {
    /// A client that speaks this version, and what it says first.
    fn new(root: &Path, version: CryptoProvider) -> (Self, Vec<u8>) {
        let mut settings = Settings::new(root.to_owned());
        settings.tls.self_signed = true;
        settings.tls.listen = settings.listen.clone();
        settings.trusted_proxies = vec![TrustedProxy::Unix];
        Self::of(&settings, version, false)
    }

    fn of(settings: &Settings, version: CryptoProvider, is_announced: bool) -> (Self, Vec<u8>) {
        let vault = Vault::new().unwrap();
        vault.tickets().begin();
        let texts = read_all(settings).unwrap();
        vault.publish(&texts).unwrap();
        let mut roots = RootCertStore::empty();
        let certificate =
            <rustls::pki_types::CertificateDer<'_> as rustls::pki_types::pem::PemObject>::from_pem_slice(
                &texts[0].chain,
            )
            .unwrap();
        roots.add(certificate).unwrap();
        let config = ClientConfig::builder(Arc::new(version)).with_root_certificates(roots);
        let config = Arc::new(config.with_no_client_auth().unwrap());
        let mut hello = Vec::new();
        let client = config.connect("localhost".try_into().unwrap()).build(&mut hello).unwrap();

        let sites = settings.all_sites();
        let resolvers = Arc::new(Resolvers::new(&sites).unwrap());
        let content = Content::new(resolvers, &sites, 10, settings.limits.ranges);
        let counters: &'static Counters = Box::leak(Box::default());
        let queue_handle = Queues::new(settings, 1, 0, &mut Lines::default()).unwrap().queue_handle(0);
        let mut service =
            Service::new(content, settings, counters, AccessLogs::default(), None, queue_handle).unwrap();
        service.tls_terms = TlsTerms::new(settings, &vault).unwrap().map(Arc::new);
        let (socket, other) = UnixStream::pair().unwrap();
        for end in [&socket, &other] {
            end.set_nonblocking(true).unwrap();
        }
        let accepted = Client {
            socket: other.into(),
            peer: PeerAddress::Unix,
            is_announced,
            speaks_tls: true,
            waited_ms: None,
        };
        let channel = Channel::new(accepted, &service);
        let (sealed, opened) = (Vec::new(), Vec::new());
        let (channel, is_told_the_end) = (Some(channel), false);
        (Self { channel, service, socket, client, sealed, opened, is_told_the_end }, hello)
    }

    /// The server works until it waits, or ends the connection.
    fn turn(&mut self, readable: bool, hung_up: bool) {
        let Some(channel) = &mut self.channel else { return };
        channel.note(readable, true, hung_up);
        loop {
            match channel.work(&mut self.service) {
                Turn::Unfinished => {}
                Turn::Close | Turn::Reset => return self.end(),
                _ => return,
            }
        }
    }

    /// The server ends the connection.
    fn end(&mut self) {
        if let Some(channel) = self.channel.take() {
            channel.end(&mut self.service);
        }
    }

    /// How many bytes the server keeps because the client has not taken them.
    fn kept(&self) -> usize {
        let tls = self.channel.as_ref().and_then(|channel| channel.tls.as_ref());
        tls.map_or(0, |tls| tls.leaving.len() - tls.left)
    }

    /// Sends bytes to the server in pieces of this length, each in a turn of its own.
    fn bring(&mut self, bytes: &[u8], length: usize) {
        for piece in bytes.chunks(length) {
            if self.channel.is_some() {
                self.socket.write_all(piece).unwrap();
                self.turn(true, false);
            }
        }
    }

    /// Takes what the server has sent. Returns what the client answers.
    fn take(&mut self) -> Vec<u8> {
        // The read fails with `WouldBlock` when the socket is empty.
        let _ = self.socket.read_to_end(&mut self.sealed);
        let mut answer = Vec::new();
        let mut input = SliceInput::new(&mut self.sealed);
        let mut records = self.client.read_tls(&mut input, &mut answer);
        while let Some(payload) = records.next_payload() {
            self.opened.extend_from_slice(payload.expect("the server keeps the rules").bytes());
        }
        self.is_told_the_end |= records.state().peer_has_closed();
        let used = input.into_used();
        self.sealed.drain(..used);
        answer
    }

    /// The handshake, in pieces of this length.
    fn shake_hands(&mut self, hello: &[u8], length: usize) {
        let mut says = hello.to_vec();
        while !says.is_empty() {
            self.bring(&says, length);
            says = self.take();
        }
        assert!(!self.client.is_handshaking(), "the handshake is complete");
    }

    /// Sends a request in pieces of this length.
    fn ask(&mut self, request: &str, length: usize) {
        let mut sealed = Vec::new();
        self.client.write(request.as_bytes().into(), &mut sealed).unwrap();
        self.bring(&sealed, length);
    }

    /// Takes the rest of what the server sends.
    fn take_all(&mut self) -> &[u8] {
        loop {
            let before = self.opened.len();
            let answer = self.take();
            self.bring(&answer, usize::MAX);
            if self.opened.len() == before && answer.is_empty() {
                return &self.opened;
            }
            self.turn(false, false);
        }
    }
}

/// What TLS itself has to say is sent while the disk is waited for, and the client is gone.
#[test]
fn a_connection_that_breaks_during_a_wait_gets_no_answer() {
    let site = tempfile::tempdir().unwrap();
    let (mut world, hello) = World::new(site.path(), versions()[1].clone());
    world.shake_hands(&hello, usize::MAX);
    world.service.may_block = MayBlock::Never;
    world.ask(&get("/not-in-memory", ""), usize::MAX);
    let channel = world.channel.as_mut().unwrap();
    assert!(channel.conversation.waits_for_disk().is_some());
    channel.has_sent(&mut world.service, Err(io::ErrorKind::BrokenPipe.into()));
    channel.conversation.disk_has_failed(&mut world.service);
    world.turn(false, false);
    assert!(world.channel.is_none());
    assert_eq!(world.service.counters.requests.get(), 1);
}

fn get(path: &str, more: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n")
}

fn body(reply: &[u8]) -> &[u8] {
    let at = reply.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head");
    &reply[at + 4..]
}

/// Bytes that differ from their neighbours.
fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + at / 251) as u8).collect()
}

#[test]
fn bytes_may_come_cut_anywhere() {
    let site = tempfile::tempdir().unwrap();
    fs::write(site.path().join("a"), "content").unwrap();
    for version in versions() {
        for length in [1, 2, 3, 5, 7, 64, 1000, usize::MAX] {
            let (mut world, hello) = World::new(site.path(), version.clone());
            world.shake_hands(&hello, length);
            world.ask(&get("/a", ""), length);
            assert_eq!(body(world.take_all()), b"content", "in pieces of {length}");
            assert!(!world.is_told_the_end && world.channel.is_some());
            world.opened.clear();
            world.ask(&get("/a", "Connection: close\r\n"), length);
            assert_eq!(body(world.take_all()), b"content");
            assert!(world.is_told_the_end, "the end is said");
            let counters = world.service.counters;
            assert_eq!((counters.tls_handshakes.get(), counters.tls_failures.get()), (1, 0));
            world.end();
        }
    }
}

#[test]
fn files_of_any_length_come_whole() {
    let site = tempfile::tempdir().unwrap();
    let lengths = [0, 1, 100, 16_383, 16_384, 16_385, 65_535, 65_536, 65_537, 200_000, 1_000_000];
    for version in versions() {
        let (mut world, hello) = World::new(site.path(), version);
        world.shake_hands(&hello, usize::MAX);
        for length in lengths {
            let file = content(length);
            fs::write(site.path().join(length.to_string()), &file).unwrap();
            world.opened.clear();
            world.ask(&get(&format!("/{length}"), ""), usize::MAX);
            assert!(body(world.take_all()) == file, "{length} bytes");
        }
        world.opened.clear();
        world.ask(&get("/200000", "Range: bytes=99999-165535\r\n"), usize::MAX);
        assert!(body(world.take_all()) == &content(200_000)[99_999..=165_535]);
        world.end();
    }
}

#[test]
fn several_requests_may_come_in_one_record_and_one_in_several() {
    let site = tempfile::tempdir().unwrap();
    fs::write(site.path().join("a"), "content").unwrap();
    for version in versions() {
        let (mut world, hello) = World::new(site.path(), version);
        world.shake_hands(&hello, usize::MAX);
        world.ask(&get("/a", "").repeat(50), usize::MAX);
        let text = String::from_utf8(world.take_all().to_vec()).unwrap();
        assert_eq!(text.matches("\r\n\r\ncontent").count(), 50);
        world.opened.clear();
        let mut sealed = Vec::new();
        for byte in get("/a", "").bytes() {
            world.client.write((&[byte]).into(), &mut sealed).unwrap();
        }
        world.bring(&sealed, usize::MAX);
        assert_eq!(body(world.take_all()), b"content");
        world.end();
    }
}

/// Whatever is changed, nothing is answered but an alert.
#[test]
fn changed_bytes_end_the_connection() {
    let site = tempfile::tempdir().unwrap();
    fs::write(site.path().join("a"), "content").unwrap();
    for version in versions() {
        let (mut world, hello) = World::new(site.path(), version.clone());
        for at in (0..hello.len()).step_by(7) {
            let (mut other, mut changed) = World::new(site.path(), version.clone());
            let at = at.min(changed.len() - 1);
            changed[at] ^= 0x55;
            other.bring(&changed, usize::MAX);
            // What is changed may be something that the server need not look at.
            assert!(other.service.counters.tls_handshakes.get() == 0);
            other.end();
        }
        world.shake_hands(&hello, usize::MAX);
        let mut sealed = Vec::new();
        world.client.write(get("/a", "").as_bytes().into(), &mut sealed).unwrap();
        *sealed.last_mut().unwrap() ^= 1;
        world.bring(&sealed, usize::MAX);
        assert!(world.channel.is_none() && world.service.counters.tls_failures.get() == 1);
        assert_eq!(world.service.counters.requests.get(), 0);
        world.end();
    }
}

#[test]
fn a_client_that_takes_nothing_makes_the_server_keep_little() {
    let site = tempfile::tempdir().unwrap();
    let file = content(3_000_000);
    fs::write(site.path().join("large"), &file).unwrap();
    for version in versions() {
        let (mut world, hello) = World::new(site.path(), version);
        world.shake_hands(&hello, usize::MAX);
        world.ask(&get("/large", ""), usize::MAX);
        world.ask(&get("/large", ""), usize::MAX);
        let kept = world.kept();
        assert!((1..MOST_AT_ONCE + 1000).contains(&kept), "{kept} bytes");
        assert!(world.channel.as_ref().unwrap().waits_for().1, "it waits for room");
        let taken = world.take_all();
        assert!(body(taken)[..file.len()] == file && taken.len() > 2 * file.len());
        let tls = world.channel.as_ref().unwrap().tls.as_ref().unwrap();
        assert_eq!(tls.leaving.capacity() + tls.partial.capacity(), 0, "an idle connection keeps nothing");
        world.end();
    }
}

/// TLS 1.2 has no changes of keys.
#[test]
fn a_client_may_change_keys_in_mid_reply() {
    let site = tempfile::tempdir().unwrap();
    let file = content(3_000_000);
    fs::write(site.path().join("large"), &file).unwrap();
    fs::write(site.path().join("a"), "content").unwrap();
    for length in [1, 7, usize::MAX] {
        let (mut world, hello) = World::new(site.path(), versions()[1].clone());
        world.shake_hands(&hello, length);
        for round in 0..5 {
            world.opened.clear();
            world.ask(&get("/large", ""), length);
            assert!(world.kept() > 0, "the reply is under way");
            let mut update = Vec::new();
            world.client.refresh_traffic_keys(&mut update).unwrap();
            // There is none while the server has not answered the one before.
            assert!(!update.is_empty(), "pieces of {length}, change {round}");
            world.bring(&update, length);
            world.ask(&get("/a", ""), length);
            let taken = world.take_all();
            assert!(body(taken)[..file.len()] == file && taken.ends_with(b"content"));
        }
        assert_eq!(world.service.counters.tls_failures.get(), 0);
        world.end();
    }
}

#[test]
fn an_end_that_is_said_is_one_and_others_are_cuts() {
    let site = tempfile::tempdir().unwrap();
    fs::write(site.path().join("large"), content(3_000_000)).unwrap();
    for version in versions() {
        for is_said in [true, false] {
            let (mut world, hello) = World::new(site.path(), version.clone());
            world.shake_hands(&hello, usize::MAX);
            world.ask(&get("/large", ""), usize::MAX);
            let mut end = Vec::new();
            if is_said {
                world.client.send_close_notify(&mut end).unwrap();
            }
            world.bring(&end, usize::MAX);
            world.socket.shutdown(Shutdown::Write).unwrap();
            world.turn(true, true);
            // The reply that is under way is sent to a client that sends no more.
            assert_eq!(body(world.take_all()).len(), 3_000_000);
            assert!(world.is_told_the_end);
            world.end();
        }
        // What is cut off does not look complete.
        let (mut world, hello) = World::new(site.path(), version);
        world.shake_hands(&hello, usize::MAX);
        world.ask(&get("/large", ""), usize::MAX);
        world.end();
        world.take();
        assert!(!world.is_told_the_end && body(&world.opened).len() < 3_000_000);
    }
}

/// A client that has left in mid reply, and reads on, must not take what it has for the whole.
#[test]
fn a_reply_that_is_broken_off_has_no_end() {
    let site = tempfile::tempdir().unwrap();
    fs::write(site.path().join("large"), content(3_000_000)).unwrap();
    for version in versions() {
        let (mut world, hello) = World::new(site.path(), version);
        world.shake_hands(&hello, usize::MAX);
        world.ask(&get("/large", ""), usize::MAX);
        world.channel.as_mut().unwrap().machine().send_failed();
        world.end();
        world.take();
        assert!(!world.is_told_the_end && !world.opened.is_empty());
    }
}

/// A client that makes no room for the end is not waited for.
#[test]
fn an_end_without_room_has_a_deadline() {
    let site = tempfile::tempdir().unwrap();
    fs::write(site.path().join("a"), "content").unwrap();
    let (mut world, hello) = World::new(site.path(), versions()[1].clone());
    world.shake_hands(&hello, usize::MAX);
    world.ask(&get("/a", ""), usize::MAX);
    world.take_all();
    let channel = world.channel.as_mut().unwrap();
    while socket::send(&channel.socket, &[0; 100]).is_ok() {}
    assert!(channel.close_if_idle());
    assert!(matches!(channel.work(&mut world.service), Turn::Blocked));
    let due = channel.deadline().expect("a deadline");
    assert!(channel.timeout(&mut world.service).is_none(), "not yet");
    world.service.clock.tick = due;
    assert!(matches!(channel.timeout(&mut world.service), Some(Turn::Close)));
    world.end();
}

#[test]
fn half_an_announcement_is_not_waited_for_at_the_end() {
    let mut settings = Settings::new("/".into());
    settings.tls.self_signed = true;
    settings.tls.listen = settings.listen.clone();
    settings.trusted_proxies = vec![TrustedProxy::Unix];
    let (mut world, _) = World::of(&settings, versions()[1].clone(), true);
    world.bring(b"PROXY TCP4 198.51.", usize::MAX);
    assert!(world.channel.is_some());
    world.socket.shutdown(Shutdown::Write).unwrap();
    world.turn(true, true);
    assert!(world.channel.is_none() && world.service.counters.proxy_headers_refused.get() == 1);
    // What follows an announcement may come later, and may be no TLS.
    let (mut world, _) = World::of(&settings, versions()[1].clone(), true);
    world.bring(b"PROXY TCP4 198.51.100.7 127.0.0.1 4660 443\r\n", usize::MAX);
    world.bring(get("/", "").as_bytes(), usize::MAX);
    let mut told = String::new();
    let _ = world.socket.read_to_string(&mut told);
    assert!(told.starts_with("HTTP/1.1 400 "), "{told}");
    world.end();
}

#[test]
fn http_without_tls_is_told_so() {
    let site = tempfile::tempdir().unwrap();
    let (mut world, _) = World::new(site.path(), versions()[1].clone());
    world.bring(get("/", "").as_bytes(), usize::MAX);
    let mut reply = String::new();
    let _ = world.socket.read_to_string(&mut reply);
    assert!(reply.starts_with("HTTP/1.1 400 ") && reply.contains("speaks TLS"), "{reply}");
    assert!(reply.contains("Connection: close\r\n"));
    world.end();
}

#[test]
fn a_proxy_names_its_client_before_the_handshake() {
    let site = tempfile::tempdir().unwrap();
    fs::write(site.path().join("a"), "content").unwrap();
    let mut settings = Settings::new(site.path().to_owned());
    settings.tls.self_signed = true;
    settings.tls.listen = settings.listen.clone();
    settings.trusted_proxies = vec![TrustedProxy::Unix];
    for length in [1, 10, usize::MAX] {
        let (mut world, hello) = World::of(&settings, versions()[1].clone(), true);
        let header = b"PROXY TCP4 198.51.100.7 127.0.0.1 4660 80\r\n";
        world.shake_hands(&[&header[..], &hello].concat(), length);
        world.ask(&get("/a", ""), length);
        assert_eq!(body(world.take_all()), b"content");
        assert_eq!(
            world.channel.as_ref().unwrap().peer(),
            &PeerAddress::Inet("198.51.100.7:4660".parse().unwrap())
        );
        world.end();
    }
}
