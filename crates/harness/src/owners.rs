//! Finds out which process has which connection. ss(8) shows the inode of each socket, and `/proc/PID/fd`
//! shows which process has it open. If processes share one descriptor table, every process has everything
//! open. Then a socket belongs to the process that waits on the epoll instance that watches the socket.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

/// The sockets that a process has open, by inode.
pub fn sockets(pid: u32) -> HashSet<u64> {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return HashSet::new() };
    descriptors.flatten().filter_map(|entry| socket(&entry.path())).collect()
}

/// The sockets, by inode, that a process's epoll instance watches. Empty if the process has ended.
pub fn sockets_waited_for(pid: u32) -> HashSet<u64> {
    let Some(instance) = epoll_instance(pid) else { return HashSet::new() };
    let told = fs::read_to_string(format!("/proc/{pid}/fdinfo/{instance}")).unwrap_or_default();
    // `tfd: NUMBER events: ...`, proc(5).
    let number = |line: &str| Some(line.strip_prefix("tfd:")?.split_whitespace().next()?.to_owned());
    let numbers = told.lines().filter_map(number);
    numbers.filter_map(|number| socket(Path::new(&format!("/proc/{pid}/fd/{number}")))).collect()
}

/// The epoll instance that a process waits on, once it does. `None`: there is none, or the process has
/// ended.
fn epoll_instance(pid: u32) -> Option<u64> {
    let link = |number: &OsStr| fs::read_link(Path::new(&format!("/proc/{pid}/fd")).join(number));
    let is_instance =
        |number: &OsStr| link(number).is_ok_and(|link| link.as_os_str() == "anon_inode:[eventpoll]");
    let mut found = None;
    crate::eventually("the process waits for events", || {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        if !descriptors.into_iter().any(|entry| is_instance(&entry.file_name())) {
            return true;
        }
        // `NUMBER ARGUMENT ...` in hexadecimal, or `running`; proc(5).
        let call = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
        let argument = call.split_whitespace().nth(1).and_then(|text| text.strip_prefix("0x"));
        let argument = argument.and_then(|number| u64::from_str_radix(number, 16).ok());
        found = argument.filter(|number| is_instance(number.to_string().as_ref()));
        found.is_some()
    });
    found
}

/// The inode of a descriptor's socket, if the descriptor is a socket.
fn socket(descriptor: &Path) -> Option<u64> {
    let link = fs::read_link(descriptor).ok()?;
    link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// The server's ends of the connections to an IPv4 address: the port of each client, and the socket's
/// inode.
///
/// `ss` lets the kernel omit closed connections. When many tests run, there are tens of thousands of
/// them, and `/proc/net/tcp` has a line for each.
pub fn connections(server: SocketAddr) -> HashMap<u16, u64> {
    let which = ["exclude", "time-wait", "exclude", "listening", "src", &server.to_string()];
    let output = Command::new("ss").args(["-Htnea"]).args(which).output().expect("ss runs (iproute2)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().filter_map(connection).collect()
}

/// Parses a line: `STATE RECEIVED UNSENT LOCAL PEER ...`, with `ino:INODE` among the rest. A connection
/// that is closed, or waits in the accept queue, has no inode.
fn connection(line: &str) -> Option<(u16, u64)> {
    let (_, port) = line.split_whitespace().nth(4)?.rsplit_once(':')?;
    let inode = line.split_whitespace().find_map(|word| word.strip_prefix("ino:"))?;
    Some((port.parse().ok()?, inode.parse().ok().filter(|&inode| inode != 0)?))
}
