//! A tunnel to a server that speaks TLS. Its clients speak plain TCP, so every test of plain HTTP can run
//! over TLS as it is.
//!
//! A thread of this process relays. For each client it has a connection to the server:
//!
//! | one end | the other end |
//! |---|---|
//! | the client's FIN | `close_notify` and FIN, behind all bytes |
//! | the server's `close_notify` | FIN, behind all bytes |
//! | the server's FIN without `close_notify` | reset: a reply that was cut off must not look complete |
//! | the client's reset | reset |
//! | the server's reset, or a breach of TLS | reset, when the client has taken what came before |
//!
//! The tunnel has little room. It takes bytes from one end only when the other end has taken the bytes
//! before. So a slow client is as slow for the server as without the tunnel, but for [`BUFFER`].
//!
//! A client of this process connects with [`client::connect`](crate::client::connect). The server is then
//! connected first. So a client is refused, or waits, when it would without the tunnel. Any other client
//! is accepted at once, and is reset if the server refuses.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufRead as _, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, IpAddr, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, SupportedProtocolVersion,
};
use socket2::{Domain, SockRef, Socket, Type};

/// The size of each send buffer of the tunnel, before the kernel doubles it. Receive buffers are the
/// kernel's: 64 KiB of window, which grow only while the tunnel keeps up. A smaller one loses segments, as
/// the kernel counts what each of many short segments takes. A lost segment costs a fifth of a second.
pub const BUFFER: usize = 32 << 10;

/// How many bytes are taken from a client at a time: what fits into one record.
const PIECE: usize = 16 << 10;

/// How often one connection moves bytes before the others have their turn.
const ROUNDS: usize = 8;

/// The tunnels of this process, by the addresses for clients.
static TUNNELS: Mutex<BTreeMap<SocketAddr, Arc<Shared>>> = Mutex::new(BTreeMap::new());

