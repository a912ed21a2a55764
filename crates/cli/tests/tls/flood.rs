//! Floods of handshakes: clients that are served already go on, and so do those of other networks. Only
//! counters tell, not clocks.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use harness::client::request;
use harness::site::HELLO;
use harness::tools::{command, output, stdout};
use harness::variant::{Test, Variant, tests};
use harness::{eventually, sleep_ms};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::https::Https;

pub(crate) const TESTS: &[Test] = tests![
    Drivers: others_are_served_during_a_flood;
    Three: hellos_that_lead_nowhere, clients_asked_again, names_and_tickets_of_nobody;
];

/// Few handshakes may wait, so that a few clients are a flood.
const FEW: &str = "[handshakes]\nqueue = 2\nshare = 1\n";

/// A load generator, or another client, that runs until it is ended.
struct Load(Child);

impl Load {
    fn start(https: &Https, name: &str, arguments: &[&str]) -> Self {
        let mut lab = Command::new(env!("CARGO_BIN_EXE_sluicelab"));
        lab.current_dir(https.directory()).args(["load", &https.url("/hello.txt"), "--insecure"]);
        lab.args(["--may-wait=100", "--json", name]).args(arguments);
        let child = lab.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Self(child.expect("sluicelab starts"))
    }

    fn is_running(&mut self) -> bool {
        self.0.try_wait().expect("its state").is_none()
    }

