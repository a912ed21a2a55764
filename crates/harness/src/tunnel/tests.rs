//! The tunnel in front of small servers that do one thing each.

use std::sync::mpsc::{self, Receiver};

use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::*;
use crate::TIMEOUT;
use crate::authority::{Authority, Issued};
use crate::client::{Broken, Client};
use crate::site::pattern;

type Peer = StreamOwned<ServerConnection, TcpStream>;

/// A server whose connections are served in a thread each. What `serve` returns is received.
fn server<R: Send + 'static>(serve: impl Fn(Peer) -> R + Send + Sync + 'static) -> (SocketAddr, Receiver<R>) {
    let Issued { certificate, key } = Authority::create().issue(&["127.0.0.1"]);
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&TLS12, &TLS13])
        .expect("the provider has them")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.into())
        .expect("a right certificate");
    let config = Arc::new(config);
    plain_server(move |stream| {
        SockRef::from(&stream).set_send_buffer_size(BUFFER).expect("an option of sockets");
        let connection = ServerConnection::new(Arc::clone(&config)).expect("a right configuration");
        serve(StreamOwned::new(connection, stream))
    })
}

fn plain_server<R: Send + 'static>(
    serve: impl Fn(TcpStream) -> R + Send + Sync + 'static,
) -> (SocketAddr, Receiver<R>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    let (served, results) = mpsc::channel();
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.expect("a connection");
            stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
            let (serve, served) = (Arc::clone(&serve), served.clone());
            thread::spawn(move || served.send(serve(stream)));
        }
    });
    (address, results)
}

fn read_to_end(peer: &mut Peer) -> Vec<u8> {
    let mut got = Vec::new();
    peer.read_to_end(&mut got).expect("the client's `close_notify`");
    got
}

fn end(peer: &mut Peer) {
    peer.conn.send_close_notify();
    peer.flush().expect("the tunnel takes it");
}

/// Sends everything back when the client has ended. A client may also reset its connection.
fn echo(mut peer: Peer) {
    let mut got = Vec::new();
    if peer.read_to_end(&mut got).is_err() {
        return;
    }
    peer.write_all(&got).expect("the tunnel takes it");
    end(&mut peer);
}

fn all_comes_back(mut client: Client, bytes: &[u8]) {
    client.send(bytes);
    client.half_close();
    let back = client.read_raw(usize::MAX).expect("a good end");
    assert!(back == bytes, "{} of {} bytes", back.len(), bytes.len());
}

#[test]
fn bytes_and_ends_pass_in_both_directions() {
    let (address, _served) = server(echo);
    for version in [&TLS13, &TLS12] {
        let tunnel = Tunnel::start(address, &[version]);
        all_comes_back(Client::connect(tunnel.address()), &pattern(1, 2_000_000));
        all_comes_back(Client::connect_narrow(tunnel.address()), &pattern(2, 200_000));
        all_comes_back(Client::connect(tunnel.address()), b"");
        // As clients in other processes connect.
        let stream = TcpStream::connect(tunnel.address()).expect("it listens");
        all_comes_back(Client::over(stream), &pattern(3, 100_000));
    }
}

#[test]
fn many_clients_at_a_time() {
    let (address, _served) = server(echo);
    let tunnel = Tunnel::start(address, &[&TLS13]);
    let mut clients: Vec<Client> = (0..100).map(|_| Client::connect(tunnel.address())).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(pattern(number as u64, number * 100));
    }
    // Those that leave early disturb no other.
    clients.drain(50..).for_each(Client::reset);
    for (number, mut client) in clients.into_iter().enumerate() {
        client.half_close();
        assert!(client.read_raw(usize::MAX) == Ok(pattern(number as u64, number * 100)), "{number}");
    }
    assert!(crate::client::connect(tunnel.address()).is_ok());
}

