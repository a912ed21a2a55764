//! Free ports for servers.

use std::net::{Ipv4Addr, TcpListener};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Result, bail};
use machine::Machine;

/// Well-known servers use the ports below.
const FIRST_PORT: u16 = 10_000;

/// A port that is free on every address, and that no other call in this process has returned. It is outside
/// the range that the kernel gives to clients (ip(7), `ip_local_port_range`), because the kernel might give
/// such a port away before the server starts. In a network namespace the port is free as well.
pub(crate) fn free_port() -> Result<u16> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let of_clients = Machine::this().local_ports().map_or(32_768, |(first, _)| first as u16);
    let ports = u32::from(of_clients.saturating_sub(FIRST_PORT));
    for _ in 0..ports {
        // Several labs that run at the same time begin at different ports.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed).wrapping_add(process::id().wrapping_mul(61));
        let port = FIRST_PORT + (number % ports) as u16;
        if TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no port from {FIRST_PORT} to {of_clients}, where clients' ports begin, is free")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_port_is_given_once() {
        let ports: HashSet<u16> = (0..50).map(|_| free_port().unwrap()).collect();
        assert_eq!(ports.len(), 50);
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, free_port().unwrap())).unwrap();
        let own = taken.local_addr().unwrap().port();
        assert!((0..200).all(|_| free_port().unwrap() != own));
    }
}
