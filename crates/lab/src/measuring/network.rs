//! Where a server and its clients meet. Two network namespaces, one for each, joined by links (veth pairs): a
//! network that nothing else uses, with counters and sysctls of its own. A fresh one has no connections in
//! `TIME_WAIT`. Who may not make namespaces has the loopback interface, with an address for each server.
//!
//! On a veth pair the CPU that sends also does the receiver's work, so that a client pays for the packets
//! that it has the server drop. Receive packet steering gives it back: each end of a link can name the CPUs
//! that receive for it. In a virtual machine this is dear, since one CPU interrupts the other by leaving it.
//! See ip-netns(8), veth(4), and "RPS" in the kernel's networking/scaling.rst.

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

/// The clients' addresses on each link: so many times 64,000 connections fit into the time that one stays in
/// `TIME_WAIT`.
const CLIENTS: RangeInclusive<u8> = 2..=17;

/// The server's address on each link.
const SERVER: u8 = 1;

/// How the addresses begin that clients have besides, on the first link: `10.78.1.1` to `10.78.16.1`, each in
/// a network of its own.
const NETWORKS: &str = "10.78";

/// The clients' addresses on the loopback interface.
const LOOPBACK_SOURCES: &str = "127.0.0.2-127.0.0.17";

/// Which CPUs receive at the two ends of a link: several share connections by their hash. Where none is named
/// the one that sent does.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) server_cpus: Vec<usize>,
    pub(crate) client_cpus: Vec<usize>,
}

/// A network, while servers are tried on it.
#[derive(Debug)]
pub(crate) struct Network {
    /// Where the server listens: an address on each link.
    pub(crate) addresses: Vec<SocketAddr>,
    /// An address where clients are, for what a server's application asks there.
    pub(crate) of_clients: IpAddr,
    /// The clients' addresses as `sluicelab load --source` takes them, if there is only one link.
    pub(crate) only_sources: Option<String>,
    /// How clients' addresses begin that are in networks of their own: two more numbers follow, of which the
    /// first, 1 to 16, says which network.
    pub(crate) networks: &'static str,
    /// `None`: it is this machine's.
    namespaces: Option<Namespaces>,
}

/// The namespaces. Dropping it ends what runs in them and removes them.
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

    /// So many addresses that no server of this process has had, each with a port that is free.
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

    /// Where a server is that runs already: on the loopback interface.
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

    /// Words before a command that has it run where the server does.
    pub(crate) fn in_server(&self) -> Vec<String> {
        self.of_server().map(entering).unwrap_or_default()
    }

    /// Words before a command that has it run where the clients do.
    pub(crate) fn in_client(&self) -> Vec<String> {
        self.of_client().map(entering).unwrap_or_default()
    }

    /// Opens connections to a server. Their sockets stay in the clients' namespace, whoever holds them.
    pub(crate) fn connect(&self, address: SocketAddr, count: usize) -> Result<Vec<TcpStream>> {
        let each = move |number| {
            TcpStream::connect_timeout(&address, Duration::from_secs(5))
                .with_context(|| format!("idle connection {number} of {count}"))
        };
        within(self.of_client(), move || (1..=count).map(each).collect())
    }

    /// Whether somebody listens at an address where the server runs.
    pub(crate) fn has_listener(&self, address: SocketAddr) -> bool {
        let connect = move || Ok(TcpStream::connect_timeout(&address, Duration::from_secs(5))?);
        within(self.of_server(), connect).is_ok()
    }
}

/// Does it in a namespace, or in this process's own: on a thread of its own, for the namespace is a thread's.
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

/// Of words between blanks.
fn ip(command: &str) -> Result<()> {
    let done = output(Command::new("ip").args(command.split(' ')), " (Debian package iproute2)");
    done.context("network namespaces need root").map(drop)
}

/// CPUs as the kernel takes them: a bit for each, in words of 32, the highest first.
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
