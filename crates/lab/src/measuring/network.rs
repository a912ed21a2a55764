//! The network between a server and its clients. It has two network namespaces, one for each, joined by
//! links (veth pairs). Nothing else uses this network, and it has its own counters and sysctls. A fresh one
//! has no connections in `TIME_WAIT`. A user that may not make namespaces gets the loopback interface, with
//! an address for each server.
//!
//! On a veth pair the CPU that sends also does the receiver's work. So a client pays for its packets that
//! the server drops. Receive packet steering corrects that: each end of a link can name the CPUs that
//! receive for it. In a virtual machine this is expensive, since one CPU exits the virtual machine to
//! interrupt the other. See ip-netns(8), veth(4), and "RPS" in the kernel's networking/scaling.rst.

use std::fmt::Write as _;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::ops::RangeInclusive;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::programs::child::output;
use crate::programs::janitor;
use crate::programs::ports::free_port;

/// The clients' addresses on each link. For each address, 64,000 connections fit into the time that one
/// stays in `TIME_WAIT`.
const CLIENTS: RangeInclusive<u8> = 2..=17;

/// The server's address on each link.
const SERVER: u8 = 1;

/// The start of more clients' addresses on the first link: `10.78.1.1` to `10.78.16.1`, each in a different
/// network.
const NETWORKS: &str = "10.78";

/// The clients' addresses on the loopback interface.
const LOOPBACK_SOURCES: &str = "127.0.0.2-127.0.0.17";

/// The CPUs that receive at the two ends of a link. Several CPUs share the connections by their hash. Where
/// none is named, the sending CPU receives.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) server_cpus: Vec<usize>,
    pub(crate) client_cpus: Vec<usize>,
}

/// The network of servers that are measured together.
#[derive(Debug)]
pub(crate) struct Network {
    /// The server's addresses, one on each link.
    pub(crate) addresses: Vec<SocketAddr>,
    /// An address on the clients' side, for services that a server's application uses there.
    pub(crate) of_clients: IpAddr,
    /// The clients' addresses in the form of `sluicelab load --source`, if there is only one link.
    pub(crate) only_sources: Option<String>,
    /// The start of clients' addresses in different networks. Two more numbers follow, and the first of
    /// them, 1 to 16, is the network.
    pub(crate) networks: &'static str,
    /// `None`: it is the machine's network.
    namespaces: Option<Namespaces>,
}

/// The namespaces. Dropping this ends their processes and removes them.
#[derive(Debug)]
struct Namespaces {
    server: String,
    client: String,
}

impl Network {
    /// Sets up `links` (at most 200), and `sysctls` (`name=value`) in the server's namespace.
    pub(crate) fn isolated(links: &[Link], sysctls: &[String]) -> Result<Self> {
        let listens = |link| SocketAddr::from((address(link as u8, SERVER), 8080));
        let [first, last] = [CLIENTS.start(), CLIENTS.end()].map(|host| address(0, *host));
        Ok(Self {
            namespaces: Some(Namespaces::new(links, sysctls)?),
            addresses: (0..links.len()).map(listens).collect(),
            of_clients: first.into(),
            only_sources: (links.len() == 1).then(|| format!("{first}-{last}")),
            networks: NETWORKS,
        })
    }

    /// This many addresses that no other server of this process has used, each with a free port.
    pub(crate) fn loopback(count: usize) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let address = |_| {
            let [_, _, high, low] = NUMBER.fetch_add(1, Ordering::Relaxed).to_be_bytes();
            Ok(SocketAddr::from((Ipv4Addr::new(127, 1, high, low.max(1)), free_port()?)))
        };
        let addresses: Vec<SocketAddr> = (0..count.max(1)).map(address).collect::<Result<_>>()?;
        Ok(Self {
            namespaces: None,
            of_clients: addresses[0].ip(),
            addresses,
            only_sources: Some(LOOPBACK_SOURCES.to_owned()),
            networks: "127.78",
        })
    }

    /// The network of a server that is already running: the loopback interface.
    pub(crate) fn of_running(address: SocketAddr) -> Self {
        Self {
            namespaces: None,
            addresses: vec![address],
            of_clients: address.ip(),
            only_sources: address.is_ipv4().then(|| LOOPBACK_SOURCES.to_owned()),
            networks: "127.78",
        }
    }

    fn of_server(&self) -> Option<&str> {
        self.namespaces.as_ref().map(|own| own.server.as_str())
    }

    fn of_client(&self) -> Option<&str> {
        self.namespaces.as_ref().map(|own| own.client.as_str())
    }

    /// Words that, in front of a command, make the command run where the server does.
    pub(crate) fn in_server(&self) -> Vec<String> {
        self.of_server().map(entering).unwrap_or_default()
    }

    /// Words that, in front of a command, make the command run where the clients do.
    pub(crate) fn in_client(&self) -> Vec<String> {
        self.of_client().map(entering).unwrap_or_default()
    }

    /// Opens connections to a server. Their sockets stay in the clients' namespace, whatever process holds
    /// them.
    pub(crate) fn connect(&self, address: SocketAddr, count: usize) -> Result<Vec<TcpStream>> {
        let each = move |number| {
            TcpStream::connect_timeout(&address, Duration::from_secs(5))
                .with_context(|| format!("idle connection {number} of {count}"))
        };
        within(self.of_client(), move || (1..=count).map(each).collect())
    }

    /// Whether a program listens at this address on the server's side.
    pub(crate) fn has_listener(&self, address: SocketAddr) -> bool {
        let connect = move || Ok(TcpStream::connect_timeout(&address, Duration::from_secs(5))?);
        within(self.of_server(), connect).is_ok()
    }
}