#[test]
fn an_end_of_replies_is_no_end_of_requests() {
    let (address, served) = server(|mut peer| {
        peer.read_exact(&mut [0]).expect("a byte");
        end(&mut peer);
        peer.sock.shutdown(Shutdown::Write).expect("it is connected");
        read_to_end(&mut peer)
    });
    let tunnel = Tunnel::start(address, &[&TLS13]);
    let mut client = Client::connect(tunnel.address());
    client.send("x");
    assert_eq!(client.read_raw(1), Ok(vec![]));
    client.send("more");
    client.half_close();
    assert_eq!(served.recv_timeout(TIMEOUT).expect("it ends"), b"more");
}

#[test]
fn an_end_without_close_notify_is_a_reset() {
    let (address, _served) = server(|mut peer| {
        peer.read_exact(&mut [0]).expect("a byte");
        peer.write_all(&pattern(1, 30_000)).expect("the tunnel takes it");
        peer.flush().expect("the tunnel takes it");
    });
    for version in [&TLS13, &TLS12] {
        let tunnel = Tunnel::start(address, &[version]);
        let mut client = Client::connect(tunnel.address());
        client.send("x");
        assert!(client.read_raw(30_000) == Ok(pattern(1, 30_000)));
        assert_eq!(client.read_raw(1), Err(Broken::Reset));
    }
}

#[test]
fn resets_pass_in_both_directions() {
    let (address, _served) = server(|mut peer| {
        peer.read_exact(&mut [0]).expect("a byte");
        reset_when_dropped(&peer.sock);
    });
    let tunnel = Tunnel::start(address, &[&TLS13]);
    let mut client = Client::connect(tunnel.address());
    client.send("x");
    assert_eq!(client.read_raw(1), Err(Broken::Reset));

    let (begun, has_begun) = mpsc::channel();
    let (address, served) = server(move |mut peer| {
        peer.read_exact(&mut [0]).expect("a byte");
        begun.send(()).expect("the test waits");
        peer.read(&mut [0]).map_err(|error| error.kind())
    });
    let tunnel = Tunnel::start(address, &[&TLS13]);
    let mut client = Client::connect(tunnel.address());
    client.send("x");
    has_begun.recv_timeout(TIMEOUT).expect("it comes");
    client.reset();
    assert_eq!(served.recv_timeout(TIMEOUT).expect("it ends"), Err(ErrorKind::ConnectionReset));
}

/// More than all buffers on the way hold.
const MUCH: usize = 1 << 20;

/// How long something must not move before it counts as stuck.
const QUIET: Duration = Duration::from_millis(500);

/// Writes until nothing more is taken, and returns how many bytes were.
fn fill(stream: &mut impl io::Write) -> usize {
    let mut count = 0;
    let bytes = pattern(1, MUCH);
    while count < MUCH {
        match stream.write(&bytes[count..][..1000.min(MUCH - count)]) {
            Ok(taken) => count += taken,
            Err(error) if is_for_later(&error) => break,
            Err(error) => panic!("{error}"),
        }
    }
    count
}

#[test]
fn the_server_waits_for_a_slow_client() {
    let (filled, is_filled) = mpsc::channel();
    let (address, _served) = server(move |mut peer| {
        peer.read_exact(&mut [0]).expect("a byte");
        // It reads as well, when it can't write.
        peer.sock.set_read_timeout(Some(QUIET)).expect("a timeout");
        peer.sock.set_write_timeout(Some(QUIET)).expect("a timeout");
        filled.send(fill(&mut peer)).expect("the test waits");
        peer.sock.set_write_timeout(None).expect("no timeout");
        end(&mut peer);
    });
    let tunnel = Tunnel::start(address, &[&TLS13]);
    let mut client = Client::connect_narrow(tunnel.address());
    client.send("x");
    let count = is_filled.recv_timeout(TIMEOUT).expect("it writes");
    assert!(count < MUCH, "it was never full");
    let got = client.read_raw(usize::MAX).expect("a good end");
    assert!(got == pattern(1, MUCH)[..count], "{} of {count} bytes", got.len());
}

