//! A name server (RFC 1035) that answers as a test says, over UDP and TCP. It shares no code with the server.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;

/// A running name server.
pub struct NameServer {
    /// Where it listens.
    pub address: SocketAddr,
    zone: Arc<Zone>,
}

#[derive(Default)]
struct Zone {
    said: Mutex<HashMap<String, Said>>,
    /// The names that it was asked for, in lower case, one after the other.
    asked: Mutex<Vec<String>>,
}

/// What it says about a name.
#[derive(Clone)]
pub enum Said {
    /// These addresses, for so many seconds.
    Has(Vec<IpAddr>, u32),
    /// There is another name for it.
    IsAlso(&'static str),
    /// The answer is too long for UDP, and over TCP it is these addresses.
    TooLong(Vec<IpAddr>),
    /// It cannot find out (SERVFAIL).
    Fails,
    /// Nothing at all.
    Silent,
    /// The message is cut off after this many bytes.
    Cut(usize),
}

const A: u16 = 1;
const CNAME: u16 = 5;
const AAAA: u16 = 28;
/// A response to a standard query, with recursion.
const RESPONSE: u16 = 0x8180;
const TRUNCATED: u16 = 0x0200;
const SERVER_FAILURE: u16 = 2;
const NO_SUCH_NAME: u16 = 3;

impl NameServer {
    /// Starts a name server on a loopback address, which knows no name. It runs until the process ends.
    pub fn start() -> Self {
        // A port that is free for UDP may be in use for TCP.
        let both = || {
            let udp = UdpSocket::bind("127.0.0.1:0").expect("a socket");
            let tcp = TcpListener::bind(udp.local_addr().expect("an address")).ok()?;
            Some((udp, tcp))
        };
        let (udp, tcp) = (0..20).find_map(|_| both()).expect("a port that is free for both");
        let address = udp.local_addr().expect("an address");
        let zone = Arc::<Zone>::default();
        let of_udp = Arc::clone(&zone);
        thread::spawn(move || {
            let mut question = [0; 512];
            while let Ok((count, client)) = udp.recv_from(&mut question) {
                if let Some(answer) = of_udp.answer(&question[..count], false) {
                    udp.send_to(&answer, client).expect("loopback");
                }
            }
        });
        let of_tcp = Arc::clone(&zone);
        thread::spawn(move || {
            for stream in tcp.incoming() {
                of_tcp.serve(stream.expect("a connection"));
            }
        });
        Self { address, zone }
    }

    /// From now on, this is what it says about a name. About other names it says that they do not exist.
    pub fn say(&self, name: &str, said: Said) {
        self.zone.said.lock().expect("no panic").insert(name.to_owned(), said);
    }

    /// How often it was asked for a name.
    pub fn count(&self, name: &str) -> usize {
        self.zone.asked.lock().expect("no panic").iter().filter(|asked| *asked == name).count()
    }
}

impl Zone {
    /// Answers one question over TCP, where messages begin with their length (section 4.2.2).
    fn serve(&self, mut stream: TcpStream) {
        let mut length = [0; 2];
        stream.read_exact(&mut length).expect("a length");
        let mut question = vec![0; u16::from_be_bytes(length).into()];
        stream.read_exact(&mut question).expect("a question");
        if let Some(answer) = self.answer(&question, true) {
            stream.write_all(&(answer.len() as u16).to_be_bytes()).expect("a client that reads");
            stream.write_all(&answer).expect("a client that reads");
        }
    }

    /// The answer to a message with one question (section 4.1).
    fn answer(&self, message: &[u8], by_tcp: bool) -> Option<Vec<u8>> {
        let (mut name, mut at) = (Vec::new(), 12);
        while message[at] != 0 {
            let length = usize::from(message[at]);
            name.push(String::from_utf8_lossy(&message[at + 1..=at + length]).to_ascii_lowercase());
            at += 1 + length;
        }
        let question = &message[12..at + 5];
        let kind = u16::from_be_bytes([message[at + 1], message[at + 2]]);
        let mut name = name.join(".");
        self.asked.lock().expect("no panic").push(name.clone());
        let known = self.said.lock().expect("no panic").clone();
        let (mut flags, mut records, mut count, mut most) = (RESPONSE, Vec::new(), 0, usize::MAX);
        loop {
            let (addresses, seconds) = match known.get(&name) {
                Some(Said::Has(addresses, seconds)) => (addresses, *seconds),
                Some(Said::TooLong(_)) if !by_tcp => {
                    flags |= TRUNCATED;
                    break;
                }
                Some(Said::TooLong(addresses)) => (addresses, 60),
                Some(Said::IsAlso(other)) => {
                    record(&mut records, &name, CNAME, 60, &encoded(other));
                    count += 1;
                    (*other).clone_into(&mut name);
                    continue;
                }
                Some(Said::Cut(length)) => {
                    most = *length;
                    break;
                }
                Some(Said::Silent) => return None,
                Some(Said::Fails) => {
                    flags |= SERVER_FAILURE;
                    break;
                }
                None => {
                    flags |= NO_SUCH_NAME;
                    break;
                }
            };
            for address in addresses {
                match address {
                    IpAddr::V4(v4) if kind == A => record(&mut records, &name, A, seconds, &v4.octets()),
                    IpAddr::V6(v6) if kind == AAAA => {
                        record(&mut records, &name, AAAA, seconds, &v6.octets());
                    }
                    _ => continue,
                }
                count += 1;
            }
            break;
        }
        let mut answer = message[..2].to_vec();
        for number in [flags, 1, count, 0, 0] {
            answer.extend_from_slice(&number.to_be_bytes());
        }
        answer.extend_from_slice(question);
        answer.extend_from_slice(&records);
        answer.truncate(most);
        Some(answer)
    }
}

/// A name in a message: each part with its length before it.
fn encoded(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.') {
        bytes.push(label.len() as u8);
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

/// Adds a resource record of class IN (section 4.1.3).
fn record(to: &mut Vec<u8>, name: &str, kind: u16, seconds: u32, data: &[u8]) {
    to.extend_from_slice(&encoded(name));
    to.extend_from_slice(&kind.to_be_bytes());
    to.extend_from_slice(&1_u16.to_be_bytes());
    to.extend_from_slice(&seconds.to_be_bytes());
    to.extend_from_slice(&(data.len() as u16).to_be_bytes());
    to.extend_from_slice(data);
}