/// A running tunnel. When it is dropped, its connections are reset.
pub struct Tunnel {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What the relay and the clients of this process share.
struct Shared {
    server: SocketAddr,
    /// Where a client of this process connects after the server is connected. The client accepts its other
    /// end itself, so nothing waits here.
    pairs: Mutex<TcpListener>,
    /// Clients whose servers are connected, until the relay takes them.
    newcomers: Mutex<Vec<(TcpStream, TcpStream)>>,
    /// A byte wakes the relay. The end of this stream ends it.
    wake: UnixStream,
    /// The clients' ports, by the ports that the server sees.
    ports: Mutex<HashMap<u16, u16>>,
}

impl Tunnel {
    /// Starts a tunnel to this server, which offers these versions of TLS. Any certificate is accepted.
    pub fn start(server: SocketAddr, versions: &[&'static SupportedProtocolVersion]) -> Self {
        let clients = listener();
        let address = clients.local_addr().expect("an address");
        clients.set_nonblocking(true).expect("an option of sockets");
        let (wake, woken) = UnixStream::pair().expect("a pair");
        for end in [&wake, &woken] {
            end.set_nonblocking(true).expect("an option of sockets");
        }
        let shared = Arc::new(Shared {
            server,
            pairs: Mutex::new(listener()),
            newcomers: Mutex::default(),
            wake,
            ports: Mutex::default(),
        });
        let config = Arc::new(config(versions));
        let relay = Relay { shared: Arc::clone(&shared), config, clients, woken, connections: Vec::new() };
        let thread = thread::Builder::new().name("tunnel".into()).spawn(move || relay.run());
        TUNNELS.lock().expect("nobody panics with it").insert(address, Arc::clone(&shared));
        Self { address, shared, thread: Some(thread.expect("a thread")) }
    }

    /// Where its clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The server that it leads to.
    pub fn server(&self) -> SocketAddr {
        self.shared.server
    }

    /// The port of the client whose connection comes to the server from this port.
    pub fn client_of(&self, port: u16) -> Option<u16> {
        self.shared.ports.lock().expect("nobody panics with it").get(&port).copied()
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        TUNNELS.lock().expect("nobody panics with it").remove(&self.address);
        let _ = self.shared.wake.shutdown(Shutdown::Both);
        // If the relay has panicked, it has said why.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Connects a socket to this address. If a tunnel of this process is there, its server is connected first.
pub(crate) fn connect(socket: &Socket, address: SocketAddr, within: Duration) -> io::Result<()> {
    let tunnel = TUNNELS.lock().expect("nobody panics with it").get(&address).cloned();
    match tunnel {
        Some(tunnel) => tunnel.connect(socket, within),
        None => socket.connect_timeout(&address.into(), within),
    }
}

impl Shared {
    fn connect(&self, socket: &Socket, within: Duration) -> io::Result<()> {
        let server = small(Socket::new(Domain::for_address(self.server), Type::STREAM, None)?);
        server.connect_timeout(&self.server.into(), within)?;
        let pairs = self.pairs.lock().expect("nobody panics with it");
        socket.connect(&pairs.local_addr()?.into())?;
        let (client, from) = pairs.accept()?;
        drop(pairs);
        let server = TcpStream::from(server);
        self.note(from.port(), &server);
        [&client, &server].into_iter().for_each(reset_when_dropped);
        self.newcomers.lock().expect("nobody panics with it").push((client, server));
        // If it can't take a byte, it has been woken, or has ended.
        let _ = (&self.wake).write(&[0]);
        Ok(())
    }

    fn note(&self, clients_port: u16, server: &TcpStream) {
        self.ports.lock().expect("nobody panics with it").insert(port(server), clients_port);
    }
}

fn port(end: &TcpStream) -> u16 {
    end.local_addr().expect("it has an address").port()
}

fn listener() -> TcpListener {
    let socket = small(Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket"));
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("a free port");
    socket.listen(4096).expect("it can listen");
    socket.into()
}

/// Accepted sockets have the size of their listener.
fn small(socket: Socket) -> Socket {
    socket.set_send_buffer_size(BUFFER).expect("an option of sockets");
    socket
}

fn config(versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .expect("the provider has them")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config
}

/// Accepts any certificate. The server still has to prove that it has the key.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// The thread that moves the bytes.
struct Relay {
    shared: Arc<Shared>,
    config: Arc<ClientConfig>,
    clients: TcpListener,
    woken: UnixStream,
    connections: Vec<Connection>,
}

impl Relay {
    fn run(mut self) {
        loop {
            let [is_woken, is_asked] = self.wait_and_relay();
            if is_woken && !self.take_newcomers() {
                return;
            }
            if is_asked {
                self.accept();
            }
        }
    }

    /// Waits for events, and lets the connections that have some move bytes. Returns whether the relay was
    /// woken, and whether clients wait to be accepted.
    fn wait_and_relay(&mut self) -> [bool; 2] {
        let interests: Vec<_> = self.connections.iter().map(Connection::interest).collect();
        let mut polled =
            vec![PollFd::new(&self.woken, PollFlags::IN), PollFd::new(&self.clients, PollFlags::IN)];
        for (connection, interest) in self.connections.iter().zip(&interests) {
            for (end, flags) in [&connection.client, &connection.server].into_iter().zip(interest) {
                polled.extend(flags.map(|flags| PollFd::new(end, flags)));
            }
        }
        match poll(&mut polled, None) {
            // Nothing has an event then.
            Err(Errno::INTR) | Ok(_) => {}
            Err(error) => panic!("poll: {error}"),
        }
        let ready: Vec<PollFlags> = polled.iter().map(PollFd::revents).collect();
        drop(polled);
        let mut ready = ready.into_iter();
        let mut next = || ready.next().expect("one for each");
        let of_relay = [!next().is_empty(), !next().is_empty()];
        let mut interests = interests.into_iter();
        let ports = &self.shared.ports;
        self.connections.retain_mut(|connection| {
            let interest = interests.next().expect("one for each");
            let ready = interest.map(|flags| flags.map_or(PollFlags::empty(), |_| next()));
            let goes_on = ready.iter().all(PollFlags::is_empty) || connection.turn(ready);
            if !goes_on {
                ports.lock().expect("nobody panics with it").remove(&connection.port);
            }
            goes_on
        });
        of_relay
    }

    /// Takes the clients of this process. Returns false when the tunnel is dropped.
    fn take_newcomers(&mut self) -> bool {
        loop {
            match self.woken.read(&mut [0; 64]) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("reading from the tunnel's clients: {error}"),
            }
        }
        let newcomers = std::mem::take(&mut *self.shared.newcomers.lock().expect("nobody panics with it"));
        for (client, server) in newcomers {
            server.set_nonblocking(true).expect("an option of sockets");
            self.begin(client, server, false);
        }
        true
    }

    /// Accepts clients that have connected by themselves, and connects the server for each.
    fn accept(&mut self) {
        loop {
            let (client, from) = match self.clients.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // It was reset in the queue.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(error) => panic!("the tunnel accepts no client: {error}"),
            };
            let domain = Domain::for_address(self.shared.server);
            let server = small(Socket::new(domain, Type::STREAM, None).expect("a socket"));
            server.set_nonblocking(true).expect("an option of sockets");
            let is_refused = match server.connect(&self.shared.server.into()) {
                Ok(()) => false,
                Err(error) => error.raw_os_error() != Some(Errno::INPROGRESS.raw_os_error()),
            };
            if is_refused {
                reset_when_dropped(&client);
            } else {
                let server = server.into();
                self.shared.note(from.port(), &server);
                self.begin(client, server, true);
            }
        }
    }

    fn begin(&mut self, client: TcpStream, server: TcpStream, is_connecting: bool) {
        client.set_nonblocking(true).expect("an option of sockets");
        for end in [&client, &server] {
            end.set_nodelay(true).expect("an option of TCP");
            reset_when_dropped(end);
        }
        // The name of an address is not sent: the server chooses its default certificate.
        let name = ServerName::IpAddress(IpAddr::from(self.shared.server.ip()));
        let tls = ClientConnection::new(Arc::clone(&self.config), name).expect("a right configuration");
        let mut connection = Connection {
            port: port(&server),
            client,
            server,
            tls,
            is_connecting,
            requests: Way::Open,
            replies: Way::Open,
            server_ended: false,
            client_is_full: false,
            is_lost: [false; 2],
            moves: 0,
        };
        // The handshake begins.
        connection.pass_to_server();
        self.connections.push(connection);
    }
}

fn reset_when_dropped(end: &TcpStream) {
    SockRef::from(end).set_linger(Some(Duration::ZERO)).expect("an option of sockets");
}

/// A client and its connection to the server. It resets both when it is dropped before its end.
struct Connection {
    client: TcpStream,
    server: TcpStream,
    /// The port that the server sees.
    port: u16,
    tls: ClientConnection,
    /// Whether the server has not accepted the connection yet.
    is_connecting: bool,
    /// From the client to the server.
    requests: Way,
    /// From the server to the client.
    replies: Way,
    /// Whether nothing more is to be read from the server, mostly because it has sent FIN.
    server_ended: bool,
    /// Whether bytes for the client wait for room.
    client_is_full: bool,
    /// Whether the client, and the server, were found to be reset. The server also counts as lost after a
    /// breach of TLS, and after an end without `close_notify` when the client has all bytes. What a lost
    /// server has sent is still for the client.
    is_lost: [bool; 2],
    /// Counts everything that was moved.
    moves: u64,
}

/// One direction of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// More may come.
    Open,
    /// The sender has said that this is all: the client by FIN, the server by `close_notify`.
    Ended,
    /// The receiver has been told.
    Shut,
}

const CLIENT: usize = 0;
const SERVER: usize = 1;

impl Connection {
    /// The events to wait for at the client, and at the server. A reset is reported anyway. `None`: nothing
    /// more can happen there, but the kernel would report that again and again.
    fn interest(&self) -> [Option<PollFlags>; 2] {
        let mut client = PollFlags::empty();
        client.set(PollFlags::IN, self.takes_from_client());
        client.set(PollFlags::OUT, self.client_is_full);
        let mut server = PollFlags::empty();
        server.set(PollFlags::OUT, self.is_connecting || self.tls.wants_write());
        server.set(PollFlags::IN, self.takes_from_server());
        let is_over_at_client = self.requests != Way::Open && self.replies == Way::Shut;
        let is_over_at_server = self.is_lost[SERVER] || self.server_ended && self.requests == Way::Shut;
        [(!is_over_at_client).then_some(client), (!is_over_at_server).then_some(server)]
    }

