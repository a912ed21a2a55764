//! Where clients connect: several addresses, IPv6, Unix sockets, and sockets that somebody else has opened.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;

use rustix::process::Signal;

use harness::client::{one, request};
use harness::server::{Setup, parse_address};
use harness::site::HELLO;
use harness::variant::{Test, Variant, tests};
use harness::{TIMEOUT, eventually};

pub(crate) const TESTS: &[Test] = tests![
    Each: what_is_said, several_addresses, unix_socket;
    Three: inherited, descriptors_through_a_unix_socket;
    One: files_of_unix_sockets, stale_unix_socket;
];

/// `listening on http://127.0.0.1:40113/ (n-copy, 2 workers, /srv/www)`
fn what_is_said(variant: &Variant) {
    let server = Setup::new(variant).start();
    let line = server.wait_for_line(|line| line.starts_with("listening on http://"));
    let architecture = variant.options[0].trim_start_matches("--architecture=");
    let start = format!("listening on http://{}/ ({architecture}", server.address);
    assert!(line.starts_with(&start) && line.ends_with(&format!("{})", server.root().display())), "{line}");
}

fn several_addresses(variant: &Variant) {
    let setup = Setup::new(variant).argument("--listen=127.0.0.1:0").argument("--listen=127.0.0.2:0");
    let server = setup.argument("--listen=[::1]:0").start();
    for address in ["127.0.0.1:", "127.0.0.2:", "[::1]:"] {
        let line = server.wait_for_line(|line| line.starts_with(&format!("listening on http://{address}")));
        let address = parse_address(&line).expect("an address");
        assert_eq!(one(address, request("GET", "/hello.txt", &[])).text(), HELLO, "{address}");
    }
}

fn fetch_unix(path: &std::path::Path) -> String {
    let mut stream = UnixStream::connect(path).expect("a socket");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    stream
        .write_all(request("GET", "/hello.txt", &[("Connection", "close")]).as_bytes())
        .expect("it takes requests");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("text");
    reply
}

fn unix_socket(variant: &Variant) {
    let setup = Setup::new(variant);
    let path = setup.directory().join("socket");
    let listen = format!("--listen=unix:{}", path.display());
    let server = setup.argument("--listen=127.0.0.1:0").argument(&listen).start();
    server.wait_for_line(|line| line.starts_with("listening on ") && line.contains("socket"));
    let reply = fetch_unix(&path);
    assert!(reply.starts_with("HTTP/1.1 200 ") && reply.ends_with(HELLO), "{reply}");
    assert_eq!(server.get("/hello.txt").status, 200);
}

/// A read ends behind what has a descriptor with it, and more may be there: the rest of the request, which is
/// not to be waited for.
fn descriptors_through_a_unix_socket(variant: &Variant) {
    let setup = Setup::new(variant);
    let path = setup.directory().join("socket");
    let listen = format!("--listen=unix:{}", path.display());
    let server = setup.argument("--listen=127.0.0.1:0").argument(listen).start();
    // What starting and the first request of each worker open is no part of what is counted.
    server.warm_up();
    let open = || server.count("connections_opened") - server.count("connections_closed");
    eventually("its clients are gone", || open() == 0);
    let mut stream = UnixStream::connect(&path).expect("a socket");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    let mut reply = String::new();
    let request = request("GET", "/hello.txt", &[]);
    stream.write_all(request.as_bytes()).expect("it takes requests");
    while !reply.ends_with(HELLO) {
        let mut piece = [0; 1000];
        let count = stream.read(&mut piece).expect("a reply");
        reply.push_str(str::from_utf8(&piece[..count]).expect("text"));
    }
    let descriptors = server.descriptors();
    // All of it is there when the server looks.
    server.stop_all();
    for piece in request.replacen("Host", "Connection: close\r\nHost", 1).as_bytes().chunks(10) {
        let sent = sys::socket::send_with(&stream, &[sys::socket::Slice::new(piece)], stream.as_fd());
        assert_eq!(sent.expect("there is room"), piece.len());
    }
    server.signal_all(Signal::CONT);
    reply.clear();
    stream.read_to_string(&mut reply).expect("a reply");
    assert!(reply.starts_with("HTTP/1.1 200 ") && reply.ends_with(HELLO), "{reply}");
    eventually("descriptors are closed", || server.descriptors() < descriptors);
}

/// Whoever the umask is for: a web server in front, with a user of its own, can connect; nobody else sees the
/// status.
fn files_of_unix_sockets(variant: &Variant) {
    let root = rustix::process::geteuid().is_root();
    let owner = if root { "\nowner = \"nobody\"" } else { "" };
    let changed = format!("[unix_sockets]\nmode = \"0620\"\n[status_socket]\nmode = \"660\"{owner}");
    for (config, modes, given_away) in [("", (0o666, 0o600), false), (changed.as_str(), (0o620, 0o660), root)]
    {
        let setup = Setup::new(variant).config(config);
        let [clients, status] = ["socket", "status"].map(|name| setup.directory().join(name));
        let listen = format!("--listen=unix:{}", clients.display());
        let server = setup.argument("--listen=127.0.0.1:0").argument(&listen).start();
        server.wait_for_line(|line| line.starts_with("status on "));
        let [clients_file, status_file] = [&clients, &status].map(|path| path.metadata().expect("a socket"));
        assert_eq!((clients_file.mode() & 0o7777, status_file.mode() & 0o7777), modes);
        assert_eq!(clients_file.uid() != status_file.uid(), given_away);
        assert!(fetch_unix(&clients).ends_with(HELLO));
    }
}

/// What a server that was killed has left behind does not keep the next from starting; a living one does.
fn stale_unix_socket(variant: &Variant) {
    let setup = Setup::new(variant);
    let path = setup.directory().join("socket");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
    assert!(path.metadata().expect("it is left behind").file_type().is_socket());
    let listen = format!("--listen=unix:{}", path.display());
    let server = setup.argument("--listen=127.0.0.1:0").argument(&listen).start();
    server.wait_for_line(|line| line.starts_with("listening on ") && line.contains("socket"));
    assert!(fetch_unix(&path).ends_with(HELLO));
    let second = Setup::new(variant).argument(&listen).command().output().expect("sluice runs");
    let told = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(second.status.code() == Some(1) && told.contains("socket"), "{told}");
    assert!(fetch_unix(&path).ends_with(HELLO), "the first one goes on");
}

/// As systemd does it: descriptors from 3 on, for the process that `LISTEN_PID` names.
fn inherited(variant: &Variant) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    let setup = Setup::new(variant);
    let command = setup.command_with(&listener);
    let server = setup.start_as(command);
    assert_eq!(server.address, address);
    assert_eq!(server.get("/hello.txt").text(), HELLO);
}
