//! Holds more connections than one process may have descriptors for. Additional processes hold them, and
//! send requests on all of them when asked. To start such a process, the test program runs itself again.
//! So it must check its arguments first ([`is_told_to_hold`]).

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};

use crate::TIMEOUT;
use crate::client::Client;
use crate::variant::raise_descriptor_limit;

/// The argument that marks such a process. The server's address and two numbers follow.
const HOLD: &str = "hold-connections";

/// Connections that two processes hold.
pub struct Held([Holder; 2]);

struct Holder {
    process: Child,
    says: BufReader<ChildStdout>,
}

impl Held {
    /// Connects `each` times in each process. Returns when the kernel has accepted all connections.
    pub fn connect(address: SocketAddr, each: usize) -> Self {
        let mut held = Self([1, 2].map(|number| Holder::start(address, each, number)));
        held.0.iter_mut().for_each(|holder| holder.hear("connected"));
        held
    }

    /// Sends a request for a file on all connections before it reads the first reply. Then it checks
    /// every reply.
    pub fn ask(&mut self, target: &str, body: &str) {
        for holder in &mut self.0 {
            let input = holder.process.stdin.as_mut().expect("a pipe");
            writeln!(input, "{target} {}", body.trim_end()).expect("it listens");
        }
        self.0.iter_mut().for_each(|holder| holder.hear("answered"));
    }

    /// Closes all connections with resets.
    pub fn leave(self) {
        for mut holder in self.0 {
            drop(holder.process.stdin.take());
            assert!(holder.process.wait().expect("a child").success());
        }
    }
}

impl Holder {
    fn start(address: SocketAddr, each: usize, number: u8) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args([HOLD, &address.to_string(), &each.to_string(), &number.to_string()]);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let says = BufReader::new(process.stdout.take().expect("a pipe"));
        Self { process, says }
    }

    fn hear(&mut self, what: &str) {
        let mut said = String::new();
        self.says.read_line(&mut said).expect("text");
        assert_eq!(said.trim_end(), what);
    }
}

/// Whether this process was started to hold connections. In that case it has done so when this returns.
pub fn is_told_to_hold() -> bool {
    let mut arguments = std::env::args().skip(1);
    let is_told = arguments.next().as_deref() == Some(HOLD);
    if is_told {
        hold(arguments);
    }
    is_told
}

fn hold(mut arguments: impl Iterator<Item = String>) {
    raise_descriptor_limit();
    let mut next = || arguments.next().expect("another argument");
    let address: SocketAddr = next().parse().expect("an address");
    let each: usize = next().parse().expect("a number");
    let number: u8 = next().parse().expect("a small number");
    // Every process uses its own client address, because a pair of addresses has fewer than 30,000 ports.
    let from = SocketAddr::from((Ipv4Addr::new(127, 0, 1, number), 0));
    let connect = || {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.set_linger(Some(Duration::ZERO)).expect("an option of sockets");
        socket.bind(&SockAddr::from(from)).expect("an address");
        socket.connect_timeout(&address.into(), TIMEOUT).expect("the server takes connections");
        Client::over(socket.into())
    };
    let mut clients: Vec<Client> = (0..each).map(|_| connect()).collect();
    println!("connected");
    for line in std::io::stdin().lines() {
        let line = line.expect("text");
        let (target, body) = line.split_once(' ').expect("a file and what is in it");
        for client in &mut clients {
            client.ask("GET", target, &[]);
        }
        for client in &mut clients {
            let reply = client.reply();
            assert_eq!((reply.status, reply.text().trim_end()), (200, body));
        }
        println!("answered");
    }
}