#[test]
fn the_client_waits_for_a_slow_server() {
    let (go_on, goes_on) = mpsc::channel();
    let goes_on = Mutex::new(goes_on);
    let (address, served) = server(move |mut peer| {
        peer.read_exact(&mut [0]).expect("a byte");
        goes_on.lock().expect("one waits").recv_timeout(TIMEOUT).expect("the test goes on");
        read_to_end(&mut peer)
    });
    let tunnel = Tunnel::start(address, &[&TLS13]);
    let mut client = Client::connect(tunnel.address());
    SockRef::from(&client.stream).set_send_buffer_size(BUFFER).expect("an option of sockets");
    client.send("x");
    client.stream.set_write_timeout(Some(QUIET)).expect("a timeout");
    let count = fill(&mut &client.stream);
    assert!(count < MUCH, "it was never full");
    go_on.send(()).expect("the server waits");
    client.half_close();
    let got = served.recv_timeout(TIMEOUT).expect("it ends");
    assert!(got == pattern(1, MUCH)[..count], "{} of {count} bytes", got.len());
}

#[test]
fn a_server_that_refuses_is_not_connected() {
    let free = crate::free_address();
    let tunnel = Tunnel::start(free, &[&TLS13]);
    let refused = crate::client::connect(tunnel.address()).map_err(|error| error.kind());
    assert_eq!(refused.err(), Some(ErrorKind::ConnectionRefused));
    // A client of another process can't know at once.
    let end = TcpStream::connect(tunnel.address()).and_then(|mut stream| stream.read(&mut [0]));
    assert_eq!(end.map_err(|error| error.kind()), Err(ErrorKind::ConnectionReset));
}

#[test]
fn what_is_no_tls_is_a_reset() {
    let (address, _served) = plain_server(|mut stream| {
        assert!(stream.read(&mut [0; 10_000]).expect("a greeting") > 0);
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").expect("the tunnel takes it");
        stream
    });
    let tunnel = Tunnel::start(address, &[&TLS13]);
    let mut client = Client::connect(tunnel.address());
    assert_eq!(client.read_raw(1), Err(Broken::Reset));
}

#[test]
fn ports_lead_to_clients() {
    let (told, is_told) = mpsc::channel();
    let (address, _served) = server(move |mut peer| {
        told.send(peer.sock.peer_addr().expect("an address").port()).expect("the test waits");
        read_to_end(&mut peer)
    });
    let tunnel = Tunnel::start(address, &[&TLS13]);
    let mut client = Client::connect(tunnel.address());
    let port = client.stream.local_addr().expect("an address").port();
    let seen = is_told.recv_timeout(TIMEOUT).expect("it is connected");
    assert_eq!(tunnel.client_of(seen), Some(port));
    assert_eq!(tunnel.client_of(port), None);
    // The server ends without `close_notify`, so that both ends are reset.
    client.half_close();
    assert_eq!(client.read_raw(1), Err(Broken::Reset));
    crate::eventually("it is forgotten", || tunnel.client_of(seen).is_none());
}

#[test]
fn the_end_of_a_tunnel_is_a_reset() {
    let (begun, has_begun) = mpsc::channel();
    let (address, served) = server(move |mut peer| {
        peer.read_exact(&mut [0]).expect("a byte");
        begun.send(()).expect("the test waits");
        peer.read(&mut [0]).map_err(|error| error.kind())
    });
    let tunnel = Tunnel::start(address, &[&TLS13]);
    let (mut client, address) = (Client::connect(tunnel.address()), tunnel.address());
    client.send("x");
    has_begun.recv_timeout(TIMEOUT).expect("it comes");
    drop(tunnel);
    assert_eq!(client.read_raw(1), Err(Broken::Reset));
    assert_eq!(served.recv_timeout(TIMEOUT).expect("it ends"), Err(ErrorKind::ConnectionReset));
    assert!(crate::client::connect(address).is_err());
}