    fn takes_from_client(&self) -> bool {
        let has_room = !self.is_connecting && !self.tls.is_handshaking() && !self.tls.wants_write();
        has_room && self.requests == Way::Open && self.is_lost == [false; 2]
    }

    fn takes_from_server(&self) -> bool {
        let has_room = !self.is_connecting && (self.replies != Way::Open || self.tls.wants_read());
        has_room && !self.server_ended
    }

    /// Moves what can be moved. Returns whether the connection goes on. If it does not, both ends have had
    /// a good end, or are to be dropped and thereby reset.
    fn turn(&mut self, ready: [PollFlags; 2]) -> bool {
        if self.is_connecting {
            let is_connected = matches!(self.server.take_error(), Ok(None));
            if !is_connected || ready[CLIENT].contains(PollFlags::ERR) {
                return false;
            }
            self.is_connecting = ready[SERVER].is_empty();
        }
        self.is_lost[SERVER] |= ready[SERVER].contains(PollFlags::ERR);
        // What has arrived before a reset is passed on.
        let mut is_stuck = false;
        for round in 0.. {
            let before = self.moves;
            self.take_from_client();
            self.pass_to_server();
            self.take_from_server();
            self.pass_to_client();
            is_stuck = self.moves == before;
            if is_stuck || round == ROUNDS && self.is_lost == [false; 2] {
                break;
            }
        }
        let client_is_lost = self.is_lost[CLIENT] || is_stuck && ready[CLIENT].contains(PollFlags::ERR);
        if client_is_lost || self.is_lost[SERVER] && !self.client_is_full {
            return false;
        }
        let is_over = self.server_ended && [self.requests, self.replies] == [Way::Shut; 2];
        if is_over {
            for end in [&self.client, &self.server] {
                let _ = SockRef::from(end).set_linger(None);
            }
        }
        !is_over
    }