    /// Ends the run, which then has results.
    fn end(mut self) {
        kill_process(Pid::from_child(&self.0), Signal::INT).expect("a signal");
        self.0.wait().expect("it ends");
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Clients of one network make full handshakes and nothing else. Meanwhile four clients of another network
/// ask on connections that they have, and one of a third network comes again and again.
fn others_are_served_during_a_flood(variant: &Variant) {
    let https = Https::start(variant, FEW);
    let kept = ["--connections=4", "--rate=200", "--duration=5min", "--source=127.0.0.1"];
    let kept = Load::start(&https, "kept.json", &kept);
    eventually("requests are answered", || https.server.count("requests") > 40);
    let flood = ["--connections=40", "--requests-per-connection=1", "--resumption=off", "--duration=1min"];
    let flood = Load::start(&https, "flood.json", &[&flood[..], &["--source=127.0.3.1-127.0.3.9"]].concat());
    eventually("there is a flood", || https.server.count("tls_handshakes_waited") > 0);
    let requests = || https.server.count("requests");
    let enough = requests() + 800;
    let mut came = 0;
    while requests() < enough {
        assert!(came < 1000, "clients that are served already go on");
        let options = ["--interface", "127.0.9.1", "--fail"];
        let got = output(&mut https.curl(&options, &[&https.url("/hello.txt")]));
        assert!(got.status.success(), "a client of another network gets in: {got:?}");
        came += 1;
        // A network that asks without a pause is a flood itself.
        sleep_ms(100);
    }
    drop(flood);
    assert!(came > 0, "it came during the flood");
    kept.end();
    let results = fs::read(https.directory().join("kept.json")).expect("results");
    let results: Value = serde_json::from_slice(&results).expect("JSON");
    let count = |of| results.pointer(of).and_then(Value::as_u64).expect("a number");
    // Workers with one client each close connections that make no progress while others wait.
    let most = if variant.serves_one_at_a_time() { count("/replies/count") / 10 } else { 0 };
    assert!(count("/calls/errors") <= most, "{results:#}");
    eventually("nobody waits", || https.server.count("tls_handshakes_waiting") == 0);
    https.get(&[], "/hello.txt");
}

/// Clients that send a first message and leave, or send it byte by byte, or leave in the middle of it.
fn hellos_that_lead_nowhere(variant: &Variant) {
    let https = Https::start(variant, FEW);
    let hello = first_message(&https, &[]);
    let connect = || TcpStream::connect(https.address).expect("a connection");
    for number in 0..60 {
        let mut client = connect();
        let length = if number % 3 == 0 { hello.len() / 2 } else { hello.len() };
        // Where it finds no place, its connection is reset.
        let _ = client.write_all(&hello[..length]);
    }
    eventually("they are gone", || https.server.count("tls_connections") == 0);
    for _ in 0..3 {
        let mut client = connect();
        client.set_nodelay(true).expect("a socket");
        for byte in &hello {
            client.write_all(&[*byte]).expect("it is taken");
        }
        let mut answer = [0];
        client.read_exact(&mut answer).expect("it is answered");
        assert_eq!(answer[0], HANDSHAKE);
    }
    eventually("they are gone", || https.server.count("tls_connections") == 0);
    assert_eq!(https.server.count("tls_handshakes_waiting"), 0);
    assert_eq!(https.get(&[], "/hello.txt"), HELLO.as_bytes());
}

/// The type of a record that carries a part of a handshake (RFC 8446 section 5.1).
const HANDSHAKE: u8 = 22;

/// The first message of a client with these options of openssl.
fn first_message(https: &Https, options: &[&str]) -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let to = listener.local_addr().expect("an address").to_string();
    let mut openssl = command(https.directory(), "openssl");
    openssl.args(["s_client", "-connect", &to]).args(options).stdin(Stdio::null()).stdout(Stdio::null());
    let mut client = Load(openssl.stderr(Stdio::null()).spawn().expect("openssl starts"));
    let (mut connection, _) = listener.accept().expect("it connects");
    let mut hello = vec![0; 5];
    connection.read_exact(&mut hello).expect("a record");
    let length = usize::from(u16::from_be_bytes([hello[3], hello[4]]));
    hello.resize(5 + length, 0);
    connection.read_exact(&mut hello[5..]).expect("the rest of the record");
    assert!(client.is_running(), "it waits for an answer");
    hello
}

/// A thousand clients each name another host, and the server has none of these. Others bring tickets that the
/// server has not sealed. Each gets a full handshake, and the server keeps nothing of it.
fn names_and_tickets_of_nobody(variant: &Variant) {
    let https = Https::start(variant, "");
    let asked = https.directory().join("asked");
    fs::write(&asked, request("GET", "/hello.txt", &[("Connection", "close")])).expect("a file");
    let mut openssl = command(https.directory(), "openssl");
    openssl.args(["s_client", "-connect", &https.address.to_string(), "-tls1_3", "-quiet"]);
    openssl.args(["-sess_out", "session", "-servername", "localhost"]);
    assert!(stdout(openssl.stdin(fs::File::open(&asked).expect("a file"))).ends_with(HELLO.as_bytes()));

    let is_answered = |hello: &[u8]| {
        let mut client = TcpStream::connect(https.address).expect("a connection");
        client.write_all(hello).expect("it is taken");
        let mut answer = [0];
        client.read_exact(&mut answer).expect("it is answered");
        assert_eq!(answer[0], HANDSHAKE);
    };
    let mut named = first_message(&https, &["-servername", "host-0000.example"]);
    let number = find(&named, b"0000.example");
    let mut with_ticket = first_message(&https, &["-sess_in", "session", "-servername", "localhost"]);
    // The extension with tickets is the last one, and its own head has 8 bytes (RFC 8446 section 4.2.11).
    let ticket = with_ticket.windows(2).rposition(|bytes| bytes == [0, 41]).expect("a ticket") + 8;
    let mut memory = 0;
    for at in 0..1000_u32 {
        named[number..number + 4].copy_from_slice(format!("{at:04}").as_bytes());
        is_answered(&named);
        if at % 10 == 0 {
            // A hundred times, so it is never the ticket that was sealed.
            with_ticket[ticket + 40] = with_ticket[ticket + 40].wrapping_add(1);
            is_answered(&with_ticket);
        }
        if at == 500 {
            memory = https.server.memory();
        }
    }
    eventually("they are gone", || https.server.count("tls_connections") == 0);
    assert!(https.server.memory() < memory + (1 << 20), "nothing is kept");
    assert_eq!((https.server.count("tls_handshakes"), https.server.count("tls_resumed")), (1, 0));
    assert_eq!(https.get(&[], "/hello.txt"), HELLO.as_bytes());
}

/// Where these bytes are.
fn find(bytes: &[u8], what: &[u8]) -> usize {
    bytes.windows(what.len()).position(|window| window == what).expect("it is there")
}

/// A client whose first message offers no key that the server can use is asked for another one. Both
/// messages need a place.
fn clients_asked_again(variant: &Variant) {
    let https = Https::start(variant, FEW);
    let mut openssl = command(https.directory(), "openssl");
    openssl.args(["s_client", "-connect", &https.address.to_string(), "-CAfile", "authority.pem"]);
    openssl.args(["-servername", "localhost", "-quiet", "-verify_return_error"]);
    openssl.args(["-groups", "ffdhe2048:X25519", "-tls1_3"]);
    let asked = https.directory().join("asked");
    fs::write(&asked, request("GET", "/hello.txt", &[("Connection", "close")])).expect("a file");
    openssl.stdin(fs::File::open(&asked).expect("a file"));
    let reply = stdout(&mut openssl);
    assert!(reply.ends_with(HELLO.as_bytes()), "{}", String::from_utf8_lossy(&reply));
    assert_eq!(https.server.count("tls_handshakes"), 1);
    // The second one comes behind a message that only keeps up appearances (RFC 8446 appendix D.4), with it
    // or after it.
    let begun = https.server.count("tls_handshakes_begun");
    assert!((2..=3).contains(&begun), "{begun}");
}
