//! Whose connection is whose: `/proc/net/tcp` knows the inode of each socket, `/proc/PID/fd` who has it open.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::net::SocketAddr;

/// The sockets that a process has open, by inode.
pub fn sockets(pid: u32) -> HashSet<u64> {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return HashSet::new() };
    let inode = |link: std::path::PathBuf| -> Option<u64> {
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    descriptors.flatten().filter_map(|entry| fs::read_link(entry.path()).ok().and_then(inode)).collect()
}

/// The server's ends of the connections to an IPv4 address: the port of each client, and the socket's inode.
pub fn connections(server: SocketAddr) -> HashMap<u16, u64> {
    let table = fs::read_to_string("/proc/net/tcp").expect("the kernel tells its sockets");
    table.lines().skip(1).filter_map(|line| connection(line, server)).collect()
}

/// A line of the table is `NUMBER: LOCAL REMOTE STATE ...`, proc(5), with the inode in the tenth place. A connection that
/// is closed, or waits in the accept queue, has none.
fn connection(line: &str, server: SocketAddr) -> Option<(u16, u64)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (local, remote) = (endpoint(fields.get(1)?)?, endpoint(fields.get(2)?)?);
    let inode: u64 = fields.get(9)?.parse().ok()?;
    (local == server && remote.port() != 0 && inode != 0).then_some((remote.port(), inode))
}

/// `0100007F:1F90`: the address is a number in the byte order of the machine.
fn endpoint(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let address = u32::from_str_radix(address, 16).ok()?.to_ne_bytes();
    Some(SocketAddr::from((address, u16::from_str_radix(port, 16).ok()?)))
}