    fn take_from_client(&mut self) {
        if !self.takes_from_client() {
            return;
        }
        let mut piece = [0; PIECE];
        match (&self.client).read(&mut piece) {
            Ok(0) => {
                self.tls.send_close_notify();
                self.requests = Way::Ended;
            }
            Ok(count) => {
                self.tls.writer().write_all(&piece[..count]).expect("nothing else waits to be sent");
            }
            Err(error) => {
                self.is_lost[CLIENT] |= !is_for_later(&error);
                return;
            }
        }
        self.moves += 1;
    }

    fn pass_to_server(&mut self) {
        if self.is_connecting || self.is_lost[SERVER] {
            return;
        }
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut &self.server) {
                Ok(_) => self.moves += 1,
                Err(error) => {
                    self.is_lost[SERVER] |= !is_for_later(&error);
                    return;
                }
            }
        }
        if self.requests == Way::Ended {
            self.is_lost[SERVER] |= self.server.shutdown(Shutdown::Write).is_err();
            self.requests = Way::Shut;
            self.moves += 1;
        }
    }

    fn take_from_server(&mut self) {
        while self.takes_from_server() {
            let is_open = self.replies == Way::Open;
            let read = if is_open {
                self.tls.read_tls(&mut &self.server)
            } else {
                // It counts for nothing, but shows whether the server has ended, or was reset.
                (&self.server).read(&mut [0; PIECE])
            };
            match read {
                Ok(0) => self.server_ended = true,
                Ok(_) if !is_open => {}
                Ok(_) => match self.tls.process_new_packets() {
                    Ok(state) if state.peer_has_closed() => self.replies = Way::Ended,
                    Ok(_) => {}
                    Err(error) => {
                        eprintln!("tunnel: the server breaks the rules of TLS: {error}");
                        // The alert that says so.
                        let _ = self.tls.write_tls(&mut &self.server);
                        self.is_lost[SERVER] = true;
                        self.server_ended = true;
                    }
                },
                Err(error) => {
                    self.is_lost[SERVER] |= !is_for_later(&error);
                    return;
                }
            }
            self.moves += 1;
        }
    }

    fn pass_to_client(&mut self) {
        self.client_is_full = false;
        while self.replies != Way::Shut && !self.is_lost[CLIENT] {
            let written = match self.tls.reader().into_first_chunk() {
                Ok([]) => {
                    // All has been sent, up to the server's `close_notify`.
                    self.is_lost[CLIENT] |= self.client.shutdown(Shutdown::Write).is_err();
                    self.replies = Way::Shut;
                    self.moves += 1;
                    return;
                }
                Ok(chunk) => (&self.client).write(chunk),
                Err(error) => {
                    // All has been sent, and nothing more comes.
                    self.is_lost[SERVER] |= error.kind() == ErrorKind::UnexpectedEof;
                    return;
                }
            };
            match written {
                Ok(count) => {
                    self.tls.reader().consume(count);
                    self.moves += 1;
                }
                Err(error) => {
                    self.client_is_full = is_for_later(&error);
                    self.is_lost[CLIENT] |= !self.client_is_full;
                    return;
                }
            }
        }
    }
}

fn is_for_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests;