/// Runs a function in a namespace, or in this process's own. It uses a new thread, because a namespace
/// belongs to a thread.
fn within<T: Send>(namespace: Option<&str>, act: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let namespace = namespace.map(|name| File::open(format!("/run/netns/{name}"))).transpose()?;
    let enter_and_act = || {
        if let Some(namespace) = namespace {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        }
        act()
    };
    let joined = thread::scope(|scope| scope.spawn(enter_and_act).join());
    joined.map_err(|_| anyhow!("the thread that connects panicked"))?
}

/// Whether this process may make namespaces and control groups.
pub fn may_isolate() -> bool {
    rustix::process::geteuid().is_root()
        && Command::new("ip").args(["netns", "list"]).output().is_ok_and(|output| output.status.success())
}

fn entering(namespace: &str) -> Vec<String> {
    ["ip", "netns", "exec", namespace].map(str::to_owned).to_vec()
}

impl Namespaces {
    fn new(links: &[Link], sysctls: &[String]) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        ensure!((1..=200).contains(&links.len()), "a network has 1 to 200 links");
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = |end: &str| format!("{}{number}-{end}", janitor::prefix(std::process::id()));
        let this = Self { server: name("server"), client: name("client") };
        ip(&format!("netns add {}", this.server))?;
        ip(&format!("netns add {}", this.client))?;

        let mut server = "set -e; ip link set lo up\n".to_owned();
        let mut client = "set -e; ip link set lo up; sysctl -qw net.ipv4.ip_local_port_range='1024 65535' \
            net.ipv4.tcp_tw_reuse=1 net.ipv4.tcp_congestion_control=reno\n"
            .to_owned();
        for (number, link) in links.iter().enumerate() {
            let device = format!("veth{number}");
            ip(&format!(
                "-n {} link add {device} type veth peer name {device} netns {}",
                this.server, this.client
            ))?;
            let up = |cpus: &[usize]| {
                let mask = mask(cpus);
                format!(
                    "ip link set {device} up; echo {mask} > /sys/class/net/{device}/queues/rx-0/rps_cpus\n"
                )
            };
            server += &up(&link.server_cpus);
            client += &up(&link.client_cpus);
            writeln!(server, "ip addr add {}/24 dev {device}", address(number as u8, SERVER))?;
            for host in CLIENTS {
                writeln!(client, "ip addr add {}/24 dev {device}", address(number as u8, host))?;
            }
        }
        writeln!(server, "ip route add {NETWORKS}.0.0/16 dev veth0")?;
        for network in 1..=16 {
            writeln!(client, "ip addr add {NETWORKS}.{network}.1/32 dev veth0")?;
        }
        for sysctl in sysctls {
            writeln!(server, "sysctl -qw '{sysctl}'")?;
        }
        for (name, script) in [(&this.server, &server), (&this.client, &client)] {
            let done = output(Command::new("env").args(entering(name)).args(["sh", "-c", script]), "");
            done.with_context(|| format!("cannot set up the network {name}"))?;
        }
        Ok(this)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in [&self.server, &self.client] {
            if let Err(error) = janitor::remove_namespace(name) {
                eprintln!("{error:#}");
            }
        }
    }
}

fn address(link: u8, host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, link, host)
}

/// Runs `ip` with words separated by blanks.
fn ip(command: &str) -> Result<()> {
    let done = output(Command::new("ip").args(command.split(' ')), " (Debian package iproute2)");
    done.context("network namespaces need root").map(drop)
}

/// CPUs in the kernel's format: a bit for each, in words of 32 bits, the highest first.
fn mask(cpus: &[usize]) -> String {
    let words = cpus.iter().map(|cpu| cpu / 32 + 1).max().unwrap_or(1);
    let word = |at: usize| {
        cpus.iter().filter(|cpu| **cpu / 32 == at).fold(0_u32, |word, cpu| word | 1 << (cpu % 32))
    };
    (0..words).rev().map(|at| format!("{:08x}", word(at))).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_bits_in_words() {
        assert_eq!(mask(&[0, 3]), "00000009");
        assert_eq!(mask(&[]), "00000000");
        assert_eq!(mask(&[1, 32, 95]), "80000000,00000001,00000002");
    }
}
