//! Two network namespaces, one for the server and one for its clients, joined by links (veth pairs): a
//! network that nothing else uses, with counters and sysctls of its own. A fresh one has no connections in
//! `TIME_WAIT`.
//!
//! On a veth pair the CPU that sends also does the receiver's work, so that a client pays for the packets
//! that it has the server drop. Receive packet steering gives it back: each end of a link names the CPUs that
//! receive for it. See ip-netns(8), veth(4), and "RPS" in the kernel's networking/scaling.rst.

use std::fmt::Write as _;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::ops::RangeInclusive;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::child::output;
use crate::janitor;

/// The clients' addresses on each link: so many times 64,000 connections fit into the time that one stays in
/// `TIME_WAIT`.
const CLIENTS: RangeInclusive<u8> = 2..=17;

/// The server's address on each link.
const SERVER: u8 = 1;

/// Which CPUs receive at the two ends of a link: several share connections by their hash.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) server_cpus: Vec<usize>,
    pub(crate) client_cpus: Vec<usize>,
}

/// The namespaces. Dropping it ends what runs in them and removes them.
#[derive(Debug)]
pub(crate) struct Network {
    server: String,
    client: String,
    links: u8,
}

impl Network {
    /// Sets up `links` (at most 200), and `sysctls` (`name=value`) in the server's namespace.
    pub(crate) fn new(links: &[Link], sysctls: &[String]) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        ensure!((1..=200).contains(&links.len()), "a network has 1 to 200 links");
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = |end: &str| format!("{}{number}-{end}", janitor::prefix(std::process::id()));
        let this = Self { server: name("server"), client: name("client"), links: links.len() as u8 };
        ip(&format!("netns add {}", this.server))?;
        ip(&format!("netns add {}", this.client))?;

        let mut server = "set -e; ip link set lo up\n".to_owned();
        let mut client = "set -e; ip link set lo up; sysctl -qw net.ipv4.ip_local_port_range='1024 65535' \
            net.ipv4.tcp_tw_reuse=1\n"
            .to_owned();
        for (number, link) in links.iter().enumerate() {
            let device = format!("veth{number}");
            ip(&format!(
                "-n {} link add {device} type veth peer name {device} netns {}",
                this.server, this.client
            ))?;
            let up = |cpus: &[usize]| {
                let mask = cpus.iter().fold(0_u64, |mask, cpu| mask | 1 << cpu);
                format!(
                    "ip link set {device} up; echo {mask:x} > /sys/class/net/{device}/queues/rx-0/rps_cpus\n"
                )
            };
            server += &up(&link.server_cpus);
            client += &up(&link.client_cpus);
            writeln!(server, "ip addr add {}/24 dev {device}", address(number as u8, SERVER))?;
            for host in CLIENTS {
                writeln!(client, "ip addr add {}/24 dev {device}", address(number as u8, host))?;
            }
        }
        for sysctl in sysctls {
            writeln!(server, "sysctl -qw '{sysctl}'")?;
        }
        this.set_up(&this.in_server(), &server)?;
        this.set_up(&this.in_client(), &client)?;
        Ok(this)
    }

    /// Where the server listens: an address on each link.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        (0..self.links).map(|link| SocketAddr::from((address(link, SERVER), 8080))).collect()
    }

    /// The clients' addresses as `sluicelab load --source` takes them, if there is only one link.
    pub(crate) fn only_sources(&self) -> Option<String> {
        (self.links == 1).then(|| format!("{}-{}", address(0, *CLIENTS.start()), address(0, *CLIENTS.end())))
    }

    /// Words before a command that has it run in the server's namespace.
    pub(crate) fn in_server(&self) -> Vec<String> {
        ["ip", "netns", "exec", &self.server].map(str::to_owned).to_vec()
    }

    /// Words before a command that has it run in the clients' namespace.
    pub(crate) fn in_client(&self) -> Vec<String> {
        ["ip", "netns", "exec", &self.client].map(str::to_owned).to_vec()
    }

    /// Opens connections to a server in its namespace. Their sockets stay in the clients' namespace, whoever
    /// holds them.
    pub(crate) fn connect(&self, address: SocketAddr, count: usize) -> Result<Vec<TcpStream>> {
        let namespace = File::open(format!("/run/netns/{}", self.client))?;
        let connect = move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            let each = |number| {
                TcpStream::connect_timeout(&address, Duration::from_secs(5))
                    .with_context(|| format!("idle connection {number} of {count}"))
            };
            (1..=count).map(each).collect()
        };
        // A thread of its own, for the namespace is a thread's.
        thread::spawn(connect).join().map_err(|_| anyhow!("the thread that connects panicked"))?
    }

    fn set_up(&self, entering: &[String], script: &str) -> Result<()> {
        let done = output(Command::new("env").args(entering).args(["sh", "-c", script]), "");
        done.with_context(|| format!("cannot set up the network {}", self.server)).map(drop)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in [&self.server, &self.client] {
            if let Err(error) = janitor::remove_namespace(name) {
                eprintln!("bench: {error:#}");
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
