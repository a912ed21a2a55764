//! Listening TCP sockets in a network namespace, of all processes. `sock_diag(7)`.

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::tcp_info::AcceptQueue;

/// One listening socket. Several may have the same address (`SO_REUSEPORT`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListeningSocket {
    /// The address that it listens on.
    pub address: SocketAddr,
    /// Its accept queue.
    pub queue: AcceptQueue,
    /// Its drops, as in [`tcp_info::dropped`](crate::tcp_info::dropped).
    pub dropped: Option<u32>,
}

// Constants from linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h and net/tcp_states.h.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 0x001;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const INET_DIAG_SKMEMINFO: u16 = 7;
const SK_MEMINFO_DROPS: usize = 8;
const TCP_LISTEN: u32 = 10;
const HEADER: usize = 16;
/// `struct inet_diag_msg`
const MESSAGE: usize = 72;

/// All listening sockets in the calling thread's network namespace.
pub fn listening() -> io::Result<Vec<ListeningSocket>> {
    let netlink =
        socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG))?;
    let mut found = Vec::new();
    for family in [AddressFamily::INET, AddressFamily::INET6] {
        send(&netlink, &request(family), SendFlags::empty())?;
        receive(&netlink, &mut found)?;
    }
    Ok(found)
}

/// All listening sockets in a process's network namespace. `setns(2)`, in a thread started for it.
///
/// # Errors
///
/// There is no such process, or it is in another namespace and the caller has no `CAP_SYS_ADMIN`.
pub fn listening_at(pid: u32) -> io::Result<Vec<ListeningSocket>> {
    let namespace = File::open(format!("/proc/{pid}/ns/net"))?;
    let there = move || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        listening()
    };
    let thread = std::thread::Builder::new().spawn(there)?;
    thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))
}

/// `struct nlmsghdr` and `struct inet_diag_req_v2`, in the machine's byte order.
fn request(family: AddressFamily) -> [u8; HEADER + 56] {
    let mut bytes = [0; HEADER + 56];
    let length = bytes.len() as u32;
    bytes[..4].copy_from_slice(&length.to_ne_bytes());
    bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&(NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    bytes[HEADER] = family.as_raw() as u8;
    bytes[HEADER + 1] = libc::IPPROTO_TCP as u8;
    bytes[HEADER + 2] = 1 << (INET_DIAG_SKMEMINFO - 1);
    bytes[HEADER + 4..HEADER + 8].copy_from_slice(&(1_u32 << TCP_LISTEN).to_ne_bytes());
    bytes
}

/// Receives an answer up to its end.
fn receive(netlink: impl AsFd, found: &mut Vec<ListeningSocket>) -> io::Result<()> {
    // More than the kernel puts into one datagram of a dump.
    let mut room = vec![0; 64 << 10];
    loop {
        let (length, _) = recv(netlink.as_fd(), &mut room[..], RecvFlags::empty())?;
        let mut rest = &room[..length];
        while let Some((kind, body, next)) = take_message(rest) {
            match kind {
                NLMSG_DONE => return Ok(()),
                NLMSG_ERROR => {
                    let code = body.get(..4).map_or(0, |code| word(code) as i32);
                    return Err(io::Error::from_raw_os_error(-code));
                }
                _ => found.extend(parse(body)),
            }
            rest = next;
        }
    }
}

/// The kind of the first message, its content, and the bytes after it.
fn take_message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = word(bytes.get(..4)?) as usize;
    let kind = u16::from_ne_bytes([*bytes.get(4)?, *bytes.get(5)?]);
    let body = bytes.get(HEADER..length)?;
    Some((kind, body, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// Parses `struct inet_diag_msg` and its attributes.
fn parse(body: &[u8]) -> Option<ListeningSocket> {
    let message = body.get(..MESSAGE)?;
    let port = u16::from_be_bytes([message[4], message[5]]);
    let source: [u8; 16] = message[8..24].try_into().ok()?;
    let ip = if i32::from(message[0]) == libc::AF_INET {
        IpAddr::V4(Ipv4Addr::new(source[0], source[1], source[2], source[3]))
    } else {
        IpAddr::V6(Ipv6Addr::from(source))
    };
    // idiag_rqueue and idiag_wqueue.
    let queue = AcceptQueue { length: word(&message[56..60]), limit: word(&message[60..64]) };
    let mut dropped = None;
    let mut attributes = &body[MESSAGE..];
    while let [low, high, kind_low, kind_high, ..] = *attributes {
        let length = usize::from(u16::from_ne_bytes([low, high]));
        let Some(value) = attributes.get(4..length) else { break };
        if u16::from_ne_bytes([kind_low, kind_high]) == INET_DIAG_SKMEMINFO {
            dropped = value.chunks_exact(4).nth(SK_MEMINFO_DROPS).map(word);
        }
        attributes = attributes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(ListeningSocket { address: SocketAddr::new(ip, port), queue, dropped })
}

/// The first four bytes as a number.
fn word(bytes: &[u8]) -> u32 {
    u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_listener_is_found_with_its_queue() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let _clients: Vec<_> = (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
        for sockets in [listening().unwrap(), listening_at(std::process::id()).unwrap()] {
            let found: Vec<_> = sockets.iter().filter(|socket| socket.address == address).collect();
            assert_eq!(found.len(), 1, "{sockets:?}");
            assert_eq!((found[0].queue.length, found[0].dropped), (3, Some(0)));
            assert_eq!(Some(found[0].queue), crate::tcp_info::accept_queue(&listener).ok());
        }
        drop(listener);
        assert!(!listening().unwrap().iter().any(|socket| socket.address == address));
    }

    #[test]
    fn those_of_ipv6_are_found_as_well() {
        let Ok(listener) = TcpListener::bind("[::1]:0") else { return };
        let address = listener.local_addr().unwrap();
        assert!(listening().unwrap().iter().any(|socket| socket.address == address));
    }

    #[test]
    fn a_process_that_is_not_there_is_an_error() {
        assert_eq!(listening_at(u32::MAX).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn rubbish_is_not_taken_for_a_message() {
        assert_eq!(take_message(&[]), None);
        assert_eq!(take_message(&[200, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(take_message(&[0; 16]), None);
        assert_eq!(parse(&[0; 71]), None);
        let mut body = [0; 80];
        body[72] = 3;
        assert_eq!(parse(&body).unwrap().dropped, None);
    }
}
